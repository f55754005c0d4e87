// Package schemas checks the arguments and the results of calls against the schemas
// that servers gave their tools. It decides nothing else about a call.
package schemas

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/egress"
	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// maxSchemas bounds the cache of compiled schemas; it is emptied when full.
const maxSchemas = 10_000

// Checker compiles and keeps the servers' own schemas, by content. A schema that
// cannot be compiled disables the check of its tool, and a pattern that cannot be
// read only its own check; both are logged as warnings. It is safe for concurrent use.
type Checker struct {
	log   *slog.Logger
	mu    sync.Mutex
	tools map[*catalog.Tool]compiled
	cache map[[32]byte]*jsoncheck.Schema
}

// New makes a Checker.
func New(log *slog.Logger) *Checker { return &Checker{log: log} }

// compiled are the schemas of one tool, nil where there is none that can be used.
type compiled struct{ input, output *jsoncheck.Schema }

// Arguments makes an object of what the caller gave and checks it against
// the tool's original input schema. Specification 2025-11-25, server/tools,
// "inputSchema".
func (s *Checker) Arguments(tool *catalog.Tool, raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	} else if !jsontext.IsObject(raw) {
		return nil, fault.New(fault.InvalidArguments, "the arguments must be one JSON object")
	}
	schema := s.of(tool).input
	value, err := jsonvalue.Decode(raw)
	switch {
	case err != nil:
		return nil, fault.New(fault.InvalidArguments, "the arguments must be one JSON object")
	case !utf8.Valid(raw): // which JSON readers let pass, and strict servers die of
		return nil, fault.New(fault.InvalidArguments, "the arguments are not valid UTF-8")
	}
	if err := certain(raw); err != nil || schema == nil {
		return raw, err
	}
	if problems := Problems(schema, value, len(raw)); problems != "" {
		return nil, fault.New(fault.InvalidArguments, "the arguments of %s do not fit its schema: %s", tool.Name, problems)
	}
	return raw, nil
}

// certain refuses arguments that mean one thing to who checks or approves them, and
// perhaps another to the server.
func certain(raw json.RawMessage) error {
	if at, found := jsontext.Duplicate(raw); found {
		return fault.New(fault.InvalidArguments, "the arguments have %.200q twice, and it is not certain which one counts: send it once", at)
	}
	if jsontext.LoneSurrogate(raw) {
		return fault.New(fault.InvalidArguments, "the arguments hold half a character, a surrogate escape without its other half")
	}
	return nil
}

// Result checks structured content against the tool's output schema, where
// it has one. A result that reports an error need not fit.
// Specification 2025-11-25, server/tools, "Output Schema".
func (s *Checker) Result(tool *catalog.Tool, r toolcall.Result) error {
	if !r.IsObject() {
		return fault.New(fault.InvalidResult, "the result of %s is no JSON object", tool.Name).Unknown()
	}
	if r.IsError() || r.NeedsInput() || len(tool.OutputSchema) == 0 {
		return nil
	}
	schema := s.of(tool).output
	if schema == nil {
		return nil
	}
	structured := r.Structured()
	if structured == nil {
		return fault.New(fault.InvalidResult, "the result of %s lacks the structured content that its schema promises", tool.Name).Unknown()
	}
	value, err := jsonvalue.Decode(structured)
	if err != nil {
		return fault.New(fault.InvalidResult, "the structured content of %s cannot be read: %s", tool.Name, err).Unknown()
	}
	if problems := Problems(schema, value, len(structured)); problems != "" {
		return fault.New(fault.InvalidResult, "the result of %s does not fit its schema: %s", tool.Name, problems).Unknown()
	}
	return nil
}

// of returns the compiled schemas of a tool. A tool does not change: a changed one is
// another.
func (s *Checker) of(tool *catalog.Tool) compiled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tools[tool]; ok {
		return t
	}
	t := compiled{input: s.compile(tool, "input", tool.InputSchema), output: s.compile(tool, "output", tool.OutputSchema)}
	if s.tools == nil || len(s.tools) >= maxSchemas {
		s.tools = make(map[*catalog.Tool]compiled)
	}
	s.tools[tool] = t
	return t
}

// compile returns the schema, or nil where there is none that can be used.
func (s *Checker) compile(tool *catalog.Tool, which string, raw json.RawMessage) *jsoncheck.Schema {
	if !jsontext.IsObject(raw) {
		return nil
	}
	key := sha256.Sum256(raw)
	if schema, ok := s.cache[key]; ok {
		return schema
	}
	schema, err := compile(raw)
	if err != nil {
		s.log.Warn("a schema cannot be compiled as it is", "tool", tool.Name, "schema", which, "checked", schema != nil, "error", clip(err.Error()))
	}
	if s.cache == nil || len(s.cache) >= maxSchemas {
		s.cache = make(map[[32]byte]*jsoncheck.Schema)
	}
	s.cache[key] = schema
	return schema
}

// maxSchemaBytes bounds what is compiled; compilation is recursive.
const (
	maxSchemaBytes = 1 << 20
	maxSchemaDepth = 200
)

// compile reads a schema as its server wrote it. Where only its patterns cannot be
// read, as those with a look ahead, there is a schema beside the error: it holds for
// all else.
func compile(raw json.RawMessage) (*jsoncheck.Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("%d bytes are more than the limit of %d", len(raw), maxSchemaBytes)
	}
	if d := jsontext.Depth(raw); d > maxSchemaDepth {
		return nil, fmt.Errorf("nested %d deep, more than the limit of %d", d, maxSchemaDepth)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	schema, err := jsoncheck.Compile(doc, jsoncheck.Options{})
	if err != nil {
		schema, _ = jsoncheck.Compile(doc, jsoncheck.Options{LenientPatterns: true})
	}
	return schema, err
}

// maxProblems is how many faults an error names: enough to act on, not a flood, and
// maxCounted how many are told apart. A name or a value may be of any length.
const (
	maxProblems = 5
	maxCounted  = 100
	maxClause   = 300 // bytes
)

var english = message.NewPrinter(language.English)

// Problems returns what is wrong with value, size bytes of JSON, one clause per field, or "".
func Problems(schema *jsoncheck.Schema, value any, size int) string {
	err := schema.Check(value, size)
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	var clauses []string
	collect(invalid, &clauses)
	if n := len(clauses) - maxProblems; n > 0 {
		more := fmt.Sprintf("and %d more", n)
		if len(clauses) == maxCounted {
			more = fmt.Sprintf("and %d or more", n)
		}
		clauses = append(clauses[:maxProblems], more)
	}
	return strings.Join(clauses, "; ")
}

// collect lists the leaves of a validation error, which name fields, up to
// maxCounted.
func collect(e *jsonschema.ValidationError, out *[]string) {
	for _, c := range e.Causes {
		if len(*out) == maxCounted {
			return
		}
		collect(c, out)
	}
	if len(e.Causes) > 0 {
		return
	}
	where := "the whole"
	if len(e.InstanceLocation) > 0 {
		where = "/" + strings.Join(e.InstanceLocation, "/")
	}
	clause := clip(where) + ": " + clip(e.ErrorKind.LocalizedString(english))
	if !slices.Contains(*out, clause) {
		*out = append(*out, clause)
	}
}

func clip(s string) string {
	if n := egress.Cut(s, maxClause); n < len(s) {
		return s[:n] + "…"
	}
	return s
}
