package view

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// Directory finds servers, resources and prompts by the names that clients know.
// It is safe for concurrent use.
type Directory struct {
	ready   func() []Server
	settled <-chan struct{}

	mu      sync.Mutex
	aliases map[string]string // the last alias of each server, by the server's name
	only    map[onlyKey]*View
	prompts *catalog.Table // by the names that clients know; nil until they are looked for
}

// onlyKey stands for the view of one server that another view allows.
type onlyKey struct {
	of     *View
	server string
}

// Origin is a server, and the name or URI that something has at that server.
type Origin struct{ Server, Name string }

// NewDirectory makes a Directory of the servers that ready returns; a nil ready
// stands for none. A settled that is not nil is closed when the servers that are
// started with the platform are ready or have failed.
func NewDirectory(ready func() []Server, settled <-chan struct{}) *Directory {
	if ready == nil {
		ready = func() []Server { return nil }
	}
	return &Directory{ready: ready, settled: settled, aliases: map[string]string{}, only: map[onlyKey]*View{}}
}

// settleTime is how long Await waits for the servers that are being started. Some hosts
// give the first list up after five seconds; what is ready later they are told of.
const settleTime = 4 * time.Second

// Await waits until the servers that are started with the platform are ready or
// have failed, for four seconds at most.
func (d *Directory) Await(ctx context.Context) {
	select {
	case <-d.settled:
		return
	default:
	}
	if d.settled == nil {
		return
	}
	t := time.NewTimer(settleTime)
	defer t.Stop()
	select {
	case <-d.settled:
	case <-t.C:
	case <-ctx.Done():
	}
}

// Ready is the server with a name; ok is false where it is not ready.
func (d *Directory) Ready(name string) (s Server, ok bool) {
	for _, s := range d.ready() {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

// Alias is the alias of a server, or "". A server that has stopped keeps its last
// alias, so that clients who see the server by its alias are told that it stopped.
func (d *Directory) Alias(server string) string {
	s, ready := d.Ready(server)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ready {
		d.aliases[server] = s.Alias
	}
	return d.aliases[server]
}

// Shown are the ready servers that a view shows, by name.
func (d *Directory) Shown(v *View) map[string]Server {
	out := map[string]Server{}
	for _, s := range d.ready() {
		if v.Shows(s.Name, s.Alias) {
			out[s.Name] = s
		}
	}
	return out
}

// Only is the view of one server under its own names that v allows, or nil where v
// shows no ready server with that name or alias. It waits for servers that are
// being started. The same arguments give the same view.
func (d *Directory) Only(ctx context.Context, v *View, server string) *View {
	d.mu.Lock()
	only := d.only[onlyKey{v, server}]
	d.mu.Unlock()
	if only != nil {
		return only
	}
	d.Await(ctx)
	for _, s := range d.ready() {
		if server != s.Name && server != s.Alias || !v.Shows(s.Name, s.Alias) {
			continue
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if only = d.only[onlyKey{v, server}]; only == nil {
			only = &View{Client: v.Client, Servers: v.Servers, Tools: v.Tools, Only: s.Name, Approve: v.Approve}
			d.only[onlyKey{v, server}] = only
		}
		return only
	}
	return nil
}

// Resource finds the resource with a URI that the client of a view knows.
func (d *Directory) Resource(v *View, uri string) (Origin, *rpc.Error) {
	if v.Only != "" {
		return Origin{v.Only, uri}, nil
	}
	for name, s := range d.Shown(v) {
		if own, ok := strings.CutPrefix(uri, uriPrefix(name, s.Alias)); ok {
			return Origin{name, own}, nil
		}
	}
	data, _ := json.Marshal(map[string]string{"uri": uri}) // strings always marshal
	return Origin{}, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "there is no such resource", Data: data}
}

// Prompt finds the prompt with a name that the client of a view knows. A name that
// is not known yet is looked for in what read lists.
func (d *Directory) Prompt(ctx context.Context, v *View, name string, read Reader) (Origin, *rpc.Error) {
	if v.Only != "" {
		return Origin{v.Only, name}, nil
	}
	servers := d.Shown(v)
	find := func() (Origin, bool) {
		d.mu.Lock()
		names := d.prompts
		d.mu.Unlock()
		if names == nil {
			return Origin{}, false
		}
		p, err := names.Resolve(name)
		if err != nil {
			return Origin{}, false
		}
		_, visible := servers[p.Source.Server]
		return Origin{p.Source.Server, p.Source.OriginalName}, visible
	}
	o, ok := find()
	if !ok {
		items, err := read(ctx, "")
		if err != nil {
			return Origin{}, rpc.ErrorOf(err)
		}
		known := promptNames(items, d.Shown(&View{}))
		d.mu.Lock()
		d.prompts = known
		d.mu.Unlock()
		o, ok = find()
	}
	if !ok {
		return Origin{}, &rpc.Error{Code: rpc.CodeInvalidParams, Message: fmt.Sprintf("unknown prompt: %.200q", name)}
	}
	return o, nil
}
