package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// maxPrefix leaves a name room for its tool.
const maxPrefix = 16

// name gives tools the names under which they are offered, sorted by these. Tools
// that could not be told apart, by any case of letters, are left out, all of them.
func (x *Export) name(tools []*catalog.Tool) []*item {
	var items []*item
	owners := map[string][]*item{}
	for _, t := range tools {
		it := &item{tool: t}
		if name := x.table.ExportName(t.ID()); name != "" {
			it.name = x.fitName(name, t.ID())
		}
		key := strings.ToLower(it.name)
		owners[key] = append(owners[key], it)
		items = append(items, it)
	}
	items = slices.DeleteFunc(items, func(it *item) bool {
		refused := it.name == "" || len(owners[strings.ToLower(it.name)]) > 1
		if refused {
			x.report(it.tool, "", "same_name", jsonOf(it.tool.Source.OriginalName), nil, true)
		}
		return refused
	})
	slices.SortFunc(items, func(a, b *item) int { return strings.Compare(a.name, b.name) })
	return items
}

// limit keeps as many tools as the provider takes. The servers take turns, in the
// order of their names, and each gives its tools in the order of their exported names:
// a server with many tools costs the others none of a fair share, and what is chosen
// depends on nothing but the names.
func (x *Export) limit() {
	most := x.profile.toolsMax
	if most == 0 || len(x.items) <= most {
		return
	}
	turn := make(map[*item]int, len(x.items))
	given := map[string]int{}
	for _, it := range x.items {
		turn[it] = given[it.tool.Source.Server]
		given[it.tool.Source.Server]++
	}
	chosen := slices.Clone(x.items)
	slices.SortStableFunc(chosen, func(a, b *item) int {
		return cmp.Or(turn[a]-turn[b], strings.Compare(a.tool.Source.Server, b.tool.Source.Server))
	})
	for _, it := range chosen[most:] {
		x.report(it.tool, "", "tool_limit", jsonOf(len(chosen)), jsonOf(most), true)
		x.left[it.tool.ID()] = true
	}
	x.items = slices.DeleteFunc(x.items, func(it *item) bool { return x.left[it.tool.ID()] })
}

// fitName is the catalogue's name of a tool where the provider and the reserved
// names allow it; else one that ends in a hash of the pair. Either way it
// depends on nothing that other tools do.
func (x *Export) fitName(name string, id catalog.ID) string {
	lead := ""
	if c := name[0]; x.profile.letterFirst && (c == '-' || c >= '0' && c <= '9') {
		lead = "_"
	}
	fitted := lead + name
	sum := sha256.Sum256([]byte(id.Server + "\x00" + id.Tool))
	for digits := 16; digits <= 56 && (len(fitted) > catalog.MaxExportName || x.reserved[strings.ToLower(fitted)]); digits += 4 {
		tail := "_" + hex.EncodeToString(sum[:])[:digits]
		fitted = lead + name
		fitted = fitted[:min(len(fitted), catalog.MaxExportName-len(tail))] + tail
	}
	return fitted
}

// spoken are prefixes that models put before a function's name.
var spoken = []string{"functions.", "functions:", "default_api.", "default_api:", "tools.", "tools:", "tool."}

// bare is a name without blanks around it, a spoken prefix, and the number that some
// models put behind it ("functions.NAME:0").
func bare(name string) string {
	name = strings.TrimSpace(name)
	for _, p := range spoken {
		if rest, ok := strings.CutPrefix(name, p); ok {
			name = rest
			break
		}
	}
	if rest, number, ok := strings.Cut(name, ":"); ok && number != "" && strings.Trim(number, "0123456789") == "" {
		name = rest
	}
	return name
}

// resolve finds the tool that a model means by name. repaired says what was cut
// off to find it.
func (x *Export) resolve(name string) (it *item, repaired string, err *fault.Error) {
	if it := x.byName[name]; it != nil {
		return it, "", nil
	}
	if x.reserved[strings.ToLower(name)] {
		return nil, "", fault.New(fault.ToolNotFound, "%q is a local function, not a tool of a server", name)
	}
	if it := x.byName[bare(name)]; it != nil {
		return it, fmt.Sprintf("the name %q was called as %q", it.name, name), nil
	}
	name = strings.TrimSpace(name)
	tool, e := x.table.Resolve(name)
	if e == nil {
		if it := x.byID[tool.ID()]; it != nil {
			if _, former := x.table.Renamed(name); former {
				repaired = fmt.Sprintf("the tool %q is now called %q", name, it.name)
			}
			return it, repaired, nil
		}
		return nil, "", fault.New(fault.ToolNotFound, "the tool %.200q is not offered here", name)
	}
	err = fault.From(e)
	found := *err
	found.Candidates = nil
	for _, c := range err.Candidates {
		if t, e := x.table.Resolve(c); e == nil && x.byID[t.ID()] != nil {
			found.Candidates = append(found.Candidates, x.byID[t.ID()].name)
		}
	}
	if len(found.Candidates) == 0 {
		const most = 10
		for _, it := range x.items[:min(len(x.items), most)] {
			found.Candidates = append(found.Candidates, it.name)
		}
	}
	slices.Sort(found.Candidates)
	return nil, "", &found
}

// LegalName is a name that a model invented, in characters that the API takes back.
func LegalName(s string) string {
	b := []byte(s[:min(len(s), catalog.MaxExportName)])
	for i, c := range b {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "unnamed"
	}
	return string(b)
}
