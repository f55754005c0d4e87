package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// hint is what was done to the values of one object node.
type hint struct {
	keys  map[string]string // the model's key to the server's
	nulls map[string]bool   // keys whose null only means that they are left out
	maybe map[string]bool   // keys whose null may mean that, or null
}

// Codec brings a model's arguments back to what the server expects. It does the
// conversion again on first use instead of keeping every tool's tree: equal
// input gives an equal tree. It is safe for concurrent use.
type Codec struct {
	input json.RawMessage
	rules *Rules

	once  sync.Once
	conv  *conv             // the schema that the model saw
	check *jsoncheck.Schema // of the server's own schema; nil when that cannot be compiled
	names map[string]string // the server's renamed keys to the model's
	back  map[string]string // and the other way
}

func (k *Codec) prepare() {
	c := newConv(k.rules)
	if _, err := c.finish(c.run(k.input)); err != nil {
		c = newConv(k.rules)
		c.root = newObject("type", "object", "properties", newObject())
	}
	k.conv = c
	k.names, k.back = map[string]string{}, map[string]string{}
	for _, h := range c.hints {
		for model, server := range h.keys {
			k.names[server], k.back[model] = model, server
		}
	}
	b := newConv(&Rules{})
	if b.base(k.input) == nil {
		k.check = compile(b.root)
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
func (k *Codec) Decode(args *object) (out *object, repairs []string, err error) {
	k.once.Do(k.prepare)
	d := decoder{conv: k.conv, back: k.back}
	out = d.value(args, []*object{k.conv.root}, "", 0).(*object)
	if err = k.validate(out); err != nil && d.doubtful {
		// A null may have stood for nothing after all.
		d = decoder{conv: k.conv, back: k.back, omit: true}
		if o := d.value(args, []*object{k.conv.root}, "", 0).(*object); k.validate(o) == nil {
			return o, append(d.repairs, "a null for an optional parameter was left out"), nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return out, d.repairs, nil
}

// validate checks arguments against the server's own schema.
func (k *Codec) validate(args *object) error {
	if k.check == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	err := k.check.Check(ordered.Plain(args), len(ordered.Append(nil, args)))
	if errors.As(err, &ve) {
		return errors.New(k.explain(ve))
	}
	return err
}

type decoder struct {
	*conv
	back     map[string]string
	repairs  []string
	looks    int  // at branches of unions, so far
	omit     bool // leave out what may be left out
	doubtful bool // there was a null that might have been left out
}

// value decodes v, which must fit all of the schemas in at.
func (d *decoder) value(v any, at []*object, ptr string, depth int) any {
	if depth > 2*MaxDepth {
		return v
	}
	at = d.expand(v, at)
	if s, ok := v.(string); ok && len(at) > 0 {
		return d.unquote(s, at, ptr, depth)
	}
	switch v := v.(type) {
	case *object:
		return d.object(v, at, ptr, depth)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var below []*object
			for _, n := range at {
				if l := n.List("prefixItems"); i < len(l) {
					below = append(below, l[i].(*object))
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

func (d *decoder) object(v *object, at []*object, ptr string, depth int) any {
	out := newObject()
	for _, key := range v.Keys() {
		e, _ := v.Get(key)
		name, synthetic := key, false
		if server, ok := d.back[key]; ok { // made of a hash: it means nothing else, wherever it stands
			name = server
		}
		var below []*object
		for _, n := range at {
			h := d.hints[n]
			if o := n.Object("properties").Object(key); o != nil {
				below = append(below, o)
				if h != nil && e == nil {
					synthetic = synthetic || h.nulls[key] || d.omit && h.maybe[key]
					d.doubtful = d.doubtful || h.maybe[key]
				}
			} else if o := n.Object("additionalProperties"); o != nil {
				below = append(below, o)
			}
		}
		if synthetic {
			continue
		}
		out.Set(name, d.value(e, below, ptr+"/"+escape(name), depth+1))
	}
	return out
}

// expand adds what references, intersections and the fitting branches of unions
// say about v.
func (d *decoder) expand(v any, at []*object) []*object {
	var out []*object
	var add func(n *object)
	add = func(n *object) {
		if slices.Contains(out, n) || len(out) > 64 {
			return
		}
		out = append(out, n)
		if t := d.target(n.String("$ref")); t != nil {
			add(t)
		}
		for _, e := range n.List("allOf") {
			add(e.(*object))
		}
		for _, kw := range []string{"anyOf", "oneOf"} {
			l := n.List(kw)
			for _, e := range l {
				if o := e.(*object); len(l) == 1 || d.fits(v, o, 0) {
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
func (d *decoder) unquote(s string, at []*object, ptr string, depth int) any {
	allowed := allTypes
	for _, n := range at {
		allowed &= d.takes(n, 0)
	}
	if allowed&tString != 0 || allowed == 0 {
		return s
	}
	v, err := ordered.Parse([]byte(s), ordered.Limits{Depth: 2 * MaxDepth, Strict: true})
	if err != nil || !allowed.allows(kindOf(v)) || v == nil {
		return s
	}
	d.repairs = append(d.repairs, fmt.Sprintf("%s was sent as a string that holds JSON", ptr))
	return d.value(v, at, ptr, depth+1)
}

// takes is the set of types that a node lets through.
func (c *conv) takes(n *object, depth int) types {
	t := allTypes
	if depth > 32 {
		return t
	}
	if dt := declared(n); dt != 0 {
		t = dt
		if n.Has("nullable") {
			t |= tNull
		}
	}
	narrow := func(l []any) {
		var some types
		for _, v := range l {
			some |= kindOf(v)
		}
		t &= some
	}
	if l := n.List("enum"); l != nil {
		narrow(l)
	}
	if v, ok := n.Get("const"); ok {
		narrow([]any{v})
	}
	if o := c.target(n.String("$ref")); o != nil {
		t &= c.takes(o, depth+1)
	}
	for _, e := range n.List("allOf") {
		t &= c.takes(e.(*object), depth+1)
	}
	for _, kw := range []string{"anyOf", "oneOf"} {
		if l := n.List(kw); l != nil {
			var some types
			for _, e := range l {
				some |= c.takes(e.(*object), depth+1)
			}
			t &= some
		}
	}
	return t
}

// fits reports whether v looks like what n describes: enough to choose a branch.
func (d *decoder) fits(v any, n *object, depth int) bool {
	if d.looks++; d.looks > maxLooks || depth > 32 {
		return true
	}
	if !d.takes(n, 0).allows(kindOf(v)) {
		return false
	}
	if c, ok := n.Get("const"); ok && !ordered.Equal(c, v) {
		return false
	}
	if l := n.List("enum"); l != nil && !slices.ContainsFunc(l, func(e any) bool { return ordered.Equal(e, v) }) {
		return false
	}
	if t := d.target(n.String("$ref")); t != nil && !d.fits(v, t, depth+1) {
		return false
	}
	for _, e := range n.List("allOf") {
		if !d.fits(v, e.(*object), depth+1) {
			return false
		}
	}
	for _, kw := range []string{"anyOf", "oneOf"} {
		if l := n.List(kw); l != nil && !slices.ContainsFunc(l, func(e any) bool { return d.fits(v, e.(*object), depth+1) }) {
			return false
		}
	}
	switch v := v.(type) {
	case *object:
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
