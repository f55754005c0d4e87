package rules

import (
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules/pattern"
)

// Aliased are the rules for the servers that are set up; aliases are their names by
// alias, and by name. See [pattern.Names].
func (r *Rules) Aliased(aliases map[string]string) *Rules {
	return r.renamed(pattern.Names{Aliases: aliases, Table: r.names.Table})
}

// Named are the rules for the tools of a table, whose exported names may stand in them.
func (r *Rules) Named(table *catalog.Table) *Rules {
	return r.renamed(pattern.Names{Aliases: r.names.Aliases, Table: table})
}

func (r *Rules) renamed(n pattern.Names) *Rules {
	out := *r
	out.names = n
	for _, lists := range []struct {
		of  func(pattern.Pattern) pattern.Pattern
		all []*[]rule
	}{{n.Server, out.serverLists()}, {n.Tool, out.toolLists()}} {
		for _, list := range lists.all {
			*list = slices.Clone(*list)
			for i := range *list {
				(*list)[i].pattern = lists.of((*list)[i].pattern)
			}
			slices.SortFunc(*list, func(a, b rule) int { return a.pattern.Compare(b.pattern) })
		}
	}
	out.limits = slices.Clone(r.limits)
	for i := range out.limits {
		b := &out.limits[i]
		if b.Tool {
			b.pattern = n.Tool(b.pattern)
		} else {
			b.pattern = n.Server(b.pattern)
		}
	}
	return &out
}

func (r *Rules) serverLists() []*[]rule {
	return []*[]rule{&r.trust, &r.serverAllow, &r.serverDeny, &r.readAllow, &r.readDeny}
}

func (r *Rules) toolLists() []*[]rule { return []*[]rule{&r.risk, &r.toolAllow, &r.toolDeny} }

// Idle are the rules of the file that cover no server that is set up and none of the
// tools that are known, in the order of the file: nothing follows from them.
func (r *Rules) Idle() []Source {
	var out []Source
	look := func(lists []*[]rule, tool bool) {
		for _, list := range lists {
			for _, x := range *list {
				if r.names.Idle(x.pattern, tool) {
					out = append(out, x.source)
				}
			}
		}
	}
	look(r.serverLists(), false)
	look(r.toolLists(), true)
	for _, b := range r.limits {
		if r.names.Idle(b.pattern, b.Tool) {
			out = append(out, b.Source)
		}
	}
	slices.SortStableFunc(out, func(a, b Source) int { return a.Line - b.Line })
	return out
}
