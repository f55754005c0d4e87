// Package schema turns the input schema of a tool, as a server sent it, into
// one that a model API accepts, and keeps what is needed to bring the model's
// arguments back.
//
// The passes, in order: targets of references are hoisted to $defs; older
// drafts and slips become 2020-12; a root union becomes one object; required
// lists are repaired; then come the changes that the provider's [Rules] demand.
// The result is checked against the same rules. A schema that cannot be brought
// into form becomes an open object, and the report says why.
//
//	r := schema.Convert(json.RawMessage(`{"type":"object","properties":null}`), schema.OpenAI)
//	string(r.Parameters) // {"type":"object","properties":{}}
//
// Work is bounded by counting nodes, never by a clock, so equal input gives
// equal bytes. The package fetches nothing and knows nothing of tools' names,
// messages or transports.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// Bounds of a conversion.
const (
	MaxBytes   = 1 << 20   // of a schema as the server sent it
	MaxOutput  = 256 << 10 // bytes of a schema as the model gets it
	MaxDepth   = 64        // of nested schemas; deeper ones are opened
	maxNodes   = 20_000    // visited by one pass
	maxInline  = 1_000     // copied while references are replaced by their targets
	maxUnroll  = 2         // times that a recursive target is repeated below itself
	maxInPlace = 5_000     // checks that one value may cost
	maxLooks   = 50_000    // at branches of unions while arguments are decoded
	maxChanges = 500       // in the report of one tool
	maxShown   = 300       // bytes of a value in the report
)

// Change is one difference between the schema that came in and the one that
// goes out.
type Change struct {
	Pointer string          // JSON Pointer into the schema as the server sent it
	Code    string          // for machines, lower snake case
	Before  json.RawMessage // nil when there was nothing
	After   json.RawMessage // nil when nothing is left
	Lossy   bool            // the model no longer learns all of it, or the meaning changed
}

// Result is a converted schema. It is not to be changed: callers may share it.
type Result struct {
	Parameters json.RawMessage // always an object schema in the rules' form
	Strict     bool            // it keeps the rules of strict mode
	Notes      []string        // sentences for the tool's description
	Changes    []Change
	Codec      *Codec
}

// Convert never fails: what cannot be converted becomes an open object.
func Convert(input json.RawMessage, rules *Rules) *Result {
	c := newConv(rules)
	r, err := c.finish(c.run(input))
	if err == nil {
		r.Codec = &Codec{input: input, rules: rules}
		return r
	}
	if rules.Strict != nil {
		loose := *rules
		loose.Strict = nil
		r := Convert(input, &loose)
		r.Changes = append(r.Changes, Change{Code: "strict_fallback", Before: shown("strict"), After: shown(err.Error()), Lossy: true})
		return r
	}
	r = c.opened(err)
	r.Codec = &Codec{input: input, rules: rules}
	return r
}

// opened is the result of a schema that could not be converted.
func (c *conv) opened(why error) *Result {
	o := newConv(c.rules)
	o.root = newObject("type", "object", "properties", newObject())
	o.changes = c.changes
	var f *failure
	code := "invalid_schema"
	if errors.As(why, &f) {
		code = f.code
	}
	o.change("", code, why.Error(), o.root, true)
	return &Result{Parameters: ordered.Append(nil, o.root), Changes: o.changes}
}

// conv is one conversion.
type conv struct {
	rules   *Rules
	root    *object
	defs    *object            // root's $defs, while there are any
	origin  map[*object]string // node to its pointer in the input
	hints   map[*object]*hint  // what the codec must undo at a node
	changes []Change
	notes   []string
	steps   int
	draft   int  // 3, 4, 6, 7, 2019, 2020; what $schema says, else 2020
	bare    bool // the root takes any key
	cut     bool // inlining ended early somewhere
	err     error
}

func newConv(rules *Rules) *conv {
	return &conv{rules: rules, origin: map[*object]string{}, hints: map[*object]*hint{}, draft: 2020}
}

// failure ends a conversion.
type failure struct{ code, message string }

func (f *failure) Error() string { return f.message }

func (c *conv) fail(code, format string, args ...any) {
	if c.err == nil {
		c.err = &failure{code, fmt.Sprintf(format, args...)}
	}
}

// step counts a node and reports whether there is budget left.
func (c *conv) step() bool {
	c.steps++
	if c.steps > maxNodes {
		c.fail("too_many_nodes", "the schema has more than %d nodes", maxNodes)
	}
	return c.err == nil
}

