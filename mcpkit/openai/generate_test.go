package openai

import (
	"encoding/json"
	"fmt"
	"slices"
)

// source turns fuzzed bytes into choices; when they run out, every choice is 0.
type source struct{ data []byte }

func (s *source) pick(n int) int {
	if len(s.data) == 0 || n <= 1 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

func (s *source) chance(percent int) bool { return s.pick(100) > 99-percent }

// The names of parameters are those that walkers trip over.
var keyNames = []string{"a", "b", "type", "properties", "required", "$ref", "items", "default", "enum", "x[y]", "ключ"}

type m = map[string]any

// schema makes a 2020-12 schema. Where a whole document is asked for, refs lead
// into its $defs or into itself.
func (s *source) schema(depth int) any {
	if depth <= 0 {
		return s.scalar()
	}
	switch s.pick(16) {
	case 0, 1, 2:
		return s.scalar()
	case 3, 4, 5:
		return s.object(depth)
	case 6, 7:
		return s.array(depth)
	case 8:
		return m{"anyOf": s.list(depth), "description": "any"}
	case 9:
		return m{"oneOf": s.list(depth)}
	case 10:
		return m{"allOf": s.list(depth)}
	case 11:
		return m{"$ref": []string{"#/$defs/D0", "#/$defs/D1", "#", "#/$defs/D0/properties/a", "#/$defs/none"}[s.pick(5)]}
	case 12:
		o := s.object(depth)
		o[[]string{"anyOf", "oneOf"}[s.pick(2)]] = s.list(depth)
		return o
	case 13:
		return m{"type": []any{"array", "null", []string{"string", "integer", "object"}[s.pick(3)]}, "minItems": 1}
	case 14:
		return []any{true, false, m{}, m{"not": m{}}, m{"description": "anything"}}[s.pick(5)]
	}
	return m{"if": s.scalar(), "then": s.schema(depth - 1), "not": m{"const": "no"}}
}

func (s *source) list(depth int) []any {
	var l []any
	for range 1 + s.pick(3) {
		l = append(l, s.schema(depth-1))
	}
	return l
}

func (s *source) scalar() any {
	n := []m{
		{"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"},
		{"type": "string", "minLength": 1, "maxLength": 2000, "format": "uri"},
		{"type": "string", "pattern": `^[a-z]\d*$`}, {"type": "string", "pattern": `(?!x)[a[b]`}, {"pattern": "x", "minimum": 1},
		{"type": "integer", "exclusiveMinimum": 2, "maximum": json.Number("9007199254740993")}, {"type": "number", "exclusiveMaximum": 3.5, "multipleOf": 0.5},
		{"enum": []any{"p", "q"}}, {"enum": []any{1, "p", nil, m{"type": "array"}}}, {"const": 7}, {"const": "k"}, {"type": "integer", "enum": []any{1, 2}},
		{"type": []any{"string", "null"}}, {"type": []any{"integer", "string"}, "minLength": 2}, {"type": "object"}, {"type": "array"},
		{"type": "string", "default": "d", "title": "T", "x-unknown": m{"type": 5}},
	}[s.pick(21)]
	return n
}

func (s *source) object(depth int) m {
	props, required := m{}, []any{}
	for range s.pick(4) {
		k := keyNames[s.pick(len(keyNames))]
		props[k] = s.schema(depth - 1)
		if s.chance(40) && !slices.Contains(required, any(k)) {
			required = append(required, k)
		}
	}
	o := m{"type": "object", "properties": props}
	if len(required) > 0 {
		o["required"] = required
	}
	switch s.pick(8) {
	case 1, 2:
		o["additionalProperties"] = false
	case 3:
		o["additionalProperties"] = s.schema(depth - 1)
	case 4:
		o["patternProperties"] = m{`^p_\d$`: s.schema(depth - 1)}
	case 5:
		o["minProperties"], o["dependentRequired"] = 1, m{"a": []any{"b"}}
	case 6:
		o["required"] = append(required, "undeclared")
	case 7:
		delete(o, "type")
	}
	return o
}

func (s *source) array(depth int) m {
	a := m{"type": "array"}
	switch s.pick(5) {
	case 0, 1:
		a["items"] = s.schema(depth - 1)
	case 2:
		a["prefixItems"] = s.list(depth)
		a["items"] = false
	case 3:
		a["prefixItems"] = s.list(depth)
	}
	if s.chance(20) {
		a["uniqueItems"], a["maxItems"] = true, 1000
	}
	return a
}

// document is an input schema: mostly an object, sometimes a union at the root.
func (s *source) document() m {
	doc := s.object(3)
	switch s.pick(6) {
	case 1:
		doc = m{[]string{"anyOf", "oneOf", "allOf"}[s.pick(3)]: []any{s.object(2), s.object(2)}}
	case 2:
		doc["anyOf"] = []any{s.object(1), s.object(1)}
	case 3:
		doc = m{"$ref": "#/$defs/D0"}
	}
	doc["$defs"] = m{"D0": s.object(2), "D1": s.schema(2)}
	return doc
}

// value makes a value that has a good chance to fit n; the validator decides.
func (s *source) value(doc m, n any, depth int) any {
	o, ok := n.(m)
	if !ok || depth <= 0 {
		return s.anything(depth)
	}
	if ref, ok := o["$ref"].(string); ok {
		if target, ok := follow(doc, ref[1:]); ok {
			return s.value(doc, target, depth-1)
		}
	}
	if c, ok := o["const"]; ok {
		return c
	}
	if l, ok := o["enum"].([]any); ok {
		return l[s.pick(len(l))]
	}
	kind := o["type"]
	if l, ok := kind.([]any); ok {
		kind = l[s.pick(len(l))]
	}
	if _, ok := o["properties"]; ok && kind == nil {
		kind = "object"
	}
	if kind == "object" {
		v := m{}
		s.fill(doc, o, v, depth)
		return v
	}
	for _, kw := range []string{"anyOf", "oneOf", "allOf"} {
		if l, ok := o[kw].([]any); ok {
			v := s.value(doc, l[s.pick(len(l))], depth-1)
			if w, isObject := v.(m); isObject && kw == "allOf" {
				for _, part := range l {
					if p, ok := part.(m); ok {
						s.fill(doc, p, w, depth-1)
					}
				}
			}
			return v
		}
	}
	switch kind {
	case "string":
		return []any{"p", "http://x", "a1", "k", ""}[s.pick(5)]
	case "integer":
		return []any{3, 1, 7, json.Number("9007199254740993")}[s.pick(4)]
	case "number":
		return []any{0.5, 2, -1.5}[s.pick(3)]
	case "boolean":
		return s.chance(50)
	case "null":
		return nil
	case "array":
		l := []any{}
		if prefix, ok := o["prefixItems"].([]any); ok {
			for _, p := range prefix {
				l = append(l, s.value(doc, p, depth-1))
			}
		} else {
			for range s.pick(3) {
				l = append(l, s.value(doc, o["items"], depth-1))
			}
		}
		return l
	}
	return s.anything(depth)
}

// fill gives v the properties of o and of one branch of each of its unions.
func (s *source) fill(doc, o, v m, depth int) {
	if ref, ok := o["$ref"].(string); ok && depth > 0 {
		if target, ok := follow(doc, ref[1:]); ok {
			if t, ok := target.(m); ok {
				s.fill(doc, t, v, depth-1)
			}
		}
	}
	props, _ := o["properties"].(m)
	required, _ := o["required"].([]any)
	for _, k := range sortedKeys(props) {
		if _, has := v[k]; !has && (slices.Contains(required, any(k)) || s.chance(60)) {
			v[k] = s.value(doc, props[k], depth-1)
		}
	}
	for _, k := range required {
		if _, has := v[k.(string)]; !has {
			v[k.(string)] = s.anything(1)
		}
	}
	if ap, has := o["additionalProperties"]; ap != false && s.chance(15) {
		if has {
			v["extra_key"] = s.value(doc, ap, depth-1)
		} else {
			v["extra_key"] = s.anything(1)
		}
	}
	for _, kw := range []string{"anyOf", "oneOf"} {
		if l, ok := o[kw].([]any); ok && depth > 0 {
			if b, ok := l[s.pick(len(l))].(m); ok {
				s.fill(doc, b, v, depth-1)
			}
		}
	}
	if l, ok := o["allOf"].([]any); ok && depth > 0 {
		for _, part := range l {
			if b, ok := part.(m); ok {
				s.fill(doc, b, v, depth-1)
			}
		}
	}
}

func sortedKeys(o m) []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (s *source) anything(depth int) any {
	return []any{"s", 1, true, nil, m{"k": "v"}, []any{1, "x"}, 2.5, fmt.Sprint("t", depth)}[s.pick(8)]
}
