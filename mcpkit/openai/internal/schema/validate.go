package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/ordered"
)

// One check of arguments visits this many schema nodes at most, and so many
// more for each byte of them: a recursive union can make a small value cost
// more than a day.
const (
	maxEvaluations     = 50_000
	evaluationsPerByte = 10
)

// validator checks values against one schema within a budget.
type validator struct {
	mu     sync.Mutex // the budget is one at a time
	schema *jsonschema.Schema
	left   int
}

// Validate is called by the library for every node that it evaluates.
func (v *validator) Validate(*jsonschema.ValidatorContext, any) {
	if v.left--; v.left < 0 {
		panic(errBudget)
	}
}

var errBudget = errors.New("they take too long to check against the tool's schema; send simpler ones")

// validate checks a value that is size bytes long as JSON.
func (v *validator) validate(value any, size int) (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer func() {
		switch r := recover(); r {
		case nil:
		case errBudget:
			err = errBudget
		default: // the library trips over numbers that it cannot compute
			err = fmt.Errorf("they cannot be checked against the tool's schema: %v", r)
		}
	}()
	if n := absurd(value); n != "" {
		return fmt.Errorf("the number %.40s is beyond all use", n)
	}
	v.left = maxEvaluations + size*evaluationsPerByte
	return v.schema.Validate(value)
}

// absurd finds a number whose exponent alone would fill the memory.
func absurd(v any) string {
	switch v := v.(type) {
	case json.Number:
		if ordered.Rat(v) == nil {
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

// compile makes a validator of a document in 2020-12; nil when it has none.
// It fetches nothing.
func compile(root *object) *validator {
	const at = "mem:///schema"
	v := new(validator)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(lenientRegexp)
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "mem:///budget",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return v, nil }})
	c.AssertVocabs()
	doc := ordered.Plain(root).(map[string]any)
	delete(doc, "$schema")
	if err := c.AddResource(at, doc); err != nil {
		return nil
	}
	s, err := c.Compile(at)
	if err != nil {
		return nil
	}
	v.schema = s
	return v
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, fmt.Errorf("%s is not fetched", url) }

// lenientRegexp lets everything through where Go cannot read the pattern: the
// server will check it itself.
func lenientRegexp(s string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return anything(s), nil
	}
	return re, nil
}

type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

// explain says what is wrong with arguments in words that name the fields, as
// the model knows them.
func (k *Codec) explain(ve *jsonschema.ValidationError) string {
	const most = 5
	var leaves []*jsonschema.ValidationError
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			leaves = append(leaves, e)
		}
		for _, c := range e.Causes {
			collect(c)
		}
	}
	collect(ve)
	p := message.NewPrinter(language.English)
	var said []string
	for _, e := range leaves {
		where := "the arguments"
		if len(e.InstanceLocation) > 0 {
			where = ""
			for _, seg := range e.InstanceLocation {
				where += "/" + escape(k.modelKey(seg))
			}
		}
		what := e.ErrorKind.LocalizedString(p)
		switch e := e.ErrorKind.(type) {
		case *kind.Required:
			what = "required and missing: " + k.quoted(e.Missing)
		case *kind.AdditionalProperties:
			what = "not known: " + k.quoted(e.Properties)
		case *kind.FalseSchema:
			what = "not allowed"
		}
		if s := where + ": " + what; !slices.Contains(said, s) {
			said = append(said, s)
		}
	}
	slices.Sort(said)
	more := ""
	if len(said) > most {
		more = fmt.Sprintf("; and %d more", len(said)-most)
		said = said[:most]
	}
	return strings.Join(said, "; ") + more
}

func (k *Codec) modelKey(server string) string {
	if m, ok := k.names[server]; ok {
		return m
	}
	return server
}

func (k *Codec) quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", k.modelKey(n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
