package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// assertion is one check of a case on the converted parameters.
type assertion struct {
	Op       string            `json:"op"`
	Path     string            `json:"path"`
	Value    json.RawMessage   `json:"value"`
	Keywords []string          `json:"keywords"`
	Args     []json.RawMessage `json:"args"`
	Pattern  string            `json:"pattern"`
}

func (t *trial) assert(raw json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var a assertion
	if err := d.Decode(&a); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	bad := func(format string, args ...any) {
		t.Errorf("%s: %s in %.2000s", raw, fmt.Sprintf(format, args...), t.it.result.Parameters)
	}
	at, present := follow(t.plain, a.Path)
	switch a.Op {
	case "eq":
		if !present || !cmp.Equal(at, decodePlain(t, a.Value)) {
			bad("is %v", at)
		}
	case "absent":
		if present {
			bad("is %v", at)
		}
	case "present":
		if !present {
			bad("is not there")
		}
	case "text_contains":
		s, _ := at.(string)
		for _, part := range into[[]string](t, a.Value) {
			if !strings.Contains(s, part) {
				bad("no %q in %q", part, s)
			}
		}
	case "accepts", "rejects":
		s := mustCompile(t, t.plain)
		for _, arg := range a.Args {
			if err := s.Validate(decodePlain(t, arg)); (err == nil) != (a.Op == "accepts") {
				bad("%s: %v", arg, err)
			}
		}
	case "metaschema":
		if err := metaSchema(t).Validate(any(t.plain)); err != nil {
			bad("%v", err)
		}
	case "openai_root":
		if t.plain["type"] != "object" {
			bad("the type is %v", t.plain["type"])
		}
		if _, ok := t.plain["properties"].(map[string]any); !ok {
			bad("no properties")
		}
		for _, kw := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
			if _, ok := t.plain[kw]; ok {
				bad("%s at the root", kw)
			}
		}
	case "required_equals":
		got, _ := t.plain["required"].([]any)
		var names []string
		for _, v := range got {
			names = append(names, v.(string))
		}
		want := into[[]string](t, a.Value)
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			bad("required is %q", names)
		}
	case "property_names":
		var names []string
		for k := range t.plain["properties"].(map[string]any) {
			names = append(names, k)
		}
		slices.Sort(names)
		if !slices.Equal(names, into[[]string](t, a.Value)) {
			bad("properties are %q", names)
		}
	case "property_count":
		if n := len(t.plain["properties"].(map[string]any)); n != into[int](t, a.Value) {
			bad("%d properties", n)
		}
	case "json_max_bytes":
		if n := len(t.it.result.Parameters); n > into[int](t, a.Value) {
			bad("%d bytes", n)
		}
	case "no_hang_ms":
		t.within(a.Value)
	case "strict_ok_or_fallback":
		if t.it.result.Strict {
			eachNode(t.plain, "", func(n map[string]any, at string) {
				for _, p := range strictProblems(n) {
					bad("%s: %s", at, p)
				}
			})
		}
	case "no_exponent_integers":
		if regexp.MustCompile(`\d[eE][+-]?\d`).Match(t.it.result.Parameters) {
			bad("an exponent")
		}
		if strings.Contains(string(t.c.Input.InputSchema), "9007199254740993") && !strings.Contains(string(t.it.result.Parameters), "9007199254740993") {
			bad("digits are lost")
		}
	case "no_hidden_unicode":
		if hiddenIn(string(t.it.result.Parameters)) {
			bad("hidden characters")
		}
	case "no_ref_cycle_without_schema":
		eachNode(t.plain, "", func(n map[string]any, at string) {
			for steps, m := 0, n; m != nil && m["$ref"] != nil; steps++ {
				if steps > 100 {
					bad("%s leads in a circle", at)
					return
				}
				ref, _ := m["$ref"].(string)
				next, _ := follow(t.plain, strings.TrimPrefix(ref, "#"))
				m, _ = next.(map[string]any)
			}
		})
	default:
		check, ok := nodeChecks[a.Op]
		if !ok {
			t.Fatalf("the assertion %q is not understood", a.Op)
		}
		eachNode(t.plain, "", func(n map[string]any, at string) {
			if p := check(t, a, n); p != "" {
				bad("%s: %s", at, p)
			}
		})
	}
}

