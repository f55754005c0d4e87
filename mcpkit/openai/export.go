// Package openai turns a catalogue of MCP tools into function tools of the
// OpenAI API, in the dialect of the provider that a profile names, and brings
// what a model answers back: its calls to a tool and arguments, results to tool
// messages. It is the catalogue's side of the Externalizer.
//
//	x, err := openai.New(tools, openai.Options{Profile: "openai"})
//	request.Tools = x.Tools
//	…
//	call, err := x.Decode(name, arguments) // err is a *fault.Error for the model
//	result := run(call.ID, call.Arguments)
//	messages := x.ToolMessages([]openai.Answer{{CallID: id, Call: call.ID, Result: result}})
//
// Equal catalogues give equal bytes, in any order of tools. Names are the
// catalogue's; see [catalog.NewTable]. A schema is changed only where the profile demands it, and
// each change is in the Report; a tool that cannot be converted is offered with
// an open object. The package makes no calls and knows no transports; whether a
// call is allowed is decided elsewhere.
//
// One meaning is narrowed on purpose. No API takes a union at the root of
// parameters, so its branches become one object; a property that only some
// branches name then has the meaning it has there in all of them.
package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// DefaultPrefix leads the exported names unless Options say otherwise.
const DefaultPrefix = "mcp"

// Options say how a catalogue is exported. The zero value is the profile
// "openai" with the prefix "mcp".
type Options struct {
	Profile  string   // one of Profiles; empty means DefaultProfile
	Prefix   string   // of exported names; empty means DefaultPrefix
	Reserved []string // names that local functions have taken; no tool gets one
	Cache    *Cache   // remembers conversions between exports; may be nil

	table *catalog.Table // names the tools; nil: they alone are the catalogue
}

// Entry is one line of the report: what was done to a tool.
type Entry struct {
	Server  string          `json:"server"`
	Tool    string          `json:"tool"`
	Pointer string          `json:"pointer"` // JSON Pointer into the server's input schema; "" for the tool itself
	Code    string          `json:"code"`    // lower snake case, stable
	Before  json.RawMessage `json:"before"`  // null when there was nothing; long values are cut
	After   json.RawMessage `json:"after"`   // null when nothing is left
	Lossy   bool            `json:"lossy"`   // the model learns less than the server said
}

// Export is a catalogue as a model gets it. It is immutable and safe for
// concurrent use; Tools must not be changed.
type Export struct {
	Tools  []openai.Tool // sorted by name; Parameters are json.RawMessage
	Report []Entry       // in the order of Tools, left-out tools first

	profileName string
	profile     *profile
	bytes       []byte
	fingerprint string
	items       []*item // as Tools
	byName      map[string]*item
	byID        map[catalog.ID]*item
	reserved    map[string]bool     // in lower case
	left        map[catalog.ID]bool // by limit
	table       *catalog.Table
}

// item is one offered tool.
type item struct {
	tool        *catalog.Tool
	name        string
	description string
	result      *schema.Result
}

// OneCall reports whether a request with these tools has to say that
// parallel_tool_calls is false: the provider keeps strict schemas only then.
func (x *Export) OneCall() bool {
	return x.profile.oneCall && slices.ContainsFunc(x.items, func(it *item) bool { return it.result.Strict })
}

// New exports tools. The only error is an unknown profile or an unusable
// prefix: a bad tool costs itself at most.
func New(tools []*catalog.Tool, opts Options) (*Export, error) {
	name, p, err := lookup(opts.Profile)
	if err != nil {
		return nil, err
	}
	if opts.Prefix == "" {
		opts.Prefix = DefaultPrefix
	}
	if len(opts.Prefix) > maxPrefix {
		return nil, fmt.Errorf("prefix %q has more than %d bytes", opts.Prefix, maxPrefix)
	}
	x := &Export{profileName: name, profile: p, byName: map[string]*item{}, byID: map[catalog.ID]*item{}, reserved: rules.Set(lowered(opts.Reserved)...), left: map[catalog.ID]bool{}}
	x.admit(tools, opts)
	for _, it := range x.items {
		it.result = opts.Cache.convert(name, it.tool.InputSchema, &x.profile.schema)
		x.describe(it)
		for _, c := range it.result.Changes {
			x.report(it.tool, c.Pointer, c.Code, c.Before, c.After, c.Lossy)
		}
		x.Tools = append(x.Tools, x.function(it))
	}
	x.encode()
	return x, nil
}

