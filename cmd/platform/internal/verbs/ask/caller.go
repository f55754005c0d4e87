package ask

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/host"
)

// apiCaller is the running platform as a loop sees it, for one run at a time.
type apiCaller struct {
	api     *control.Client
	aliases map[string]string // by server
	prefix  string            // of exported names

	last  []control.Tool
	tools []*catalog.Tool
	names map[catalog.ID]string // under which the platform exports the tools
}

// servers checks names that were given and returns them without aliases.
func (a *apiCaller) servers(ctx context.Context, given []string) (names []string, err error) {
	if _, err := a.Tools(ctx); err != nil {
		return nil, err
	}
	if len(a.last) > 0 {
		a.prefix, _, _ = strings.Cut(a.last[0].ExportName, "__")
	}
	for _, g := range given {
		name := ""
		for server, alias := range a.aliases {
			if g == server || name == "" && g == alias {
				name = server
			}
		}
		if name == "" {
			var all []control.Server
			for _, server := range slices.Sorted(maps.Keys(a.aliases)) {
				all = append(all, control.Server{Name: server, Alias: a.aliases[server]})
			}
			return nil, control.NoServer(g, all)
		}
		names = append(names, name)
	}
	return names, nil
}

// Tools keeps its records while the platform's stay as they are.
func (a *apiCaller) Tools(ctx context.Context) ([]*catalog.Tool, error) {
	list, err := a.api.Tools(ctx, "")
	if err != nil {
		return nil, err
	}
	if a.names != nil && reflect.DeepEqual(list, a.last) {
		return a.tools, nil
	}
	servers, err := a.api.Servers(ctx)
	if err != nil {
		return nil, err
	}
	a.aliases = map[string]string{}
	for _, s := range servers {
		a.aliases[s.Name] = s.Alias
	}
	a.last, a.tools, a.names = list, nil, map[catalog.ID]string{}
	for _, t := range list {
		tool := *t.Tool // as last has it, without the alias
		tool.Alias = a.aliases[tool.Source.Server]
		a.tools = append(a.tools, &tool)
		a.names[tool.ID()] = t.ExportName
	}
	return a.tools, nil
}

func (a *apiCaller) Call(ctx context.Context, tool catalog.ID, c host.Call) (*host.Result, error) {
	res, err := a.api.Call(ctx, control.CallRequest{ID: c.ID, Name: a.names[tool], Arguments: c.Arguments, Entrance: c.Entrance, Provenance: c.Provenance, Wait: c.Wait})
	if err != nil {
		return nil, err
	}
	return &host.Result{
		CallID: res.CallID, Tool: tool, Name: res.Tool, Raw: res.Result, IsError: res.IsError,
		Duration: time.Duration(res.DurationMS) * time.Millisecond, Waited: time.Duration(res.WaitedMS) * time.Millisecond,
		Flags: res.Flags, Artifact: res.Artifact, Replayed: res.Replayed,
	}, nil
}
