// Package args makes JSON Schemas from Go types and decodes a tool's arguments
// by them.
//
//	in, err := args.For[Query]()  // in.Schema is for tools/list
//	var q Query
//	err = in.Decode(raw, &q)      // Misfits, or q with its defaults filled in
//
// Beyond what jsonschema-go reads (types, json tags, descriptions in jsonschema
// tags), struct tags named after JSON Schema's keywords are understood: minimum,
// maximum, minLength, maxLength, pattern, format, enum (parted by commas),
// default, minItems and maxItems. Defaults are filled in at the top level only.
package args

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

// Misfit is one way in which arguments do not fit their schema.
type Misfit struct {
	Field    string `json:"field"` // dotted path, empty for the arguments as a whole
	Expected string `json:"expected"`
}

// Misfits are all of them, sorted by field. It is an error.
type Misfits []Misfit

// Error implements error.
func (m Misfits) Error() string {
	texts := make([]string, len(m))
	for i, f := range m {
		texts[i] = strings.TrimPrefix(f.Field+": "+f.Expected, ": ")
	}
	return "invalid arguments: " + strings.Join(texts, "; ")
}

// Input decodes the arguments of one tool.
type Input struct {
	Schema   *jsonschema.Schema
	check    *validator.Schema
	defaults []byte // an object with the defaults of the top-level fields
}

// For makes the Input of In, which is a struct.
func For[In any]() (*Input, error) {
	if t := reflect.TypeFor[In](); t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	s, err := Schema[In]()
	if err != nil {
		return nil, err
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
	in := &Input{Schema: s}
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

// Decode checks raw against the schema and decodes it into args, a pointer to an
// In, on top of the defaults. Its errors are Misfits.
func (in *Input) Decode(raw json.RawMessage, args any) error {
	if len(raw) == 0 || string(raw) == "null" { // both stand for no arguments
		raw = json.RawMessage("{}")
	}
	v, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return Misfits{{Expected: "must be JSON: " + err.Error()}}
	}
	if v, err = plainNumbers(v); err != nil {
		return Misfits{{Expected: err.Error()}}
	}
	if err := in.check.Validate(v); err != nil {
		return misfits(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return Misfits{{Expected: err.Error()}}
	}
	for _, b := range [][]byte{in.defaults, text} {
		err := json.Unmarshal(b, args)
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) { // such as an integer that no int64 holds
			return Misfits{{wrong.Field, fmt.Sprintf("%s does not fit a %s", wrong.Value, wrong.Type)}}
		} else if err != nil { // such as a field type's own UnmarshalJSON
			return Misfits{{Expected: err.Error()}}
		}
	}
	return nil
}

// misfits lists the leaves of a validation error.
func misfits(err error) Misfits {
	var ve *validator.ValidationError
	if !errors.As(err, &ve) {
		return Misfits{{Expected: err.Error()}}
	}
	english := message.NewPrinter(language.English)
	var list Misfits
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
				list = append(list, Misfit{at(name), "is required"})
			}
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				list = append(list, Misfit{at(name), "is not a known argument"})
			}
		default:
			list = append(list, Misfit{at(), k.LocalizedString(english)})
		}
	}
	walk(ve)
	slices.SortFunc(list, func(a, b Misfit) int { return strings.Compare(a.Field+"\x00"+a.Expected, b.Field+"\x00"+b.Expected) })
	return list
}

// maxExponent is more than any float64 has, and little enough to compute with:
// checking 1e999999999 against a schema would take all memory there is.
const maxExponent = 1000

// plainNumbers rewrites numbers such as 3.0 and 2e2 to 3 and 200, in place: they
// are integers to JSON Schema, and models write them, but they are none to Go.
func plainNumbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if v[k], err = plainNumbers(e); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, e := range v {
			if v[i], err = plainNumbers(e); err != nil {
				return nil, err
			}
		}
	case json.Number:
		text := v.String()
		if i := strings.IndexAny(text, "eE"); i >= 0 {
			if n, err := strconv.Atoi(text[i+1:]); err != nil || n > maxExponent || n < -maxExponent {
				return nil, fmt.Errorf("the exponent of %.20s is out of range", text)
			}
		}
		if r, ok := new(big.Rat).SetString(text); ok && r.IsInt() && strings.ContainsAny(text, ".eE") {
			return json.Number(r.Num().String()), nil
		}
	}
	return v, nil
}

// Schema is the schema of T with the keywords of its fields' tags.
func Schema[T any]() (*jsonschema.Schema, error) {
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
