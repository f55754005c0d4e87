package schema

import (
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// object is a schema node, or a map of names to nodes: which one it is follows
// from its position alone, never from its keys.
type object = ordered.Object

// form is what the value of a keyword must be.
type form int

const (
	unknown      form = iota // no keyword of JSON Schema
	aSchema                  // one schema
	schemaMap                // names to schemas
	schemaList               // a list of schemas
	text                     // a string
	number                   // a number
	count                    // a whole number, not negative
	flag                     // a boolean
	names                    // a list of distinct strings
	namesMap                 // names to lists of distinct strings
	list                     // any list
	data                     // any value
	typeName                 // a type or a list of types
	schemaOrFlag             // a schema whose boolean form says more than {} does
)

// keywords are those of 2020-12 and, where their values are schemas, of older
// drafts, so that a walk before the repairs finds every node.
var keywords = map[string]form{
	"$schema": text, "$id": text, "$ref": text, "$anchor": text, "$dynamicRef": text,
	"$dynamicAnchor": text, "$recursiveRef": text, "$comment": text,
	"title": text, "description": text, "format": text, "pattern": text,
	"contentEncoding": text, "contentMediaType": text,

	"$defs": schemaMap, "definitions": schemaMap, "properties": schemaMap,
	"patternProperties": schemaMap, "dependentSchemas": schemaMap,
	"allOf": schemaList, "anyOf": schemaList, "oneOf": schemaList, "prefixItems": schemaList,
	"not": aSchema, "if": aSchema, "then": aSchema, "else": aSchema, "items": aSchema,
	"contains": aSchema, "propertyNames": aSchema, "contentSchema": aSchema,
	"additionalProperties": schemaOrFlag, "unevaluatedItems": schemaOrFlag,
	"unevaluatedProperties": schemaOrFlag, "additionalItems": schemaOrFlag,

	"type": typeName, "enum": list, "const": data, "default": data, "examples": list,
	"required": names, "dependentRequired": namesMap,
	"minimum": number, "maximum": number, "exclusiveMinimum": number, "exclusiveMaximum": number,
	"multipleOf": number,
	"minLength":  count, "maxLength": count, "minItems": count, "maxItems": count,
	"minContains": count, "maxContains": count, "minProperties": count, "maxProperties": count,
	"uniqueItems": flag, "readOnly": flag, "writeOnly": flag, "deprecated": flag,
}

// annotations say something to a reader and constrain nothing.
var annotations = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "$comment": true,
	"deprecated": true, "readOnly": true, "writeOnly": true,
}

// place is where a node hangs below its parent.
type place struct {
	keyword string
	name    string // the key in a map of schemas
	index   int    // the index in a list of schemas
	form    form
}

func (p place) pointer(parent string) string {
	ptr := parent + "/" + escape(p.keyword)
	switch p.form {
	case schemaMap:
		return ptr + "/" + escape(p.name)
	case schemaList:
		return ptr + "/" + strconv.Itoa(p.index)
	}
	return ptr
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// escape makes a JSON Pointer segment (RFC 6901 section 3).
func escape(segment string) string {
	if !strings.ContainsAny(segment, "~/") {
		return segment
	}
	return escaper.Replace(segment)
}

// drop, returned by the function given to each, removes the child.
type drop struct{}

// each calls f for every value in a schema position directly below n and puts
// what f returns in its place.
func each(n *object, f func(p place, child any) any) {
	for _, kw := range n.Keys() {
		v, _ := n.Get(kw)
		switch keywords[kw] {
		case aSchema, schemaOrFlag:
			if l, ok := v.([]any); ok && kw == "items" { // drafts before 2020-12
				n.Set(kw, eachOf(l, kw, f))
				continue
			}
			switch w := f(place{keyword: kw, form: aSchema}, v).(type) {
			case drop:
				n.Delete(kw)
			default:
				n.Set(kw, w)
			}
		case schemaMap:
			if m, ok := v.(*object); ok {
				eachIn(m, kw, f)
			}
		case schemaList:
			if l, ok := v.([]any); ok {
				n.Set(kw, eachOf(l, kw, f))
			}
		case unknown:
			switch kw {
			case "dependencies":
				if m, ok := v.(*object); ok {
					eachIn(m, kw, f)
				}
			case "extends":
				if l, ok := v.([]any); ok {
					n.Set(kw, eachOf(l, kw, f))
				} else if _, ok := v.(*object); ok {
					n.Set(kw, f(place{keyword: kw, form: aSchema}, v))
				}
			}
		}
	}
}

func eachIn(m *object, kw string, f func(place, any) any) {
	for _, k := range m.Keys() {
		v, _ := m.Get(k)
		if _, isList := v.([]any); isList && kw == "dependencies" {
			continue
		}
		switch w := f(place{keyword: kw, name: k, form: schemaMap}, v).(type) {
		case drop:
			m.Delete(k)
		default:
			m.Set(k, w)
		}
	}
}

func eachOf(l []any, kw string, f func(place, any) any) []any {
	out := make([]any, 0, len(l))
	for i, v := range l {
		w := f(place{keyword: kw, index: i, form: schemaList}, v)
		if _, gone := w.(drop); !gone {
			out = append(out, w)
		}
	}
	return out
}

// nodes calls f for n and every node below it, parents first. f may change its
// node; what it puts there is walked too.
func nodes(n *object, f func(n *object)) {
	f(n)
	each(n, func(_ place, child any) any {
		if o, ok := child.(*object); ok {
			nodes(o, f)
		}
		return child
	})
}

// rewrite is nodes from the leaves up; f returns what takes its node's place.
func rewrite(n *object, f func(n *object) *object) *object {
	each(n, func(_ place, child any) any {
		if o, ok := child.(*object); ok {
			return rewrite(o, f)
		}
		return child
	})
	return f(n)
}
