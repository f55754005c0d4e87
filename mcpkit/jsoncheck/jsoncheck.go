// Package jsoncheck checks JSON values against the schemas of servers nobody
// here wrote, within a budget: whatever schema and value are, a check ends soon
// and neither panics nor fetches anything.
//
//	s, err := jsoncheck.Compile(doc, jsoncheck.Options{})
//	err = s.Check(value, len(raw)) // a *jsonschema.ValidationError names the fields
//
// Documents and values are decoded JSON with numbers as json.Number. Which
// schema applies to what, and how a failure is told, is the caller's business.
package jsoncheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// One check visits this many schema nodes at most, and so many more for each
// byte of the value up to the last bound: a recursive union can make a small value
// cost more than a day.
const (
	maxEvaluations     = 50_000
	evaluationsPerByte = 10
	mostEvaluations    = 1 << 24
)

// What is not visited, and is bounded by itself: values, as each that does not fit
// is told; their comparisons with the words and numbers of enumerations.
const (
	maxValues      = 1 << 19
	maxComparisons = 1 << 28
	numberCompared = 64 // comparisons of words take that time
)

// maxExponent bounds numbers: the exponent of one beyond it would alone fill
// the memory. maxFigures is as much of one that is written out.
const (
	maxExponent = 1000
	maxFigures  = 1000
)

// Options say how a schema is read.
type Options struct {
	// LenientPatterns lets everything through where Go's regular expressions
	// cannot read a pattern. Otherwise such a schema does not compile.
	LenientPatterns bool
}

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	mu     sync.Mutex // the budget is one at a time
	schema *jsonschema.Schema
	left   int

	program        int // of all patterns together, instructions
	words, numbers int // of all enumerations together
}

// Compile compiles a document; without $schema it is read as 2020-12. Only the
// document itself and the published meta-schemas resolve.
func Compile(doc any, o Options) (*Schema, error) {
	const at = "mem:///schema"
	s := new(Schema)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		p, err := s.pattern(text)
		if err != nil && o.LenientPatterns {
			return anything(text), nil
		}
		return p, err
	})
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "mem:///budget",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			return visit{s, s.weigh(obj)}, nil
		}})
	c.AssertVocabs()
	if err := c.AddResource(at, doc); err != nil {
		return nil, err
	}
	var err error
	s.schema, err = c.Compile(at)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// weigh is what a visit of a schema object costs by what it lists, and counts what
// it enumerates.
func (s *Schema) weigh(obj map[string]any) int {
	weight := 1
	for _, key := range []string{"required", "allOf", "anyOf", "oneOf", "prefixItems", "dependencies", "dependentRequired", "dependentSchemas", "patternProperties"} {
		switch list := obj[key].(type) {
		case []any:
			weight += len(list)
		case map[string]any:
			weight += len(list)
			for _, names := range list {
				if names, ok := names.([]any); ok {
					weight += len(names)
				}
			}
		}
	}
	enum, _ := obj["enum"].([]any)
	for _, v := range enum {
		if _, ok := v.(json.Number); ok {
			s.numbers++
		} else {
			s.words++
		}
	}
	return weight
}

// visit is called by the library for the nodes that it evaluates.
type visit struct {
	s      *Schema
	weight int
}

func (n visit) Validate(_ *jsonschema.ValidatorContext, v any) {
	cost := n.weight
	switch v := v.(type) {
	case string:
		cost += len(v) / 256
	case []any:
		cost += len(v)
	case map[string]any:
		cost += len(v)
	}
	n.s.spend(cost)
}

func (s *Schema) spend(cost int) {
	if s.left -= cost; s.left < 0 {
		panic(errBudget)
	}
}

// budget is how much the check of a value of so many bytes may spend.
func budget(size int) int {
	return min(maxEvaluations+size*evaluationsPerByte, mostEvaluations)
}

var errBudget = errors.New("it takes too long to check against the schema; send something simpler")

// Check checks a value that is size bytes long as JSON. The error is a
// *jsonschema.ValidationError, or says why the value cannot be checked.
func (s *Schema) Check(value any, size int) (err error) {
	var c census
	if n := c.count(value); n != "" {
		return fmt.Errorf("the number %.40s is beyond all use", n)
	}
	if c.values > maxValues || c.values*s.words+c.numbers*s.numbers*numberCompared > maxComparisons {
		return errBudget
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		switch r := recover(); r {
		case nil:
		case errBudget:
			err = errBudget
		default: // the library trips over something
			err = fmt.Errorf("it cannot be checked against the schema: %v", r)
		}
	}()
	s.left = budget(size)
	return s.schema.Validate(value)
}

// census counts what a value is made of.
type census struct{ values, numbers int }

// count finds a number that cannot be computed with, or returns "".
func (c *census) count(v any) string {
	c.values++
	switch v := v.(type) {
	case json.Number:
		c.numbers++
		i := strings.IndexAny(string(v), "eE")
		if i < 0 {
			i = len(v)
		} else if e, err := strconv.Atoi(string(v)[i+1:]); err != nil || e > maxExponent || e < -maxExponent {
			return string(v)
		}
		if i > maxFigures {
			return string(v)
		}
	case []any:
		for _, e := range v {
			if n := c.count(e); n != "" {
				return n
			}
		}
	case map[string]any:
		for _, e := range v {
			if n := c.count(e); n != "" {
				return n
			}
		}
	}
	return ""
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not fetched: schemas may not refer to other documents", url)
}

// anything stands for a pattern that cannot be read.
type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }
