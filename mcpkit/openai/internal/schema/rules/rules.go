// Package rules says what one model API demands of the schema of a tool's
// parameters, and whether a schema keeps to it.
//
//	r := rules.Rules{NoRef: true, Keywords: rules.Set("type", "properties")}
//	err := rules.Check(tree, &r) // names the first node that breaks a rule
//
// It changes no schema; bringing one into form is package shape's.
package rules

import "regexp"

// Rules are what one API demands of a parameters schema beyond what all do: a
// root of type object with properties and without unions, valid 2020-12, items
// at every array, patterns without lookaround.
type Rules struct {
	Strict      *Limits         // strict mode, within these limits; what cannot be strict is converted without
	NoRef       bool            // references are replaced by their targets, recursion to a bounded depth
	NoSchemaURI bool            // $schema is refused
	NoTuples    bool            // prefixItems is refused: items takes what any position takes
	NoBesides   bool            // properties may not stand beside anyOf or oneOf
	Typed       bool            // every node has a type, a reference or a union
	SingleType  bool            // "type" is one name; implies a nullable keyword, enums of strings, anyOf alone in its node
	Keywords    map[string]bool // the only ones allowed; nil allows all
	Without     map[string]bool // keywords that are refused
	Formats     map[string]bool // the only ones allowed; nil allows all
	NoEmptyEnum bool            // an enum may not hold the empty string
	NoEmpty     bool            // an object below the root has properties
	TypeInUnion bool            // a union's branches have the types, not the node that it stands in
	PlainEnums  bool            // an enum holds only values of its node's type
	NotFormats  map[string]bool // formats that are refused
	Pattern     PatternRules
	MaxRepeat   int            // largest minLength, maxLength, minItems, maxItems; 0 for no limit
	WholeBounds bool           // minimum and maximum for integers only
	OpenMaps    bool           // additionalProperties: {} must be written true
	Keys        *regexp.Regexp // what a property may be called; nil for anything
	DefNames    *regexp.Regexp // the same of a definition
}

// Limits are those of strict mode.
type Limits struct {
	Depth      int // levels of nested objects
	Properties int
	EnumValues int
	NameChars  int // of all property names, definitions and enum values together
	LongEnum   int // characters of one enum with more than 250 values
}

// Set is a set of keywords or formats.
func Set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
