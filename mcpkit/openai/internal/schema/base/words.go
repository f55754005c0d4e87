package base

import (
	"bytes"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// Remove takes a constraint out of a node and says it in the description.
func (tree *Tree) Remove(n *Node, kw, code string) {
	v, ok := n.Get(kw)
	if !ok {
		return
	}
	n.Delete(kw)
	if s := Sentence(kw, v); s != "" {
		Note(n, s)
	}
	tree.Report(tree.Origin[n]+"/"+kw, code, v, nil, true)
}

// Sentence says a constraint in words.
func Sentence(kw string, v any) string {
	format, ok := map[string]string{
		"pattern": "Must match the pattern %s", "format": "Format: %s",
		"minLength": "At least %s characters", "maxLength": "At most %s characters",
		"minItems": "At least %s items", "maxItems": "At most %s items", "uniqueItems": "No item twice",
		"minimum": "Not less than %s", "maximum": "Not more than %s",
		"exclusiveMinimum": "More than %s", "exclusiveMaximum": "Less than %s", "multipleOf": "A multiple of %s",
		"minProperties": "At least %s keys", "maxProperties": "At most %s keys",
		"not": "Must not match %s", "const": "Always %s", "enum": "One of %s", "default": "Default: %s",
		"contains": "Holds an item that matches %s", "propertyNames": "Keys match %s",
		"patternProperties": "Keys and values by pattern: %s", "additionalProperties": "Further keys have values that match %s",
		"dependentRequired": "Keys that need other keys: %s", "dependentSchemas": "Rules that come with keys: %s",
		"if": "If it matches %s", "then": "then also %s", "else": "otherwise also %s",
		"prefixItems": "Items by position: %s", "allOf": "Must match all of %s", "oneOf": "Must match exactly one of %s",
		"anyOf": "Must match one of %s", "examples": "Examples: %s",
	}[kw]
	switch {
	case !ok || v == false:
		return ""
	case kw == "uniqueItems":
		return format + "."
	}
	if s, isText := v.(string); isText && (kw == "pattern" || kw == "format") {
		return fmt.Sprintf(format, s) + "."
	}
	return fmt.Sprintf(format, Quote(v)) + "."
}

// Note adds a sentence to a node's description.
func Note(n *Node, sentence string) {
	d, _ := n.Get("description")
	s, _ := d.(string)
	n.Set("description", Joined(s, sentence))
}

func Joined(s, sentence string) string {
	if s == "" {
		return sentence
	}
	if last := s[len(s)-1]; last != '.' && last != '!' && last != '?' && last != '\n' {
		s += "."
	}
	return s + " " + sentence
}

// text is v as it stands in a note.
func Quote(v any) string {
	b := jsonvalue.Append(nil, v)
	if len(b) > maxShown {
		b = append(bytes.ToValidUTF8(b[:maxShown], nil), "…"...)
	}
	return string(b)
}
