package strict

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Splitter is a list of strings that may also be written as one string. It is
// split before Options.String is applied to each part.
type Splitter interface {
	Split(string) ([]string, error)
}

var (
	textType  = reflect.TypeFor[encoding.TextUnmarshaler]()
	splitType = reflect.TypeFor[Splitter]()
)

// DecodeNode reads one node of the document into what out points to; key is the
// node's own path.
//
// Out may be built of structs, maps with string keys, slices, pointers, strings,
// booleans, integers, floats, encoding.TextUnmarshaler and Splitter. A struct
// field without omitempty or omitzero in its json tag is required.
func (d *Document) DecodeNode(n *yaml.Node, key string, out any) {
	d.value(n, key, reflect.ValueOf(out).Elem(), 0)
}

// value reads n into v. It reports false where v was not set.
func (d *Document) value(n *yaml.Node, key string, v reflect.Value, depth int) bool {
	if d.nodes++; d.nodes > maxNodes || depth > maxDepth {
		if d.nodes <= maxNodes+1 {
			d.nodes = maxNodes + 1
			d.FaultNode(n, key, "write fewer values and aliases", "the document is too large when its aliases are followed")
		}
		return false
	}
	if n.Kind == yaml.AliasNode {
		return d.value(n.Alias, key, v, depth+1)
	}
	if n.ShortTag() == "!!null" {
		return false
	}
	d.positions[key] = position{max(n.Line, 1), max(n.Column, 1)}
	scalar := n.Kind == yaml.ScalarNode
	switch {
	case scalar && v.CanAddr() && v.Addr().Type().Implements(textType):
		return d.text(n, key, v.Addr().Interface().(encoding.TextUnmarshaler))
	case scalar && v.Type().Implements(splitType):
		return d.split(n, key, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		if !d.value(n, key, p.Elem(), depth+1) {
			return false
		}
		v.Set(p)
		return true
	case reflect.Struct:
		return d.structure(n, key, v, depth)
	case reflect.Map:
		return d.mapping(n, key, v, depth)
	case reflect.Slice:
		return d.list(n, key, v, depth)
	case reflect.String:
		s, ok := d.str(n, key)
		if ok {
			v.SetString(s)
		}
		return ok
	case reflect.Bool:
		s, ok := d.scalar(n, key, "true or false", "!!bool")
		if !ok {
			return false
		}
		b, err := strconv.ParseBool(s)
		if err != nil {
			d.FaultNode(n, key, "", "want true or false, got %s", quote(n.Value))
			return false
		}
		v.SetBool(b)
		return true
	case reflect.Int, reflect.Int64:
		s, ok := d.scalar(n, key, "a whole number", "!!int")
		if !ok {
			return false
		}
		i, err := strconv.ParseInt(s, 0, 64)
		if err != nil || v.OverflowInt(i) {
			d.FaultNode(n, key, "", "want a whole number, got %s", quote(n.Value))
			return false
		}
		v.SetInt(i)
		return true
	case reflect.Float64:
		s, ok := d.scalar(n, key, "a number", "!!int", "!!float")
		if !ok {
			return false
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.FaultNode(n, key, "", "want a number, got %s", quote(n.Value))
			return false
		}
		v.SetFloat(f)
		return true
	}
	panic("strict: cannot decode into " + v.Type().String())
}

func (d *Document) structure(n *yaml.Node, key string, v reflect.Value, depth int) bool {
	if n.Kind != yaml.MappingNode {
		d.FaultNode(n, key, "", "want a mapping of keys, got %s", describe(n))
		return false
	}
	fields, names := fieldsOf(v.Type())
	present := map[string]bool{}
	d.pairs(n, key, func(k, val *yaml.Node, path string) {
		f, ok := fields[k.Value]
		switch {
		case ok:
			present[k.Value] = val.ShortTag() != "!!null"
			d.value(val, path, v.FieldByIndex(f.index), depth+1)
		case strings.HasPrefix(k.Value, "x-"):
		case d.opts.Loose:
			d.warnNode(k, path, UnknownKey)
		default:
			if len(d.Faults) > MaxFaults { // not shown: not worth a thought
				d.Count++
				return
			}
			hint := "known keys: " + strings.Join(names, ", ")
			if near := Nearest(k.Value, names); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			d.FaultNode(k, path, hint, "unknown key")
		}
	})
	for _, name := range names {
		if fields[name].required && !present[name] {
			d.FaultNode(n, join(key, name), "", "required key is missing")
		}
	}
	return true
}

func (d *Document) mapping(n *yaml.Node, key string, v reflect.Value, depth int) bool {
	if n.Kind != yaml.MappingNode {
		d.FaultNode(n, key, "", "want a mapping of keys, got %s", describe(n))
		return false
	}
	m := reflect.MakeMap(v.Type())
	d.pairs(n, key, func(k, val *yaml.Node, path string) {
		elem := reflect.New(v.Type().Elem()).Elem()
		if d.null(val, path) || !d.value(val, path, elem, depth+1) {
			return
		}
		m.SetMapIndex(reflect.ValueOf(k.Value).Convert(v.Type().Key()), elem)
	})
	v.Set(m)
	return true
}

func (d *Document) list(n *yaml.Node, key string, v reflect.Value, depth int) bool {
	if n.Kind != yaml.SequenceNode {
		d.FaultNode(n, key, "", "want a list, got %s", describe(n))
		return false
	}
	s := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d]", key, i)
		elem := reflect.New(v.Type().Elem()).Elem()
		if !d.null(item, path) && d.value(item, path, elem, depth+1) {
			s = reflect.Append(s, elem)
		}
		if d.nodes > maxNodes {
			break
		}
	}
	v.Set(s)
	return true
}