// contain turns a panic into a failed conversion: servers choose what comes in
// here, and a defect found by one of them must not take the others' tools away.
func (c *conv) contain(err *error) {
	if r := recover(); r != nil {
		*err = &failure{"converter_defect", fmt.Sprint("a defect of the converter: ", r)}
	}
}

// base brings the input to valid 2020-12: what every profile starts from and
// what arguments are checked against.
func (c *conv) base(input json.RawMessage) (err error) {
	defer c.contain(&err)
	if err := c.load(input); err != nil {
		return err
	}
	c.hoist()
	if c.err == nil {
		c.steps = 0
		c.repair()
	}
	return c.err
}

// run is the passes in order.
func (c *conv) run(input json.RawMessage) (err error) {
	defer c.contain(&err)
	if err := c.base(input); err != nil {
		return err
	}
	c.flattenRoot()
	if c.err == nil {
		c.repairRequired()
		c.apply()
	}
	return c.err
}

// finish checks and writes what run made, unless that failed.
func (c *conv) finish(failed error) (r *Result, err error) {
	defer c.contain(&err)
	if failed != nil {
		return nil, failed
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	out := ordered.Append(nil, c.root)
	if len(out) > MaxOutput {
		return nil, &failure{"too_large", fmt.Sprintf("the converted schema has %d bytes", len(out))}
	}
	return &Result{Parameters: out, Strict: c.rules.Strict != nil, Notes: c.notes, Changes: c.changes}, nil
}

// load parses the input; what is no schema at all becomes an object without
// parameters.
func (c *conv) load(input json.RawMessage) error {
	if len(input) > MaxBytes {
		return &failure{"too_large", fmt.Sprintf("the schema has %d bytes", len(input))}
	}
	var v any
	if len(bytes.TrimSpace(input)) > 0 {
		var err error
		if v, err = ordered.Parse(input, ordered.Limits{}); errors.Is(err, ordered.ErrDepth) {
			return &failure{"depth_limit", "the schema is nested too deep"}
		} else if err != nil {
			return &failure{"invalid_json", "the schema is no JSON: " + err.Error()}
		}
	}
	if o, ok := v.(*object); ok {
		c.root = o
		return nil
	}
	c.root = newObject("type", "object", "properties", newObject())
	code, lossy := "invalid_schema", true
	switch v {
	case nil:
		code, lossy = "missing_schema", false
	case true:
		code, lossy = "boolean_schema", false
		c.bare = true
	case false:
		code = "false_schema"
	}
	c.change("", code, v, c.root, lossy)
	return nil
}

// change reports a difference.
func (c *conv) change(pointer, code string, before, after any, lossy bool) {
	switch {
	case len(c.changes) < maxChanges:
		c.changes = append(c.changes, Change{pointer, code, shown(before), shown(after), lossy})
	case len(c.changes) == maxChanges:
		c.changes = append(c.changes, Change{Code: "report_truncated", Lossy: true})
	}
}

// shown is v for the report: long values are cut, and become strings by it.
func shown(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	b := ordered.Append(nil, v)
	if len(b) > maxShown {
		b = ordered.Append(nil, string(bytes.ToValidUTF8(b[:maxShown], nil))+"…")
	}
	return b
}

func newObject(pairs ...any) *object { return ordered.NewObject(pairs...) }

// clone copies a node with everything below it. Origins and hints go along.
func (c *conv) clone(n *object) *object { return c.copyValue(n).(*object) }

func (c *conv) copyValue(v any) any {
	switch v := v.(type) {
	case *object:
		if !c.step() {
			return newObject()
		}
		out := newObject()
		for _, k := range v.Keys() {
			e, _ := v.Get(k)
			out.Set(k, c.copyValue(e))
		}
		if at, ok := c.origin[v]; ok {
			c.origin[out] = at
		}
		if h, ok := c.hints[v]; ok {
			c.hints[out] = h
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = c.copyValue(e)
		}
		return out
	}
	return v
}

// note adds a sentence to a node's description.
func note(n *object, sentence string) {
	d, _ := n.Get("description")
	s, _ := d.(string)
	n.Set("description", joined(s, sentence))
}

func joined(s, sentence string) string {
	if s == "" {
		return sentence
	}
	if last := s[len(s)-1]; last != '.' && last != '!' && last != '?' && last != '\n' {
		s += "."
	}
	return s + " " + sentence
}

// text is v as it stands in a note.
func asText(v any) string {
	b := ordered.Append(nil, v)
	if len(b) > maxShown {
		b = append(bytes.ToValidUTF8(b[:maxShown], nil), "…"...)
	}
	return string(b)
}
