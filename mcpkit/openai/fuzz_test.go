package openai

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// FuzzAnySchemaFitsItsProfile throws JSON of any kind at every profile.
func FuzzAnySchemaFitsItsProfile(f *testing.F) {
	for _, s := range []string{``, `null`, `5`, `"x"`, `[]`, `{"type":"string"}`, `{"properties":{"a":{"$ref":"#/properties/a"}}}`,
		`{"$id":"http://x/y","$defs":{"a":{"$anchor":"q"}},"properties":{"p":{"$ref":"#q"},"r":{"$ref":"y#/$defs/a"}}}`,
		`{"type":"object","definitions":{"a":{"items":[true,{"id":"#z"}],"additionalItems":false}},"properties":{"a":{"$ref":"#/definitions/a"},"z":{"$ref":"#z"}}}`,
		`{"$schema":"http://json-schema.org/draft-03/schema#","properties":{"a":{"extends":{"type":"any"},"disallow":["string"],"divisibleBy":2,"required":true}}}`,
		`{"type":["object"],"required":["a","a",1],"properties":{"a":{"enum":[]},"b":{"type":[]},"c":{"anyOf":[]},"d":{"oneOf":[false]}}}`,
		`{"anyOf":[{"$ref":"#"},{"type":"object","nullable":true}],"not":true,"dependencies":{"a":["b"],"c":{"required":["d"]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if !json.Valid(input) && len(input) > 0 && len(input)%4 != 0 { // mostly JSON, but not only
			return
		}
		fitsAllProfiles(t, input)
	})
}

// FuzzGeneratedSchemas makes schemas of all keywords, and arguments that fit
// them: the outcome keeps the profile's rules, the arguments stay valid, and
// they reach the server as they were.
func FuzzGeneratedSchemas(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		b := make([]byte, 20+r.IntN(200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data}
		doc := s.document()
		input, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		fitsAllProfiles(t, input)
		original := tryCompile(decodePlain(t, input))
		separate := tryCompile(apart(decodePlain(t, input).(map[string]any)))
		if original == nil || separate == nil {
			return
		}
		for range 4 {
			args, err := json.Marshal(s.value(doc, doc, 4))
			if err != nil {
				t.Fatal(err)
			}
			if v, isObject := decodePlain(t, args).(map[string]any); isObject && original.Validate(v) == nil && separate.Validate(v) == nil {
				staysValid(t, input, args)
			}
		}
	})
}

// apart forbids, in every alternative of a union, the properties that only other
// alternatives name: the one meaning that conversion narrows.
func apart(doc map[string]any) map[string]any {
	var all []map[string]any
	eachNode(doc, "", func(n map[string]any, _ string) { all = append(all, n) })
	for _, n := range all {
		base, _ := n["properties"].(map[string]any)
		for _, kw := range []string{"anyOf", "oneOf"} {
			alts, _ := n[kw].([]any)
			named := make([]map[string]bool, len(alts))
			for i, a := range alts {
				named[i] = map[string]bool{}
				namedBy(doc, a, named[i], 4)
			}
			for i, a := range alts {
				foreign := map[string]any{}
				for j := range alts {
					for k := range named[j] {
						if _, shared := base[k]; !shared && !named[i][k] {
							foreign[k] = false
						}
					}
				}
				alts[i] = map[string]any{"allOf": []any{a, map[string]any{"properties": foreign}}}
			}
		}
	}
	return doc
}

func namedBy(doc map[string]any, v any, names map[string]bool, depth int) {
	n, ok := v.(map[string]any)
	if !ok || depth == 0 {
		return
	}
	props, _ := n["properties"].(map[string]any)
	for k := range props {
		names[k] = true
	}
	if ref, ok := n["$ref"].(string); ok {
		if target, ok := follow(doc, ref[1:]); ok {
			namedBy(doc, target, names, depth-1)
		}
	}
	for _, kw := range []string{"allOf", "anyOf", "oneOf"} {
		l, _ := n[kw].([]any)
		for _, e := range l {
			namedBy(doc, e, names, depth-1)
		}
	}
}

// distinctProfiles are those whose schema rules differ.
var distinctProfiles = []string{"openai", "openai-strict", "azure-strict", "anthropic", "gemini", "vertex", "deepseek", "llamacpp", "kimi", "typed"}

func tryCompile(doc any) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
		if re, err := regexp.Compile(s); err == nil {
			return re, nil
		}
		return everything(s), nil
	})
	if c.AddResource("mem:///x", doc) != nil {
		return nil
	}
	s, err := c.Compile("mem:///x")
	if err != nil {
		return nil
	}
	return s
}

type everything string

func (everything) MatchString(string) bool { return true }
func (e everything) String() string        { return string(e) }

func fitsAllProfiles(t *testing.T, input []byte) {
	t.Helper()
	tool := newTool("s", "t", "d", string(input))
	for _, profile := range distinctProfiles {
		a, b := export(t, profile, tool), export(t, profile, newTool("s", "t", "d", string(input)))
		if !bytes.Equal(a.JSON(), b.JSON()) || !cmp.Equal(a.Report, b.Report) {
			t.Fatalf("%s: two outcomes of %s:\n%s\n%s\n%+v\n%+v", profile, input, a.JSON(), b.JSON(), a.Report, b.Report)
		}
		it := a.items[0]
		for _, e := range a.Report {
			if e.Code == "self_check" || e.Code == "converter_defect" || strings.Contains(string(e.After), "defect of the converter") || e.Code == "strict_fallback" && strings.Contains(string(e.After), "2020-12") {
				t.Errorf("%s: a pass left something that the check refused: %s\n in  %s", profile, e.Before, input)
			}
		}
		for _, p := range problems(t, profile, it) {
			t.Errorf("%s: %s\n in  %s\n out %s", profile, p, input, it.result.Parameters)
		}
	}
}

// problems judges an outcome by a reading of the rules that shares no code with
// the converter.
func problems(t *testing.T, profile string, it *item) (out []string) {
	doc := decodePlain(t, it.result.Parameters).(map[string]any)
	if err := metaSchema(t).Validate(any(doc)); err != nil {
		out = append(out, err.Error())
	}
	if _, ok := doc["properties"].(map[string]any); doc["type"] != "object" || !ok {
		out = append(out, "no object at the root")
	}
	for _, kw := range []string{"oneOf", "anyOf", "allOf", "enum", "not", "const", "$ref"} {
		if _, ok := doc[kw]; ok {
			out = append(out, kw+" at the root")
		}
	}
	checks := []string{"refs_resolve", "no_boolean_schema"}
	switch profile {
	case "llamacpp":
		checks = append(checks, "no_keyword", "patterns_re2", "patterns_anchored")
	case "gemini", "vertex":
		checks = append(checks, "all_typed", "array_items", "no_type_list", "enum_strings_only", "no_keyword", "required_subset", "no_x_keywords")
	case "typed", "fireworks":
		checks = append(checks, "array_items")
	case "deepseek":
		checks = append(checks, "array_items", "patterns_re2")
	case "anthropic":
		checks = append(checks, "array_items", "keys_match")
	default:
		checks = append(checks, "array_items")
	}
	if it.result.Strict {
		checks = append(checks, "closed", "no_ref_siblings")
	}
	typed := profile == "typed" || profile == "fireworks" || profile == "llamacpp"
	a := assertion{Keywords: []string{"$ref", "$defs", "prefixItems"}, Pattern: `^[a-zA-Z0-9_.-]{1,64}$`}
	if profile == "gemini" || profile == "vertex" {
		a.Keywords = append(a.Keywords, "additionalProperties", "const", "exclusiveMinimum", "exclusiveMaximum", "oneOf", "allOf", "not", "$schema", "if")
	}
	tr := &trial{T: t, it: it, plain: doc}
	eachNode(doc, "", func(n map[string]any, at string) {
		for _, op := range checks {
			if p := nodeChecks[op](tr, a, n); p != "" {
				out = append(out, at+": "+op+": "+p)
			}
		}
		if typed && n["type"] == nil && n["$ref"] == nil && n["anyOf"] == nil && n["oneOf"] == nil && n["allOf"] == nil {
			out = append(out, at+": no type")
		}
		if p, ok := n["pattern"].(string); ok && (strings.Contains(p, "(?!") || strings.Contains(p, "(?=") || strings.Contains(p, `\p`)) {
			out = append(out, at+": "+p)
		}
	})
	return out
}

// narrowing codes say that a provider has no way to say all that was allowed.
var narrowing = []string{"type_inferred", "type_all", "enum_narrowed", "conflict_dropped", "depth_limit", "recursion_cut", "inline_budget", "object_as_text"}

func staysValid(t *testing.T, input, args []byte) {
	t.Helper()
	for _, profile := range distinctProfiles {
		x := export(t, profile, newTool("s", "t", "d", string(input)))
		it := x.items[0]
		if x.profile.schema.SingleType && slices.ContainsFunc(x.Report, func(e Entry) bool { return slices.Contains(narrowing, e.Code) && e.Lossy }) {
			continue
		}
		doc := decodePlain(t, it.result.Parameters).(map[string]any)
		eachNode(doc, "", func(n map[string]any, _ string) { // what the provider means by it
			if s, ok := n["type"].(string); ok && n["nullable"] == true {
				n["type"] = []any{s, "null"}
				if l, ok := n["enum"].([]any); ok {
					n["enum"] = append(slices.Clone(l), nil)
				}
			}
		})
		sent := asModelWrites(x, doc, decodePlain(t, args))
		if err := mustCompile(t, doc).Validate(sent); err != nil {
			if it.result.Strict {
				continue // closed, by the nature of strict mode
			}
			t.Fatalf("%s: %s was valid and is not: %v\n in  %s\n out %s", profile, args, err, input, it.result.Parameters)
		}
		text, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		call, err := x.Decode(it.name, string(text))
		if err != nil {
			t.Fatalf("%s: %s is valid and was refused: %v\n in  %s", profile, text, err, input)
		}
		got, want := decodePlain(t, call.Arguments), decodePlain(t, args)
		if it.result.Strict { // an optional null may be kept
			got, want = withoutNulls(got), withoutNulls(want)
		}
		if len(call.Repairs) == 0 && !cmp.Equal(got, want) {
			t.Fatalf("%s: %s, sent as %s, reached the server as %s\n in  %s\n out %s", profile, args, text, call.Arguments, input, it.result.Parameters)
		}
	}
}

// asModelWrites is args in the words of the converted schema: renamed keys, and
// in strict mode a null for what is left out.
func asModelWrites(x *Export, doc map[string]any, args any) any {
	renamed := map[string]string{}
	for _, e := range x.Report {
		if e.Code == "key_renamed" {
			renamed[strings.Trim(string(e.Before), `"`)] = strings.Trim(string(e.After), `"`)
		}
	}
	var rename func(v any) any
	rename = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, e := range v {
				if to, ok := renamed[k]; ok {
					k = to
				}
				out[k] = rename(e)
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i, e := range v {
				out[i] = rename(e)
			}
			return out
		}
		return v
	}
	args = rename(args)
	if x.items[0].result.Strict {
		return withNulls(doc, doc, args, 0)
	}
	return args
}

func withNulls(doc map[string]any, schema any, v any, depth int) any {
	n, _ := schema.(map[string]any)
	if ref, ok := n["$ref"].(string); ok && depth < 20 {
		target, _ := follow(doc, ref[1:])
		return withNulls(doc, target, v, depth+1)
	}
	if l, ok := n["anyOf"].([]any); ok {
		for _, branch := range l {
			filled := withNulls(doc, branch, v, depth+1)
			whole := map[string]any{"allOf": []any{branch}, "$defs": doc["$defs"]}
			if s := tryCompile(whole); doc["$defs"] != nil && s != nil && s.Validate(filled) == nil {
				return filled
			}
		}
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		props, _ := n["properties"].(map[string]any)
		out := map[string]any{}
		for k, e := range v {
			out[k] = withNulls(doc, props[k], e, depth+1)
		}
		for k := range props {
			if _, ok := out[k]; !ok {
				out[k] = nil
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withNulls(doc, n["items"], e, depth+1)
		}
		return out
	}
	return v
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e != nil {
				out[k] = withoutNulls(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutNulls(e)
		}
		return out
	}
	return v
}

// FuzzNamesAreDistinctAndReversible exports two tools beside each other, with
// names taken by others.
func FuzzNamesAreDistinctAndReversible(f *testing.F) {
	f.Add("a", "b", "a", "c", "mcp__a__b")
	f.Add("a__b", "c", "a", "b__c", "")
	f.Add("数据库", "query", "知识库", "query", "mcp_____query_2ed9f5e1")
	f.Fuzz(func(t *testing.T, s1, t1, s2, t2, reserved string) {
		a, b := newTool(s1, t1, "", ""), newTool(s2, t2, "", "")
		for _, profile := range []string{"openai", "gemini"} {
			valid := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)
			x, err := New([]*catalog.Tool{a, b}, Options{Profile: profile, Reserved: []string{reserved}})
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range x.items {
				if !valid.MatchString(it.name) || it.name == reserved {
					t.Fatalf("the name %q", it.name)
				}
				call, err := x.Decode(it.name, "")
				if err != nil || call.ID != it.tool.ID() {
					t.Fatalf("%q leads to %+v, %v", it.name, call, err)
				}
				alone, err := New([]*catalog.Tool{it.tool}, Options{Profile: profile, Reserved: []string{reserved}})
				if err != nil || len(alone.items) != 1 {
					t.Fatalf("alone it is %+v, %v", alone.items, err)
				}
				if call, err := x.Decode(alone.items[0].name, ""); err == nil && call.ID != it.tool.ID() {
					t.Fatalf("%q meant %q alone and means %q", alone.items[0].name, it.tool.ID(), call.ID)
				}
			}
			if len(x.items) == 2 && strings.EqualFold(x.items[0].name, x.items[1].name) {
				t.Fatalf("both are %q", x.items[0].name)
			}
		}
	})
}

// FuzzDecodeNeverInventsArguments: whatever the model sends becomes arguments
// that say the same, or an error.
func FuzzDecodeNeverInventsArguments(f *testing.F) {
	for _, s := range []string{``, `null`, `{}`, `{"a":1}`, `{"a":1,}`, "```json\n{\"a\":2}\n```", `"{\"a\":3}"`, `{"a":"4"}`, `{"a":1,"a":2}`, `{"a":1}{"a":`, `[`, `{"a":1e400}`} {
		f.Add(s)
	}
	x, err := New([]*catalog.Tool{newTool("s", "t", "", `{"type":"object","properties":{"a":{"type":"integer"}}}`)}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		call, err := x.Decode("mcp__s__t", sent)
		if err != nil {
			return
		}
		if !json.Valid(call.Arguments) || call.Arguments[0] != '{' {
			t.Fatalf("%q became %s", sent, call.Arguments)
		}
		if string(call.Arguments) == "{}" && strings.ContainsAny(sent, "123456789abcdefghijkmopqrstvwxyz") &&
			!regexp.MustCompile("^[ \t\r\n]*```(json|JSON)?").MatchString(sent) {
			t.Fatalf("%q became {}", sent)
		}
		if len(call.Repairs) == 0 && strings.TrimSpace(sent) != "" && strings.TrimSpace(sent) != "null" && !equalJSON(t, call.Arguments, []byte(sent)) {
			t.Fatalf("%q became %s", sent, call.Arguments)
		}
	})
}
