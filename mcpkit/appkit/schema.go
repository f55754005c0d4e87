package appkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// input decodes the arguments of one tool.
type input struct {
	schema   *jsonschema.Schema
	check    *validator.Schema
	defaults []byte // an object with the defaults of the top-level fields
}

func inferInput[In any]() (*input, error) {
	if t := reflect.TypeFor[In](); t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	s, err := inferSchema[In]()
	if err != nil {
		return nil, err
	}
	// A tool without arguments: the specification wants exactly this schema.
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := validator.NewCompiler()
	if err := c.AddResource("input.json", doc); err != nil {
		return nil, err
	}
	in := &input{schema: s}
	if in.check, err = c.Compile("input.json"); err != nil {
		return nil, err
	}
	defaults := map[string]json.RawMessage{}
	for name, p := range s.Properties {
		if p.Default != nil {
			defaults[name] = p.Default
		}
	}
	in.defaults, err = json.Marshal(defaults)
	return in, err
}

// decode checks raw against the schema and decodes it into args, on top of the
// defaults. Its errors are JSON-RPC errors with code -32602.
func (in *input) decode(raw json.RawMessage, args any) error {
	if len(raw) == 0 || string(raw) == "null" { // both stand for no arguments
		raw = json.RawMessage("{}")
	}
	v, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return invalidParams([]misfit{{Expected: "must be JSON: " + err.Error()}})
	}
	if err := in.check.Validate(v); err != nil {
		return invalidParams(misfits(err))
	}
	// 3.0 is an integer to JSON Schema, and models write it, but not to Go.
	text, err := json.Marshal(plainIntegers(v))
	if err != nil {
		return invalidParams([]misfit{{Expected: err.Error()}})
	}
	for _, b := range [][]byte{in.defaults, text} {
		err := json.Unmarshal(b, args)
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) { // such as an integer that no int64 holds
			return invalidParams([]misfit{{wrong.Field, fmt.Sprintf("%s does not fit a %s", wrong.Value, wrong.Type)}})
		} else if err != nil { // such as a field type's own UnmarshalJSON
			return invalidParams([]misfit{{Expected: err.Error()}})
		}
	}
	return nil
}

// misfits lists the leaves of a validation error.
func misfits(err error) []misfit {
	var ve *validator.ValidationError
	if !errors.As(err, &ve) {
		return []misfit{{Expected: err.Error()}}
	}
	english := message.NewPrinter(language.English)
	var list []misfit
	var walk func(e *validator.ValidationError)
	walk = func(e *validator.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) > 0 {
			return
		}
		at := func(name ...string) string {
			return strings.Join(append(slices.Clone(e.InstanceLocation), name...), ".")
		}
		switch k := e.ErrorKind.(type) {
		case *kind.Required:
			for _, name := range k.Missing {
				list = append(list, misfit{at(name), "is required"})
			}
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				list = append(list, misfit{at(name), "is not a known argument"})
			}
		default:
			list = append(list, misfit{at(), k.LocalizedString(english)})
		}
	}
	walk(ve)
	slices.SortFunc(list, func(a, b misfit) int { return strings.Compare(a.Field+"\x00"+a.Expected, b.Field+"\x00"+b.Expected) })
	return list
}

// plainIntegers rewrites numbers such as 3.0 and 2e2 to 3 and 200, in place.
func plainIntegers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plainIntegers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = plainIntegers(e)
		}
	case json.Number:
		// Exponents beyond a float's would make an integer of endless digits.
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") && f > -1e15 && f < 1e15 {
			if r, ok := new(big.Rat).SetString(v.String()); ok && r.IsInt() {
				return json.Number(r.Num().String())
			}
		}
	}
	return v
}

// inferSchema is the schema of T with the keywords of its fields' tags.
func inferSchema[T any]() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	return s, applyTags(s, reflect.TypeFor[T]())
}

// applyTags adds the keywords found in the tags of t's fields to s, however deep.
func applyTags(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items != nil {
			return applyTags(s.Items, t.Elem())
		}
	case reflect.Map:
		if s.AdditionalProperties != nil {
			return applyTags(s.AdditionalProperties, t.Elem())
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			p := s.Properties[name]
			if p == nil { // embedded, unexported, or a type with a schema of its own
				continue
			}
			if err := applyFieldTags(p, f); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
			if err := applyTags(p, f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

func applyFieldTags(p *jsonschema.Schema, f reflect.StructField) error {
	number := func(to **float64) func(string) error {
		return func(text string) error {
			n, err := strconv.ParseFloat(text, 64)
			*to = &n
			return err
		}
	}
	count := func(to **int) func(string) error {
		return func(text string) error {
			n, err := strconv.Atoi(text)
			*to = &n
			return err
		}
	}
	value := func(text string) json.RawMessage { // as JSON, except for strings
		if t := f.Type; t.Kind() != reflect.String && t != reflect.TypeFor[*string]() {
			return json.RawMessage(text)
		}
		quoted, err := json.Marshal(text)
		if err != nil { // cannot happen: a string
			panic(err)
		}
		return quoted
	}
	for key, apply := range map[string]func(string) error{
		"minimum":   number(&p.Minimum),
		"maximum":   number(&p.Maximum),
		"minLength": count(&p.MinLength),
		"maxLength": count(&p.MaxLength),
		"minItems":  count(&p.MinItems),
		"maxItems":  count(&p.MaxItems),
		"pattern":   func(text string) error { p.Pattern = text; return nil },
		"format":    func(text string) error { p.Format = text; return nil },
		"default":   func(text string) (err error) { p.Default = value(text); return json.Unmarshal(p.Default, new(any)) },
		"enum": func(text string) error {
			for _, v := range strings.Split(text, ",") {
				var e any
				if err := json.Unmarshal(value(v), &e); err != nil {
					return err
				}
				p.Enum = append(p.Enum, e)
			}
			return nil
		},
	} {
		if text, ok := f.Tag.Lookup(key); ok {
			if err := apply(text); err != nil {
				return fmt.Errorf("tag %s: %w", key, err)
			}
		}
	}
	return nil
}
