// Package codec brings a model's arguments back from the form of the schema that
// the model saw to what the server expects, and checks them against the server's
// own schema.
//
//	k := codec.New(func() (shown, sent *base.Tree) { … })
//	args, repairs, err := k.Decode(args) // err is a sentence for the model
//
// It undoes what the hints in a tree say was done, and decodes a value that was
// sent as a string of JSON. It converts no schema.
package codec

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// Codec undoes one conversion. It is safe for concurrent use. The zero value is
// not usable; see [New].
type Codec struct {
	trees func() (shown, sent *base.Tree)

	once  sync.Once
	shown *base.Tree        // the schema that the model saw
	check *jsoncheck.Schema // of the server's own schema; nil when that cannot be compiled
	names map[string]string // the server's renamed keys to the model's
	back  map[string]string // and the other way
}

// New returns a codec that asks for its trees on first use, once: shown is the
// converted schema with its hints, sent the server's own in 2020-12, or nil when
// that cannot be read.
func New(trees func() (shown, sent *base.Tree)) *Codec { return &Codec{trees: trees} }

func (k *Codec) prepare() {
	shown, sent := k.trees()
	k.shown = shown
	k.names, k.back = map[string]string{}, map[string]string{}
	for _, h := range shown.Hints {
		for model, server := range h.Keys {
			k.names[server], k.back[model] = model, server
		}
	}
	if sent != nil {
		k.check = compile(sent.Root)
	}
}

// Checked reports whether arguments are checked against the server's schema: it
// is false when that schema cannot be compiled.
func (k *Codec) Checked() bool {
	k.once.Do(k.prepare)
	return k.check != nil
}

