package jsoncheck

import (
	"bytes"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What Accepts gives up at: such values and schemas are rare, and Decode and
// Check are there for them.
const (
	maxAcceptDepth  = 64
	maxAcceptVisits = 10_000
	maxAcceptNodes  = 2_000
	maxAcceptNames  = 64 // of one object in the schema
)

// Accepts reports whether raw is one JSON value in valid UTF-8 that fits the
// schema, for sure: Decode would read it and Check find nothing. It reads raw
// once and allocates nothing, but knows only what most schemas are made of; where
// it says no, Decode and Check have the word.
func (s *Schema) Accepts(raw []byte) bool {
	ok, _ := s.accepts(raw)
	return ok
}

// accepts also tells how many visits were left; fewer than none where they ran out.
func (s *Schema) accepts(raw []byte) (ok bool, left int) {
	if s.quick == nil || !utf8.Valid(raw) {
		return false, 0
	}
	r := reader{decoder: decoder{b: raw, discard: true}, left: maxAcceptVisits + len(raw)/4}
	if !r.fits(s.quick, 0) {
		return false, r.left
	}
	r.space()
	return r.i == len(raw), r.left
}

// kinds is a set of JSON types.
type kinds uint8

const (
	isNull kinds = 1 << iota
	isBoolean
	isNumber
	isInteger
	isString
	isArray
	isObject
	isAny = isNull | isBoolean | isNumber | isString | isArray | isObject
)

var kindsByName = map[string]kinds{
	"null": isNull, "boolean": isBoolean, "number": isNumber, "integer": isInteger,
	"string": isString, "array": isArray, "object": isObject,
}

// node is a schema that Accepts knows.
type node struct {
	types kinds
	words []string // the value is one of these strings; nil allows all
	also  []*node  // all of them hold too: $ref and allOf
	any   []*node  // one of them holds too, if there are any

	names    []string // properties, with their schemas
	values   []*node
	required uint64 // bit i: names[i] must be there
	rest     *node  // of other members; nil forbids them

	items              *node
	minItems, maxItems int // maxItems and maxLength less than 0: no limit

	minLength, maxLength int // characters
	pattern              *pattern

	bounded  bool // by min and max
	min, max bound
}

type bound struct {
	set, open bool // open: the bound itself is not allowed
	at        float64
}

var anyValue = &node{types: isAny, maxItems: -1, maxLength: -1}

func init() { anyValue.rest, anyValue.items = anyValue, anyValue }

// quickener makes nodes of compiled schemas, one for each.
type quickener map[*jsonschema.Schema]*node

// of is the node of a schema, or nil where it has anything that Accepts does not
// know.
func (q quickener) of(s *jsonschema.Schema) *node {
	if s == nil {
		return anyValue
	}
	if n, ok := q[s]; ok {
		return n // perhaps in the making: a schema may refer to itself
	}
	if s.Bool != nil && *s.Bool {
		return anyValue
	}
	if s.Bool != nil || len(q) >= maxAcceptNodes || strange(s) {
		return nil
	}
	n := &node{types: isAny, maxItems: -1, maxLength: -1}
	q[s] = n
	if s.Ref != nil && s.DraftVersion < 2019 { // whatever stands beside it
		n.rest, n.items = anyValue, anyValue
		n.also = []*node{q.of(s.Ref)}
		return orNil(n, n.also[0] != nil)
	}
	ok := n.simple(s) && n.numbers(s) && q.object(n, s) && q.array(n, s)
	refs := slices.Clone(s.AllOf)
	if s.Ref != nil {
		refs = append(refs, s.Ref)
	}
	for _, part := range refs {
		n.also = append(n.also, q.of(part))
	}
	for _, part := range s.AnyOf {
		n.any = append(n.any, q.of(part))
	}
	return orNil(n, ok && !slices.Contains(n.also, nil) && !slices.Contains(n.any, nil))
}

func orNil(n *node, ok bool) *node {
	if !ok {
		return nil
	}
	return n
}

// strange reports whether a schema asserts what nodes cannot.
func strange(s *jsonschema.Schema) bool {
	return s.RecursiveRef != nil || s.DynamicRef != nil || s.Not != nil || len(s.OneOf) > 0 || s.If != nil ||
		s.Format != nil || s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil ||
		len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 || len(s.DependentRequired) > 0 ||
		len(s.DependentSchemas) > 0 || s.UnevaluatedProperties != nil || s.UniqueItems || s.Contains != nil ||
		s.MinContains != nil || s.MaxContains != nil || s.AdditionalItems != nil || len(s.PrefixItems) > 0 ||
		s.UnevaluatedItems != nil || s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil ||
		s.MultipleOf != nil
}

// simple takes types, words and lengths over.
func (n *node) simple(s *jsonschema.Schema) bool {
	if s.Types != nil && !s.Types.IsEmpty() {
		n.types = 0
		for _, name := range s.Types.ToStrings() {
			n.types |= kindsByName[name]
		}
	}
	words := []any(nil)
	if s.Enum != nil {
		words = s.Enum.Values
	}
	if s.Const != nil {
		if s.Enum != nil {
			return false
		}
		words = []any{*s.Const}
	}
	if s.Enum != nil || s.Const != nil {
		n.types &= isString
		n.words = []string{}
		for _, w := range words {
			word, ok := w.(string)
			if !ok {
				return false
			}
			n.words = append(n.words, word)
		}
	}
	n.pattern, _ = s.Pattern.(*pattern) // else anything
	if s.MinLength != nil {
		n.minLength = *s.MinLength
	}
	if s.MaxLength != nil {
		n.maxLength = max(0, *s.MaxLength)
	}
	return s.MaxLength == nil || *s.MaxLength >= 0
}

// numbers takes bounds over. One that is not exact as it is computed with here
// is not known.
func (n *node) numbers(s *jsonschema.Schema) bool {
	exact := true
	set := func(b *bound, at *big.Rat, open bool) {
		if at == nil {
			return
		}
		f, ok := at.Float64()
		exact = exact && ok && !b.set
		*b, n.bounded = bound{set: true, open: open, at: f}, true
	}
	set(&n.min, s.Minimum, false)
	set(&n.min, s.ExclusiveMinimum, true)
	set(&n.max, s.Maximum, false)
	set(&n.max, s.ExclusiveMaximum, true)
	return exact
}

func (q quickener) object(n *node, s *jsonschema.Schema) bool {
	if len(s.Properties) > maxAcceptNames {
		return false
	}
	for name, sub := range s.Properties {
		value := q.of(sub)
		if value == nil {
			return false
		}
		n.names, n.values = append(n.names, name), append(n.values, value)
	}
	switch rest := s.AdditionalProperties.(type) {
	case nil:
		n.rest = anyValue
	case bool:
		if rest {
			n.rest = anyValue
		}
	case *jsonschema.Schema:
		if n.rest = q.of(rest); n.rest == nil {
			return false
		}
	}
	for _, name := range s.Required {
		i := slices.Index(n.names, name)
		if i < 0 { // one of the others
			if i = len(n.names); n.rest == nil || i == maxAcceptNames {
				return false
			}
			n.names, n.values = append(n.names, name), append(n.values, n.rest)
		}
		n.required |= 1 << i
	}
	return true
}

func (q quickener) array(n *node, s *jsonschema.Schema) bool {
	n.items = q.of(s.Items2020)
	if s.DraftVersion < 2020 {
		switch items := s.Items.(type) {
		case nil:
			n.items = anyValue
		case *jsonschema.Schema:
			n.items = q.of(items)
		default:
			return false
		}
	}
	if s.MinItems != nil {
		n.minItems = *s.MinItems
	}
	if s.MaxItems != nil {
		if n.maxItems = *s.MaxItems; n.maxItems < 0 {
			return false
		}
	}
	return n.items != nil
}

// reader reads a value for Accepts.
type reader struct {
	decoder
	left int // visits of nodes, and of so many bytes
}

// fits reads the value at r.i. Where it says yes r.i is behind it.
func (r *reader) fits(n *node, depth int) bool {
	if r.left--; r.left < 0 || depth > maxAcceptDepth {
		return false
	}
	r.space()
	begin := r.i
	ok := r.plainly(n, depth)
	r.left -= (r.i - begin) / 64 // a union may read a long text many times
	if !ok {
		return false
	}
	for _, also := range n.also {
		if r.i = begin; !r.fits(also, depth+1) {
			return false
		}
	}
	if len(n.any) == 0 {
		return true
	}
	for _, one := range n.any {
		if r.i = begin; r.fits(one, depth+1) {
			return true
		}
	}
	return false
}

// plainly is fits by what the node says itself.
func (r *reader) plainly(n *node, depth int) bool {
	if r.i >= len(r.b) {
		return false
	}
	switch c := r.b[r.i]; {
	case c == '"':
		return n.types&isString != 0 && r.string(n)
	case c == '{':
		return n.types&isObject != 0 && r.members(n, depth+1)
	case c == '[':
		return n.types&isArray != 0 && r.elements(n, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return n.types&(isNumber|isInteger) != 0 && r.figure(n)
	case c == 'n':
		return n.types&isNull != 0 && r.word("null")
	case c == 't':
		return n.types&isBoolean != 0 && r.word("true")
	case c == 'f':
		return n.types&isBoolean != 0 && r.word("false")
	}
	return false
}

func (r *reader) word(w string) bool {
	if len(r.b)-r.i < len(w) || string(r.b[r.i:r.i+len(w)]) != w {
		return false
	}
	r.i += len(w)
	return true
}

// raw is the text of the string at r.i as it is written.
func (r *reader) raw() (s []byte, ok bool) {
	begin := r.i
	if _, err := r.text(); err != nil {
		return nil, false
	}
	return r.b[begin+1 : r.i-1], true
}

func (r *reader) string(n *node) bool {
	s, ok := r.raw()
	if !ok || n.words == nil && n.pattern == nil && n.minLength <= 0 && n.maxLength < 0 {
		return ok
	}
	if bytes.IndexByte(s, '\\') >= 0 {
		return false
	}
	if n.words != nil && !slices.Contains(n.words, string(s)) {
		return false
	}
	if n.minLength > 0 || n.maxLength >= 0 {
		if length := utf8.RuneCount(s); length < n.minLength || n.maxLength >= 0 && length > n.maxLength {
			return false
		}
	}
	if n.pattern == nil {
		return true
	}
	r.left -= n.pattern.cost(len(s))
	return r.left >= 0 && n.pattern.Regexp.Match(s)
}

func (r *reader) figure(n *node) bool {
	begin := r.i
	if _, err := r.number(); err != nil {
		return false
	}
	s := r.b[begin:r.i]
	whole := true
	for _, c := range s {
		switch c {
		case 'e', 'E':
			return false
		case '.':
			whole = false
		}
	}
	if !whole && n.types&isNumber == 0 {
		return false
	}
	if !n.bounded {
		return true
	}
	f, err := strconv.ParseFloat(string(s), 64)
	// A number that is written longer may be rounded, which cannot bring it from
	// the other side of a bound but onto the bound.
	exact := whole && len(s) <= 15
	return err == nil && above(f, n.min, exact) && above(-f, bound{n.max.set, n.max.open, -n.max.at}, exact)
}

// above reports whether f, the bound itself if that is exact, is on the right side.
func above(f float64, b bound, exact bool) bool {
	return !b.set || f > b.at || f == b.at && exact && !b.open
}

func (r *reader) members(n *node, depth int) bool {
	r.i++
	var seen uint64
	if r.next('}') {
		return n.required == 0
	}
	for {
		if r.space(); r.i >= len(r.b) || r.b[r.i] != '"' {
			return false
		}
		name, ok := r.raw()
		if !ok || bytes.IndexByte(name, '\\') >= 0 || !r.next(':') {
			return false
		}
		value := n.rest
		for i := range n.names {
			if n.names[i] == string(name) {
				value = n.values[i]
				seen |= 1 << i
				break
			}
		}
		if value == nil || !r.fits(value, depth) {
			return false
		}
		if r.next('}') {
			return n.required&^seen == 0
		}
		if !r.next(',') {
			return false
		}
	}
}

func (r *reader) elements(n *node, depth int) bool {
	r.i++
	if r.next(']') {
		return n.minItems <= 0
	}
	for count := 1; ; count++ {
		if !r.fits(n.items, depth) {
			return false
		}
		if r.next(']') {
			return count >= n.minItems && (n.maxItems < 0 || count <= n.maxItems)
		}
		if !r.next(',') {
			return false
		}
	}
}
