// Package base is a schema as the passes of a conversion see it: nodes that keep
// the order of their keys, the positions in which schemas stand, the types that
// a node lets through, and a [Tree] that carries the report and the budget of
// one conversion from pass to pass.
//
//	tree := base.New()
//	err := tree.Load(json.RawMessage(`{"properties":{"a":true}}`))
//	base.Walk(tree.Root, func(n *base.Node) { … }) // the root, then …
//
// It changes nothing of its own accord and knows no API's rules. Work is bounded
// by counting nodes, never by a clock, so equal input gives equal bytes.
package base

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// Hint is what was done to the values of one node.
type Hint struct {
	Text  bool              // an object is sent as a string of its JSON
	Keys  map[string]string // the model's key to the server's
	Nulls map[string]bool   // keys whose null only means that they are left out
	Maybe map[string]bool   // keys whose null may mean that, or null
}

// Bounds of a tree, and of what is reported about it.
const (
	MaxBytes   = 1 << 20 // of a schema as the server sent it
	MaxDepth   = 64      // of nested schemas; deeper ones are opened
	maxNesting = 5000    // of arrays and objects in a schema of a server
	maxNodes   = 20_000  // visited by one pass
	maxChanges = 500     // in the report of one tool
	maxShown   = 300     // bytes of a value in the report
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

// Tree is one schema on its way from the server's form to a model's. The zero
// value is not usable; see [New].
type Tree struct {
	Root    *Node
	Defs    *Node            // the root's $defs, while there are any
	Origin  map[*Node]string // node to its JSON Pointer in the input
	Hints   map[*Node]*Hint  // what the codec must undo at a node
	Changes []Change         // the report so far
	Notes   []string         // sentences for the tool's description
	Steps   int              // nodes visited by the pass at work
	AnyKey  bool             // the root takes any key
	Err     error            // the first failure; a pass that finds one set does nothing
}

// New returns a tree without a root; [Tree.Load] gives it one.
func New() *Tree { return &Tree{Origin: map[*Node]string{}, Hints: map[*Node]*Hint{}} }

// Opened returns the tree of an object that takes any key.
func Opened() *Tree {
	tree := New()
	tree.Root = NewNode("type", "object", "properties", NewNode())
	return tree
}

// Failure ends a conversion.
type Failure struct {
	Code    string // for machines, lower snake case
	Message string // for people
}

func (f *Failure) Error() string { return f.Message }

// Fail sets the tree's failure, unless there is one.
func (tree *Tree) Fail(code, format string, args ...any) {
	if tree.Err == nil {
		tree.Err = &Failure{code, fmt.Sprintf(format, args...)}
	}
}

// Step counts a node and reports whether there is budget left.
func (tree *Tree) Step() bool {
	tree.Steps++
	if tree.Steps > maxNodes {
		tree.Fail("too_many_nodes", "the schema has more than %d nodes", maxNodes)
	}
	return tree.Err == nil
}

// Load parses the input; what is no schema at all becomes an object without
// parameters.
func (tree *Tree) Load(input json.RawMessage) error {
	if len(input) > MaxBytes {
		return &Failure{"too_large", fmt.Sprintf("the schema has %d bytes", len(input))}
	}
	var v any
	if len(bytes.TrimSpace(input)) > 0 {
		var err error
		if v, err = jsonvalue.Parse(input, jsonvalue.Limits{Depth: maxNesting}); errors.Is(err, jsontext.ErrDepth) {
			return &Failure{"depth_limit", "the schema is nested too deep"}
		} else if err != nil {
			return &Failure{"invalid_json", "the schema is no JSON: " + err.Error()}
		}
	}
	if o, ok := v.(*Node); ok {
		tree.Root = o
		return nil
	}
	tree.Root = NewNode("type", "object", "properties", NewNode())
	code, lossy := "invalid_schema", true
	switch v {
	case nil:
		code, lossy = "missing_schema", false
	case true:
		code, lossy = "boolean_schema", false
		tree.AnyKey = true
	case false:
		code = "false_schema"
	}
	tree.Report("", code, v, tree.Root, lossy)
	return nil
}

// Report adds a difference to the report. pointer leads into the schema as the
// server sent it; before and after are JSON values, nil for nothing.
func (tree *Tree) Report(pointer, code string, before, after any, lossy bool) {
	switch {
	case len(tree.Changes) < maxChanges:
		tree.Changes = append(tree.Changes, Change{pointer, code, Shown(before), Shown(after), lossy})
	case len(tree.Changes) == maxChanges:
		tree.Changes = append(tree.Changes, Change{Code: "report_truncated", Lossy: true})
	}
}

// Shown is v for the report: long values are cut, and become strings by it.
func Shown(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	b := jsonvalue.Append(nil, v)
	if len(b) > maxShown {
		b = jsonvalue.Append(nil, string(bytes.ToValidUTF8(b[:maxShown], nil))+"…")
	}
	return b
}

// NewNode makes a node of pairs: key, value, key, value.
func NewNode(pairs ...any) *Node { return jsonvalue.NewObject(pairs...) }

// Clone copies a node with everything below it. Origins and hints go along.
func (tree *Tree) Clone(n *Node) *Node { return tree.copyValue(n).(*Node) }

func (tree *Tree) copyValue(v any) any {
	switch v := v.(type) {
	case *Node:
		if !tree.Step() {
			return NewNode()
		}
		out := NewNode()
		for _, k := range v.Keys() {
			e, _ := v.Get(k)
			out.Set(k, tree.copyValue(e))
		}
		if at, ok := tree.Origin[v]; ok {
			tree.Origin[out] = at
		}
		if h, ok := tree.Hints[v]; ok {
			tree.Hints[out] = h
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = tree.copyValue(e)
		}
		return out
	}
	return v
}

// Target is the node that a reference means, or nil, once every reference is "#"
// or "#/$defs/NAME".
func (tree *Tree) Target(ref string) *Node {
	if ref == "#" {
		return tree.Root
	}
	name, ok := strings.CutPrefix(ref, "#/$defs/")
	if !ok || tree.Defs == nil {
		return nil
	}
	name, err := url.PathUnescape(name)
	if err != nil {
		return nil
	}
	return tree.Defs.Object(Unescape(name))
}