// pairs visits a mapping's pairs, leaving out what cannot be a key.
func (d *Document) pairs(n *yaml.Node, key string, visit func(k, v *yaml.Node, path string)) {
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content) && d.nodes <= maxNodes; i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		d.nodes++
		switch {
		case k.ShortTag() == "!!merge":
			d.FaultNode(k, join(key, k.Value), "write the keys out", "merge keys are not supported")
			continue
		case k.Kind != yaml.ScalarNode:
			d.FaultNode(k, join(key, "?"), "", "want a key, got %s", describe(k))
			continue
		case strings.ContainsRune(k.Value, 0):
			d.FaultNode(k, key, "", "the key holds a NUL character")
			continue
		}
		path := join(key, k.Value)
		if first := seen[k.Value]; first != nil {
			d.FaultNode(k, path, "", "duplicate key, first on line %d", max(first.Line, 1))
			continue
		}
		seen[k.Value] = k
		visit(k, v, path)
	}
}

// null reports a null where a value must stand.
func (d *Document) null(n *yaml.Node, key string) bool {
	if n.ShortTag() != "!!null" {
		return false
	}
	d.FaultNode(n, key, `write "" for an empty string`, "want a value, got nothing")
	return true
}

func (d *Document) str(n *yaml.Node, key string) (string, bool) {
	tag := n.ShortTag()
	if n.Kind != yaml.ScalarNode || tag != "!!str" && !(d.opts.Loose && (tag == "!!int" || tag == "!!float" || tag == "!!bool")) {
		hint := ""
		if n.Kind == yaml.ScalarNode && !strings.ContainsAny(n.Value, "\"\\\n") {
			hint = fmt.Sprintf("write %q", n.Value)
		}
		d.FaultNode(n, key, hint, "want a string, got %s", describe(n))
		return "", false
	}
	return d.replace(n, key, n.Value)
}

// replace applies Options.String.
func (d *Document) replace(n *yaml.Node, key, s string) (string, bool) {
	if d.opts.String != nil {
		out, err := d.opts.String(s)
		var w Warning
		switch {
		case errors.As(err, &w):
			d.warnNode(n, key, "%s", err)
		case err != nil:
			d.FaultNode(n, key, "", "%s", err)
			return "", false
		}
		s = out
	}
	if strings.ContainsRune(s, 0) {
		d.FaultNode(n, key, "", "the value holds a NUL character")
		return "", false
	}
	return s, true
}

// scalar is the text of a value that is no string: as it is written, or what a
// string with variables becomes.
func (d *Document) scalar(n *yaml.Node, key, want string, tags ...string) (string, bool) {
	tag := n.ShortTag()
	for _, t := range tags {
		if n.Kind == yaml.ScalarNode && tag == t {
			return n.Value, true
		}
	}
	if n.Kind == yaml.ScalarNode && tag == "!!str" && (d.opts.Loose || strings.Contains(n.Value, "${")) {
		return d.replace(n, key, n.Value)
	}
	d.FaultNode(n, key, "", "want %s, got %s", want, describe(n))
	return "", false
}

