package base

import (
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// RewriteBelow replaces the nodes below the root from the leaves up; the root
// keeps its form.
func (tree *Tree) RewriteBelow(f func(n *Node) *Node) {
	Each(tree.Root, func(_ Place, child any) any {
		if o, ok := child.(*Node); ok {
			return Rewrite(o, f)
		}
		return child
	})
}

func Unescape(segment string) string {
	return strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
}

// Node is a schema node, or a map of names to nodes: which one it is follows
// from its position alone, never from its keys.
type Node = jsonvalue.Object

// Form is what the value of a keyword must be.
type Form int

const (
	FormUnknown      Form = iota // no keyword of JSON Schema
	FormSchema                   // one schema
	FormSchemaMap                // names to schemas
	FormSchemaList               // a list of schemas
	FormText                     // a string
	FormNumber                   // a number
	FormCount                    // a whole number, not negative
	FormFlag                     // a boolean
	FormNames                    // a list of distinct strings
	FormNamesMap                 // names to lists of distinct strings
	FormList                     // any list
	FormData                     // any value
	FormType                     // a type or a list of types
	FormSchemaOrFlag             // a schema whose boolean form says more than {} does
)

// Keywords are those of 2020-12 and, where their values are schemas, of older
// drafts, so that a walk before the repairs finds every node.
var Keywords = map[string]Form{
	"$schema": FormText, "$id": FormText, "$ref": FormText, "$anchor": FormText, "$dynamicRef": FormText,
	"$dynamicAnchor": FormText, "$recursiveRef": FormText, "$comment": FormText,
	"title": FormText, "description": FormText, "format": FormText, "pattern": FormText,
	"contentEncoding": FormText, "contentMediaType": FormText,

	"$defs": FormSchemaMap, "definitions": FormSchemaMap, "properties": FormSchemaMap,
	"patternProperties": FormSchemaMap, "dependentSchemas": FormSchemaMap,
	"allOf": FormSchemaList, "anyOf": FormSchemaList, "oneOf": FormSchemaList, "prefixItems": FormSchemaList,
	"not": FormSchema, "if": FormSchema, "then": FormSchema, "else": FormSchema, "items": FormSchema,
	"contains": FormSchema, "propertyNames": FormSchema, "contentSchema": FormSchema,
	"additionalProperties": FormSchemaOrFlag, "unevaluatedItems": FormSchemaOrFlag,
	"unevaluatedProperties": FormSchemaOrFlag, "additionalItems": FormSchemaOrFlag,

	"type": FormType, "enum": FormList, "const": FormData, "default": FormData, "examples": FormList,
	"required": FormNames, "dependentRequired": FormNamesMap,
	"minimum": FormNumber, "maximum": FormNumber, "exclusiveMinimum": FormNumber, "exclusiveMaximum": FormNumber,
	"multipleOf": FormNumber,
	"minLength":  FormCount, "maxLength": FormCount, "minItems": FormCount, "maxItems": FormCount,
	"minContains": FormCount, "maxContains": FormCount, "minProperties": FormCount, "maxProperties": FormCount,
	"uniqueItems": FormFlag, "readOnly": FormFlag, "writeOnly": FormFlag, "deprecated": FormFlag,
}

// Annotations say something to a reader and constrain nothing.
var Annotations = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "$comment": true,
	"deprecated": true, "readOnly": true, "writeOnly": true,
}

// Place is where a node hangs below its parent.
type Place struct {
	Keyword string
	Name    string // the key in a map of schemas
	Index   int    // the index in a list of schemas
	Form    Form
}

func (p Place) Pointer(parent string) string {
	ptr := parent + "/" + Escape(p.Keyword)
	switch p.Form {
	case FormSchemaMap:
		return ptr + "/" + Escape(p.Name)
	case FormSchemaList:
		return ptr + "/" + strconv.Itoa(p.Index)
	}
	return ptr
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// Escape makes a JSON Pointer segment (RFC 6901 section 3).
func Escape(segment string) string {
	if !strings.ContainsAny(segment, "~/") {
		return segment
	}
	return escaper.Replace(segment)
}

// Each calls f for every value in a schema position directly below n and puts
// what f returns in its place.
func Each(n *Node, f func(p Place, child any) any) {
	for _, kw := range n.Keys() {
		v, _ := n.Get(kw)
		switch Keywords[kw] {
		case FormSchema, FormSchemaOrFlag:
			if l, ok := v.([]any); ok && kw == "items" { // drafts before 2020-12
				n.Set(kw, eachOf(l, kw, f))
				continue
			}
			n.Set(kw, f(Place{Keyword: kw, Form: FormSchema}, v))
		case FormSchemaMap:
			if m, ok := v.(*Node); ok {
				eachIn(m, kw, f)
			}
		case FormSchemaList:
			if l, ok := v.([]any); ok {
				n.Set(kw, eachOf(l, kw, f))
			}
		case FormUnknown:
			switch kw {
			case "dependencies":
				if m, ok := v.(*Node); ok {
					eachIn(m, kw, f)
				}
			case "extends":
				if l, ok := v.([]any); ok {
					n.Set(kw, eachOf(l, kw, f))
				} else if _, ok := v.(*Node); ok {
					n.Set(kw, f(Place{Keyword: kw, Form: FormSchema}, v))
				}
			}
		}
	}
}

func eachIn(m *Node, kw string, f func(Place, any) any) {
	for _, k := range m.Keys() {
		v, _ := m.Get(k)
		if _, isList := v.([]any); isList && kw == "dependencies" {
			continue
		}
		m.Set(k, f(Place{Keyword: kw, Name: k, Form: FormSchemaMap}, v))
	}
}

func eachOf(l []any, kw string, f func(Place, any) any) []any {
	out := make([]any, len(l))
	for i, v := range l {
		out[i] = f(Place{Keyword: kw, Index: i, Form: FormSchemaList}, v)
	}
	return out
}

// Walk calls f for n and every node below it, parents first. f may change its
// node; what it puts there is walked too.
func Walk(n *Node, f func(n *Node)) {
	f(n)
	Each(n, func(_ Place, child any) any {
		if o, ok := child.(*Node); ok {
			Walk(o, f)
		}
		return child
	})
}

// Rewrite is nodes from the leaves up; f returns what takes its node's place.
func Rewrite(n *Node, f func(n *Node) *Node) *Node {
	Each(n, func(_ Place, child any) any {
		if o, ok := child.(*Node); ok {
			return Rewrite(o, f)
		}
		return child
	})
	return f(n)
}
