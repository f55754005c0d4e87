package openai

import (
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
	for digits := 8; digits <= 56 && (len(fitted) > catalog.MaxExportName || x.reserved[fitted]); digits += 4 {
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
	if x.reserved[name] {
		return nil, "", fault.New(fault.ToolNotFound, "%q is a local function, not a tool of a server", name)
	}
	if it := x.byName[bare(name)]; it != nil {
		return it, fmt.Sprintf("the name %q was called as %q", it.name, name), nil
	}
	tool, e := x.table.Resolve(strings.TrimSpace(name))
	if e == nil {
		return x.byID[tool.ID()], "", nil
	}
	err = fault.From(e)
	found := *err
	for i, c := range found.Candidates {
		if t, e := x.table.Resolve(c); e == nil {
			found.Candidates[i] = x.byID[t.ID()].name
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