func (d *Document) text(n *yaml.Node, key string, v encoding.TextUnmarshaler) bool {
	s, ok := n.Value, true
	if n.ShortTag() == "!!str" {
		s, ok = d.replace(n, key, s)
	}
	if !ok {
		return false
	}
	if err := v.UnmarshalText([]byte(s)); err != nil {
		// What a variable holds may be a secret: the report shows what is written.
		d.FaultNode(n, key, "", "%s", strings.ReplaceAll(err.Error(), quote(s), quote(n.Value)))
		return false
	}
	return true
}

func (d *Document) split(n *yaml.Node, key string, v reflect.Value) bool {
	if n.ShortTag() != "!!str" {
		d.FaultNode(n, key, "", "want a string or a list of strings, got %s", describe(n))
		return false
	}
	parts, err := v.Interface().(Splitter).Split(n.Value)
	if err != nil {
		d.FaultNode(n, key, "", "%s", err)
		return false
	}
	list := reflect.MakeSlice(v.Type(), len(parts), len(parts))
	good := true
	for i, part := range parts {
		s, ok := d.replace(n, key, part)
		list.Index(i).SetString(s)
		good = good && ok
	}
	if good {
		v.Set(list)
	}
	return good
}

type field struct {
	index    []int
	required bool
}

// requires reports whether some key of a struct must be there.
func requires(t reflect.Type) bool {
	fields, _ := fieldsOf(t)
	for _, f := range fields {
		if f.required {
			return true
		}
	}
	return false
}

// fieldsOf are the fields of a struct by their json names, and the names in order.
func fieldsOf(t reflect.Type) (map[string]field, []string) {
	fields, names := map[string]field{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || name == "" {
			continue
		}
		fields[name] = field{f.Index, !strings.Contains(opts, "omit")}
		names = append(names, name)
	}
	return fields, names
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// describe says what a node is, for "want …, got …".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch tag := n.ShortTag(); tag {
	case "!!str":
		return "the string " + quote(n.Value)
	case "!!int", "!!float":
		return "the number " + clip(n.Value)
	case "!!bool":
		return "the boolean " + clip(n.Value)
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "the date " + clip(n.Value)
	default:
		return "a value tagged " + clip(tag)
	}
}

func quote(s string) string { return strconv.Quote(clip(s)) }

// Clip is s with at most so many characters, which keeps a hostile value from
// filling a report.
func Clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func clip(s string) string { return Clip(s, 60) }

// Duration is a span of time, written as a number of seconds (10, 0.5) or as a
// string with a unit ("250ms", "2m").
type Duration struct{ time.Duration }

// UnmarshalText reads either form. A negative span is an error.
func (d *Duration) UnmarshalText(b []byte) error {
	s := string(b)
	v, err := time.ParseDuration(s)
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil {
		v, err = time.Duration(f*float64(time.Second)), nil
		if math.IsNaN(f) || math.Abs(f) > math.MaxInt64/float64(time.Second)/2 {
			err = strconv.ErrRange
		}
	}
	if err != nil || v < 0 {
		return fmt.Errorf(`want a number of seconds or a span such as "250ms", got %s`, quote(s))
	}
	d.Duration = v
	return nil
}

// MarshalText writes the form with a unit.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes, written as a whole number or with a unit: KiB,
// MiB, GiB (powers of 1024).
type Size int64

var sizeUnits = []struct {
	name string
	n    int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// UnmarshalText reads either form. A negative size is an error.
func (z *Size) UnmarshalText(b []byte) error {
	s, unit := string(b), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = strings.TrimSpace(rest), u.n
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("want a number of bytes such as 65536 or 16MiB, got %s", quote(string(b)))
	}
	*z = Size(n * unit)
	return nil
}

// String writes the size in the largest unit that divides it.
func (z Size) String() string {
	for _, u := range sizeUnits {
		if z != 0 && int64(z)%u.n == 0 {
			return fmt.Sprintf("%d%s", int64(z)/u.n, u.name)
		}
	}
	return strconv.FormatInt(int64(z), 10)
}

// MarshalText writes what String does.
func (z Size) MarshalText() ([]byte, error) { return []byte(z.String()), nil }
