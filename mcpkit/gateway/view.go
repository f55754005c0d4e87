package gateway

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// View is what one client may see and do. The zero View sees everything. It is
// given to a Gateway as a pointer and not changed after that.
type View struct {
	// Client is the name of the client, for the record; empty where nobody gave it one.
	Client string
	// Servers are the servers that it sees, by name or alias, and Tools the tools,
	// by their canonical names, both with * and ? as in a shell. Empty means all.
	Servers, Tools []string
	// Only, if set, is the one server, by name or alias, whose tools, resources and
	// prompts the client sees under their own names, as if it talked to that server.
	Only string
	// Approve lets the client's user answer what the policy asks a person.
	Approve bool

	offered atomic.Pointer[offer]
}

// Check says why a pattern of the view is none.
func (v *View) Check() error {
	for _, p := range append(append([]string{}, v.Servers...), v.Tools...) {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q is no pattern", p)
		}
	}
	return nil
}

// server reports whether the view shows a server.
func (v *View) server(name, alias string) bool {
	if v.Only != "" && v.Only != name && v.Only != alias {
		return false
	}
	return len(v.Servers) == 0 || matches(v.Servers, name) || alias != "" && matches(v.Servers, alias)
}

func (v *View) tool(t *catalog.Tool) bool {
	return v.server(t.Source.Server, t.Alias) && (len(v.Tools) == 0 || matches(v.Tools, t.Name))
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}

// offer is the tools of a view under a catalogue.
type offer struct {
	table *catalog.Table
	tools map[string]*catalog.Tool
	pages [][]byte // of the list, each the members of a result
}

// perPage is how many tools one page of the list has at most.
const perPage = 500

// offer is what the view shows of the present catalogue.
func (v *View) offer(table *catalog.Table) *offer {
	if o := v.offered.Load(); o != nil && o.table == table {
		return o
	}
	o := &offer{table: table, tools: map[string]*catalog.Tool{}}
	var page []byte
	n := 0
	flush := func(more bool) {
		page = append(append([]byte(`"tools":[`), page...), ']')
		if more {
			page = append(page, `,"nextCursor":"`+strconv.Itoa(len(o.pages)+1)+`"`...)
		}
		o.pages, page, n = append(o.pages, page), nil, 0
	}
	for _, t := range table.Tools() {
		if !v.tool(t) {
			continue
		}
		name := table.ExportName(t.ID())
		if v.Only != "" {
			name = t.Source.OriginalName
		}
		if o.tools[name] != nil { // the hash of one is the name of another
			continue
		}
		o.tools[name] = t
		if n == perPage {
			flush(true)
		}
		if n++; n > 1 {
			page = append(page, ',')
		}
		page = append(page, shown(t, name)...)
	}
	flush(false)
	v.offered.Store(o)
	return o
}

// shown is a tool as its server described it, under the name that it has here.
// What the gateway does not carry, tasks, is not promised.
func shown(t *catalog.Tool, name string) []byte {
	raw := t.Raw
	if raw == nil { // a tool that no server sent
		raw = append([]byte(`{"description":`), rpc.Quote(t.Description)...)
		raw = append(append(append(raw, `,"inputSchema":`...), t.InputSchema...), '}')
	}
	return rpc.With(raw, "name", rpc.Quote(name), "execution")
}

// page finds a page of the list by its cursor.
func (o *offer) page(cursor string) ([]byte, *rpc.Error) {
	i := 0
	if cursor != "" {
		var err error
		if i, err = strconv.Atoi(cursor); err != nil || i < 1 || i >= len(o.pages) {
			return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "there is no page " + strconv.Quote(strings.ToValidUTF8(cursor, "?"))}
		}
	}
	return o.pages[i], nil
}

// Only is the view of one server under its own names that v allows, or nil where
// v shows no such server that is ready; it waits for servers that are being
// started. The same arguments give the same view.
func (g *Gateway) Only(ctx context.Context, v *View, server string) *View {
	g.mu.Lock()
	only := g.only[onlyKey{v, server}]
	g.mu.Unlock()
	if only != nil || g.o.Servers == nil {
		return only
	}
	g.await(ctx)
	for _, s := range g.o.Servers() {
		if server != s.Name && server != s.Alias || !v.server(s.Name, s.Alias) {
			continue
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if only = g.only[onlyKey{v, server}]; only == nil {
			only = &View{Client: v.Client, Servers: v.Servers, Tools: v.Tools, Only: s.Name, Approve: v.Approve}
			g.only[onlyKey{v, server}] = only
		}
		return only
	}
	return nil
}

// onlyKey is a view of one server that another view allows.
type onlyKey struct {
	of     *View
	server string
}
