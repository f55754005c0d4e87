package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// ErrShort is wrapped where a value ends in the middle, or has not begun: the rest
// may be yet to come.
var ErrShort = errors.New("it ends in the middle")

// Object reads data, one JSON object, into the struct that into points to. A member
// that the struct has not, in exactly its spelling, or that is there twice, is an
// error: its meaning might be missed. Errors name the line and what was probably
// meant. Below the first level it is as forgiving as encoding/json.
func Object(data []byte, into any) error {
	members, known := membersOf(reflect.ValueOf(into).Elem())
	dec := json.NewDecoder(bytes.NewReader(data))
	lineAt := func(offset int64) int {
		return 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
	}
	line := func() int { return lineAt(dec.InputOffset()) }
	broken := func(err error) error {
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Errorf("line %d: %w", lineAt(s.Offset), err)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("line %d: %w", lineAt(int64(len(data))), ErrShort)
		}
		return fmt.Errorf("line %d: %w", line(), err)
	}
	switch first, err := dec.Token(); {
	case err != nil:
		return broken(err)
	case first != json.Delim('{'):
		return fmt.Errorf("line %d: it is not one JSON object", line())
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return broken(err)
		}
		key, at := token.(string), line() // in an object each token at this place is a name
		target, ok := members[key]
		if !ok {
			hint := "the members are " + strings.Join(known, ", ")
			if near := Nearest(key, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return fmt.Errorf("line %d: unknown member %.60q; %s", at, key, hint)
		}
		if seen[key] {
			return fmt.Errorf("line %d: a second %q", at, key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return broken(err)
		}
		if err := json.Unmarshal(value, target.Addr().Interface()); err != nil {
			return fmt.Errorf("line %d: %q is not %s", at, key, wanted(target.Type()))
		}
	}
	if _, err := dec.Token(); err != nil {
		return broken(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: something follows the JSON object", line())
	}
	return nil
}

// membersOf are the fields of a struct by their names in JSON, and the names.
func membersOf(v reflect.Value) (members map[string]reflect.Value, names []string) {
	members = map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			members[name] = v.Field(i)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return members, names
}

func wanted(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "a whole number"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "a list of texts"
	}
	return "what it should be"
}
