// Package view knows what one client of the gateway may see: which servers, tools,
// resources and prompts, under which names and URIs, and in which pages.
//
//	v := &view.View{Servers: []string{"weather"}}
//	tool := v.Offer(table).Tool("weather__get_weather")
//
// A [View] filters and names; a [Directory] adds the servers that are ready at the
// moment. Neither of them calls a tool.
package view

import (
	"fmt"
	"path"
	"slices"
	"sync/atomic"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// View is what one client may see and do. The zero View shows everything. The
// gateway is given a View as a pointer, and the View is not changed after that.
type View struct {
	// Client is the name of the client, for the record; empty where nobody named it.
	Client string
	// Servers are patterns of the names or aliases of the servers that are shown, and
	// Tools patterns of the canonical names of the tools, both with * and ? as in a
	// shell. Empty means all.
	Servers, Tools []string
	// Only, if set, is the one server, by name or alias, whose tools, resources and
	// prompts the client sees under their own names, as if it talked to that server.
	Only string
	// Approve lets the client's user answer the questions of the policy.
	Approve bool

	offered atomic.Pointer[Offer]
}

// Check returns an error for a pattern that is malformed.
func (v *View) Check() error {
	for _, p := range slices.Concat(v.Servers, v.Tools) {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q is no pattern", p)
		}
	}
	return nil
}

// Shows reports whether the view shows a server. The alias may be empty.
func (v *View) Shows(server, alias string) bool {
	if v.Only != "" && v.Only != server && v.Only != alias {
		return false
	}
	return len(v.Servers) == 0 || matches(v.Servers, server) || alias != "" && matches(v.Servers, alias)
}

// showsTool reports whether the view shows a tool.
func (v *View) showsTool(t *catalog.Tool) bool {
	return v.Shows(t.Source.Server, t.Alias) && (len(v.Tools) == 0 || matches(v.Tools, t.Name))
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}
