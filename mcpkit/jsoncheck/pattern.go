package jsoncheck

import (
	"errors"
	"regexp"
	"regexp/syntax"
)

const (
	// maxPattern is how long a pattern may be, and maxProgram how many instructions
	// all of a schema may become: ten bytes of text can stand for a thousand.
	maxPattern = 64 << 10
	maxProgram = 1 << 17
	// stepsPerVisit is how many instructions, each of which may be tried on each
	// byte of a text, take the time of a visit.
	stepsPerVisit = 64
)

// pattern is a regular expression whose use is paid for.
type pattern struct {
	*regexp.Regexp
	s     *Schema
	steps int // instructions
}

// pattern compiles a regular expression of the schema, or, once that is compiled,
// one that a value is to be (format regex).
func (s *Schema) pattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, errors.New("the pattern is too long")
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if s.schema == nil {
		s.program += len(program.Inst)
	}
	if max(s.program, len(program.Inst)) > maxProgram {
		return nil, errors.New("the patterns together are too large")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, s, len(program.Inst)}, nil
}

// MatchString is called by the library in a check.
func (p *pattern) MatchString(text string) bool {
	p.s.spend(1 + len(text)*p.steps/stepsPerVisit)
	return p.Regexp.MatchString(text)
}