// nodeChecks hold for every schema node.
var nodeChecks = map[string]func(t *trial, a assertion, n map[string]any) string{
	"no_keyword": func(_ *trial, a assertion, n map[string]any) string {
		for _, kw := range a.Keywords {
			if _, ok := n[kw]; ok {
				return kw
			}
		}
		return ""
	},
	"array_items": func(_ *trial, _ assertion, n map[string]any) string {
		if _, ok := n["items"].(map[string]any); hasType(n, "array") && !ok {
			return "an array without items"
		}
		return ""
	},
	"all_typed": func(_ *trial, _ assertion, n map[string]any) string {
		for _, kw := range []string{"type", "$ref", "anyOf"} {
			if _, ok := n[kw]; ok {
				return ""
			}
		}
		return "no type"
	},
	"closed": func(_ *trial, _ assertion, n map[string]any) string {
		return strings.Join(strictProblems(n), "; ")
	},
	"refs_resolve": func(t *trial, _ assertion, n map[string]any) string {
		ref, has := n["$ref"].(string)
		if !has {
			return ""
		}
		if !strings.HasPrefix(ref, "#") {
			return ref + " is not local"
		}
		ptr, err := url.PathUnescape(ref[1:])
		target, ok := follow(t.plain, ptr)
		if _, isSchema := target.(map[string]any); err != nil || !ok || !isSchema {
			return ref + " leads nowhere"
		}
		return ""
	},
	"enum_strings_only": func(_ *trial, _ assertion, n map[string]any) string {
		l, has := n["enum"].([]any)
		if !has {
			return ""
		}
		if n["type"] != "string" {
			return "an enum of no strings"
		}
		for _, v := range l {
			if _, ok := v.(string); !ok {
				return fmt.Sprint(v)
			}
		}
		return ""
	},
	"no_boolean_schema": func(_ *trial, _ assertion, n map[string]any) string {
		for kw, v := range n {
			if _, is := v.(bool); is && (slices.Contains(schemaKeywords, kw) && kw != "additionalProperties") {
				return kw
			}
		}
		return ""
	},
	"no_type_list": func(_ *trial, _ assertion, n map[string]any) string {
		if _, is := n["type"].([]any); is {
			return "a list"
		}
		return ""
	},
	"no_x_keywords": func(_ *trial, _ assertion, n map[string]any) string {
		for kw := range n {
			if strings.HasPrefix(kw, "x-") {
				return kw
			}
		}
		return ""
	},
	"no_ref_siblings": func(_ *trial, _ assertion, n map[string]any) string {
		if _, has := n["$ref"]; has && len(n) > 1 {
			return "a reference with siblings"
		}
		return ""
	},
	"required_subset": func(_ *trial, _ assertion, n map[string]any) string {
		props, _ := n["properties"].(map[string]any)
		l, _ := n["required"].([]any)
		for _, v := range l {
			if _, ok := props[v.(string)]; !ok {
				return v.(string)
			}
		}
		return ""
	},
	"keys_match": func(_ *trial, a assertion, n map[string]any) string {
		props, _ := n["properties"].(map[string]any)
		for k := range props {
			if !regexp.MustCompile(a.Pattern).MatchString(k) {
				return k
			}
		}
		return ""
	},
	"patterns_anchored": func(_ *trial, _ assertion, n map[string]any) string {
		if p, has := n["pattern"].(string); has && !(strings.HasPrefix(p, "^") && strings.HasSuffix(p, "$")) {
			return p
		}
		return ""
	},
	"patterns_re2": func(_ *trial, _ assertion, n map[string]any) string {
		if p, has := n["pattern"].(string); has && !re2(p) {
			return p
		}
		return ""
	},
}

// strictProblems are what a strict API would say about a node.
func strictProblems(n map[string]any) (out []string) {
	for _, kw := range []string{"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
		"propertyNames", "unevaluatedItems", "unevaluatedProperties", "contains", "minContains", "maxContains", "uniqueItems", "minProperties",
		"maxProperties", "prefixItems", "additionalItems", "$anchor", "$dynamicRef", "$id"} {
		if _, ok := n[kw]; ok {
			out = append(out, kw)
		}
	}
	if n["type"] == nil && n["$ref"] == nil && n["anyOf"] == nil {
		out = append(out, "no type")
	}
	if hasType(n, "array") {
		if items, ok := n["items"].(map[string]any); !ok || len(items) == 0 {
			out = append(out, "an array without typed items")
		}
	}
	if hasType(n, "object") {
		props, _ := n["properties"].(map[string]any)
		required, _ := n["required"].([]any)
		if n["additionalProperties"] != false {
			out = append(out, "an open object")
		}
		if len(required) != len(props) {
			out = append(out, "a property that is not required")
		}
	}
	return out
}

func hasType(n map[string]any, name string) bool {
	if l, ok := n["type"].([]any); ok {
		return slices.Contains(l, any(name))
	}
	return n["type"] == name
}

var (
	schemaKeywords = []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"}
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	schemaMaps  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// eachNode visits the schema nodes of a document by position. It shares nothing
// with the walk that it judges.
func eachNode(v any, at string, f func(n map[string]any, at string)) {
	n, ok := v.(map[string]any)
	if !ok {
		return
	}
	f(n, at)
	for _, kw := range schemaKeywords {
		eachNode(n[kw], at+"/"+kw, f)
	}
	for _, kw := range schemaLists {
		l, _ := n[kw].([]any)
		for i, e := range l {
			eachNode(e, at+"/"+kw+"/"+strconv.Itoa(i), f)
		}
	}
	for _, kw := range schemaMaps {
		m, _ := n[kw].(map[string]any)
		for k, e := range m {
			eachNode(e, at+"/"+kw+"/"+k, f)
		}
	}
}

// follow is RFC 6901.
func follow(v any, ptr string) (any, bool) {
	if ptr == "" {
		return v, true
	}
	for _, seg := range strings.Split(ptr, "/")[1:] {
		seg = strings.NewReplacer("~1", "/", "~0", "~").Replace(seg)
		switch w := v.(type) {
		case map[string]any:
			next, ok := w[seg]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(seg)
			if err != nil || i < 0 || i >= len(w) {
				return nil, false
			}
			v = w[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func mustCompile(t testing.TB, doc any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///case", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///case")
	if err != nil {
		t.Fatalf("%v in %v", err, doc)
	}
	return s
}

var compiledMetaSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("https://json-schema.org/draft/2020-12/schema")
})

func metaSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	s, err := compiledMetaSchema()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