// admit chooses the tools that can be offered and names them.
func (x *Export) admit(tools []*catalog.Tool, opts Options) {
	var kept []*catalog.Tool
	seen := map[catalog.ID]bool{}
	for _, t := range tools {
		switch id := t.ID(); {
		case strings.TrimSpace(id.Tool) == "":
			x.report(t, "", "empty_name", jsonOf(id.Tool), nil, true)
		case seen[id]: // tools/call could not tell them apart
			x.report(t, "", "duplicate_name", jsonOf(id.Tool), nil, true)
		default:
			seen[id] = true
			kept = append(kept, t)
		}
	}
	if x.table = opts.table; x.table == nil {
		x.table = catalog.NewTable(opts.Prefix, kept)
	}
	x.items = x.name(kept)
	x.limit()
	slices.SortStableFunc(x.Report, func(a, b Entry) int {
		return strings.Compare(a.Server+"\x00"+a.Tool, b.Server+"\x00"+b.Tool)
	})
	for _, it := range x.items {
		x.byName[it.name] = it
		x.byID[it.tool.ID()] = it
	}
}

func lowered(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToLower(n)
	}
	return out
}

func (x *Export) report(t *catalog.Tool, pointer, code string, before, after json.RawMessage, lossy bool) {
	x.Report = append(x.Report, Entry{t.Source.Server, t.Source.OriginalName, pointer, code, before, after, lossy})
}

// jsonOf is a string or number as JSON.
func jsonOf(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// describe makes the tool's description: what a person would see of the
// server's, then what the schema could not keep, within the provider's limit.
func (x *Export) describe(it *item) {
	before := it.tool.Description
	d := base.Visible(strings.ToValidUTF8(before, "\uFFFD"))
	if d != before {
		x.report(it.tool, "", "description_hidden_characters", jsonOf(clip(before, 300)), jsonOf(clip(d, 300)), false)
	}
	if strings.TrimSpace(d) == "" && x.profile.descriptionMin > 0 {
		if d = base.Visible(it.tool.Title); strings.TrimSpace(d) == "" {
			d = it.tool.Source.OriginalName
		}
		x.report(it.tool, "", "description_filled", jsonOf(before), jsonOf(d), false)
	}
	for _, n := range it.result.Notes {
		d = strings.TrimLeft(d+"\n"+n, "\n")
	}
	if most := x.profile.descriptionMax; most > 0 && units(d) > most {
		cut := clip(d, most)
		x.report(it.tool, "", "description_cut", jsonOf(units(d)), jsonOf(units(cut)), true)
		d = cut
	}
	it.description = d
}

// units is the length of s as JavaScript and .NET count it: never less than
// its characters.
func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// clip cuts s between characters to at most most units, an ellipsis included.
func clip(s string, most int) string {
	if units(s) <= most {
		return s
	}
	n := 1 // the ellipsis
	for i, r := range s {
		if n++; r > 0xffff {
			n++
		}
		if n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// function is the tool in go-openai's types.
func (x *Export) function(it *item) openai.Tool {
	if x.profile.flat {
		p := map[string]any{"name": it.name, "parameters": it.result.Parameters, "strict": it.result.Strict}
		if it.description != "" {
			p["description"] = it.description
		}
		return openai.Tool{Type: openai.ToolTypeFunction, Parameters: p}
	}
	return openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
		Name: it.name, Description: it.description, Strict: it.result.Strict, Parameters: it.result.Parameters}}
}

// encode writes the list once; the fingerprint is over its bytes.
func (x *Export) encode() {
	list := make([]any, len(x.items))
	for i, it := range x.items {
		f := jsonvalue.NewObject("name", it.name)
		if it.description != "" {
			f.Set("description", it.description)
		}
		f.Set("parameters", it.result.Parameters)
		if it.result.Strict || x.profile.flat {
			f.Set("strict", it.result.Strict)
		}
		o := jsonvalue.NewObject("type", "function")
		if x.profile.flat {
			for _, k := range f.Keys() {
				v, _ := f.Get(k)
				o.Set(k, v)
			}
		} else {
			o.Set("function", f)
		}
		list[i] = o
	}
	x.bytes = jsonvalue.Append(nil, list)
	sum := sha256.Sum256(x.bytes)
	x.fingerprint = hex.EncodeToString(sum[:])
}

// JSON is the list of tools as the API takes it under "tools": the same bytes
// for the same catalogue, profile and options. The slice is shared.
func (x *Export) JSON() []byte { return x.bytes }

// Fingerprint is the SHA-256 of JSON in hex.
func (x *Export) Fingerprint() string { return x.fingerprint }

// Profile is the profile's name.
func (x *Export) Profile() string { return x.profileName }

// Name is the exported name of a tool, or "" when it is not offered.
func (x *Export) Name(id catalog.ID) string {
	if it := x.byID[id]; it != nil {
		return it.name
	}
	return ""
}