// Decode undoes what the conversion did to args and checks the outcome against
// the server's schema. repairs say what else had to be put right. The error is
// a sentence for the model.
func (k *Codec) Decode(args *base.Node) (out *base.Node, repairs []string, err error) {
	k.once.Do(k.prepare)
	if inner, name := k.wrapped(args); inner != nil {
		if out, repairs, err = k.Decode(inner); err == nil {
			repairs = append(repairs, fmt.Sprintf("the arguments stood once more inside %q", name))
		}
		return out, repairs, err
	}
	d := decoder{Tree: k.shown, back: k.back}
	out = d.value(args, []*base.Node{k.shown.Root}, "", 0).(*base.Node)
	if err = k.validate(out); err != nil && d.doubtful {
		// A null may have stood for nothing after all.
		d = decoder{Tree: k.shown, back: k.back, omit: true}
		if o := d.value(args, []*base.Node{k.shown.Root}, "", 0).(*base.Node); k.validate(o) == nil {
			return o, append(d.repairs, "a null for an optional parameter was left out"), nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return out, d.repairs, nil
}

// wrappers are names that models give to the arguments as a whole.
var wrappers = []string{"arguments", "parameters", "params", "args", "input"}

// wrapped is the object inside args that holds the arguments, and its name, where args
// can mean nothing else: it has no other member, but for the name of a function, and
// the tool has parameters and none of that name. Otherwise it is nil.
func (k *Codec) wrapped(args *base.Node) (inner *base.Node, name string) {
	known := k.shown.Root.Object("properties")
	for _, name := range wrappers {
		inner := args.Object(name)
		others := len(args.Keys()) - 1
		if args.String("name") != "" && !known.Has("name") {
			others--
		}
		if inner != nil && others == 0 && len(known.Keys()) > 0 && !known.Has(name) {
			return inner, name
		}
	}
	return nil, ""
}

// validate checks arguments against the server's own schema.
func (k *Codec) validate(args *base.Node) error {
	if k.check == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	err := k.check.Check(jsonvalue.Plain(args), len(jsonvalue.Append(nil, args)))
	if errors.As(err, &ve) {
		return errors.New(k.explain(ve))
	}
	return err
}

type decoder struct {
	*base.Tree
	back     map[string]string
	repairs  []string
	looks    int  // at branches of unions, so far
	omit     bool // leave out what may be left out
	doubtful bool // there was a null that might have been left out
}

// value decodes v, which must fit all of the schemas in at.
func (d *decoder) value(v any, at []*base.Node, ptr string, depth int) any {
	if depth > 2*base.MaxDepth {
		return v
	}
	at = d.expand(v, at)
	if s, ok := v.(string); ok && len(at) > 0 {
		return d.unquote(s, at, ptr, depth)
	}
	switch v := v.(type) {
	case *base.Node:
		return d.object(v, at, ptr, depth)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var below []*base.Node
			for _, n := range at {
				if l := n.List("prefixItems"); i < len(l) {
					below = append(below, l[i].(*base.Node))
				} else if o := n.Object("items"); o != nil {
					below = append(below, o)
				}
			}
			out[i] = d.value(e, below, fmt.Sprintf("%s/%d", ptr, i), depth+1)
		}
		return out
	}
	return v
}

func (d *decoder) object(v *base.Node, at []*base.Node, ptr string, depth int) any {
	out := base.NewNode()
	for _, key := range v.Keys() {
		e, _ := v.Get(key)
		name, synthetic := key, false
		if server, ok := d.back[key]; ok { // made of a hash: it means nothing else, wherever it stands
			name = server
		}
		var below []*base.Node
		for _, n := range at {
			h := d.Hints[n]
			if o := n.Object("properties").Object(key); o != nil {
				below = append(below, o)
				if e == nil {
					maybe := h != nil && h.Maybe[key] || d.mayLack(n, key, o)
					synthetic = synthetic || h != nil && h.Nulls[key] || d.omit && maybe
					d.doubtful = d.doubtful || maybe
				}
			} else if o := n.Object("additionalProperties"); o != nil {
				below = append(below, o)
			}
		}
		if synthetic {
			continue
		}
		out.Set(name, d.value(e, below, ptr+"/"+base.Escape(name), depth+1))
	}
	return out
}

// mayLack reports whether an object that n describes may lack the member key, whose
// schema is o and takes no null: a null there can only stand for nothing.
func (d *decoder) mayLack(n *base.Node, key string, o *base.Node) bool {
	return d.Takes(o, 0)&base.Null == 0 && !slices.Contains(n.List("required"), any(key))
}

// expand adds what references, intersections and the fitting branches of unions
// say about v.
func (d *decoder) expand(v any, at []*base.Node) []*base.Node {
	var out []*base.Node
	var add func(n *base.Node)
	add = func(n *base.Node) {
		if slices.Contains(out, n) || len(out) > 64 {
			return
		}
		out = append(out, n)
		if t := d.Target(n.String("$ref")); t != nil {
			add(t)
		}
		for _, e := range n.List("allOf") {
			add(e.(*base.Node))
		}
		for _, kw := range []string{"anyOf", "oneOf"} {
			l := n.List(kw)
			for _, e := range l {
				if o := e.(*base.Node); len(l) == 1 || d.fits(v, o, 0) {
					add(o)
				}
			}
		}
	}
	for _, n := range at {
		add(n)
	}
	return out
}

// unquote decodes a string where the schema wants something else and the string
// is exactly the JSON text of that.
func (d *decoder) unquote(s string, at []*base.Node, ptr string, depth int) any {
	allowed, text := base.AllTypes, false
	for _, n := range at {
		if h := d.Hints[n]; h != nil && h.Text {
			text = true
		} else if n.String("type") == "string" {
			return s
		}
		allowed &= d.Takes(n, 0)
	}
	if text {
		allowed = base.Object
	}
	if allowed&base.String != 0 || allowed == 0 {
		return s
	}
	v, err := jsonvalue.Parse([]byte(s), jsonvalue.Limits{Depth: 2 * base.MaxDepth, Strict: true})
	if err != nil || !allowed.Allows(base.KindOf(v)) || v == nil {
		return s
	}
	if text { // the model was told to send it so
		return v
	}
	d.repairs = append(d.repairs, fmt.Sprintf("%s was sent as a string that holds JSON", ptr))
	return d.value(v, at, ptr, depth+1)
}

// fits reports whether v looks like what n describes: enough to choose a branch.
func (d *decoder) fits(v any, n *base.Node, depth int) bool {
	if d.looks++; d.looks > maxLooks || depth > 32 {
		return true
	}
	if !d.Takes(n, 0).Allows(base.KindOf(v)) {
		return false
	}
	if c, ok := n.Get("const"); ok && !jsonvalue.Equal(c, v) {
		return false
	}
	if l := n.List("enum"); l != nil && !slices.ContainsFunc(l, func(e any) bool { return jsonvalue.Equal(e, v) }) {
		return false
	}
	if t := d.Target(n.String("$ref")); t != nil && !d.fits(v, t, depth+1) {
		return false
	}
	for _, e := range n.List("allOf") {
		if !d.fits(v, e.(*base.Node), depth+1) {
			return false
		}
	}
	for _, kw := range []string{"anyOf", "oneOf"} {
		if l := n.List(kw); l != nil && !slices.ContainsFunc(l, func(e any) bool { return d.fits(v, e.(*base.Node), depth+1) }) {
			return false
		}
	}
	switch v := v.(type) {
	case *base.Node:
		for _, r := range n.List("required") {
			if !v.Has(r.(string)) {
				return false
			}
		}
		props := n.Object("properties")
		ap, _ := n.Get("additionalProperties")
		for _, k := range v.Keys() {
			e, _ := v.Get(k)
			if p := props.Object(k); p != nil {
				if !d.fits(e, p, depth+1) {
					return false
				}
			} else if ap == false {
				return false
			}
		}
	case []any:
		if items := n.Object("items"); items != nil && !n.Has("prefixItems") {
			return !slices.ContainsFunc(v, func(e any) bool { return !d.fits(e, items, depth+1) })
		}
	}
	return true
}

const maxLooks = 50_000 // at branches of unions while arguments are decoded
