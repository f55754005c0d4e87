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
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// One check visits this many schema nodes at most, and so many more for each
// byte of the value: a recursive union can make a small value cost more than a day.
const (
	maxEvaluations     = 50_000
	evaluationsPerByte = 10
)

// maxExponent bounds numbers: the exponent of one beyond it would alone fill
// the memory.
const maxExponent = 1000

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
	quick  *node // nil where Accepts knows it not
	left   int
}

// Compile compiles a document; without $schema it is read as 2020-12. Only the
// document itself and the published meta-schemas resolve.
func Compile(doc any, o Options) (*Schema, error) {
	const at = "mem:///schema"
	s := new(Schema)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if o.LenientPatterns {
		c.UseRegexpEngine(lenient)
	}
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "mem:///budget",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return s, nil }})
	c.AssertVocabs()
	if err := c.AddResource(at, doc); err != nil {
		return nil, err
	}
	var err error
	s.schema, err = c.Compile(at)
	if err != nil {
		return nil, err
	}
	s.quick = quickener{}.of(s.schema)
	return s, nil
}

// Validate is called by the library for every node that it evaluates.
func (s *Schema) Validate(*jsonschema.ValidatorContext, any) {
	if s.left--; s.left < 0 {
		panic(errBudget)
	}
}

var errBudget = errors.New("it takes too long to check against the schema; send something simpler")

// Check checks a value that is size bytes long as JSON. The error is a
// *jsonschema.ValidationError, or says why the value cannot be checked.
func (s *Schema) Check(value any, size int) (err error) {
	if n := absurd(value); n != "" {
		return fmt.Errorf("the number %.40s is beyond all use", n)
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
	s.left = maxEvaluations + size*evaluationsPerByte
	return s.schema.Validate(value)
}

// absurd finds a number that cannot be computed with, or returns "".
func absurd(v any) string {
	switch v := v.(type) {
	case json.Number:
		i := strings.IndexAny(string(v), "eE")
		if i < 0 {
			return ""
		}
		if e, err := strconv.Atoi(string(v)[i+1:]); err != nil || e > maxExponent || e < -maxExponent {
			return string(v)
		}
	case []any:
		for _, e := range v {
			if n := absurd(e); n != "" {
				return n
			}
		}
	case map[string]any:
		for _, e := range v {
			if n := absurd(e); n != "" {
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

// lenient is the regular expression engine of LenientPatterns.
func lenient(s string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return anything(s), nil
	}
	return re, nil
}

type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }
