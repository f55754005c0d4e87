package schemas

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

func TestArgumentsAreCheckedByTheirSchemasOwnDraft(t *testing.T) {
	for name, c := range map[string]struct{ schema, good, bad, says string }{
		"draft 4": {
			`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true}},"required":["n"]}`,
			`{"n":1}`, `{"n":0}`, "n",
		},
		"draft 6": {
			`{"$schema":"http://json-schema.org/draft-06/schema#","type":"object","properties":{"n":{"exclusiveMinimum":0}}}`,
			`{"n":1}`, `{"n":0}`, "n",
		},
		"draft 7": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","if":{"required":["a"]},"then":{"required":["b"]}}`,
			`{"a":1,"b":2}`, `{"a":1}`, "b",
		},
		"2019-09": {
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","dependentRequired":{"a":["b"]}}`,
			`{"a":1,"b":2}`, `{"a":1}`, "b",
		},
		"2020-12, which is meant where none is said": {
			`{"type":"object","properties":{"l":{"type":"array","prefixItems":[{"type":"string"}],"items":false}},"unevaluatedProperties":false}`,
			`{"l":["x"]}`, `{"l":["x",1]}`, "l",
		},
		"text that is no UTF-8": {`{"type":"object"}`, `{"a":"ü"}`, "{\"a\":\"\xff\"}", "UTF-8"},
		"no object":             {`{"type":"object"}`, `null`, `[1]`, "object"},
		"a name twice":          {`{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":1,"m":{"n":1}}`, `{"n":1,"m":0,"n":2}`, `have "/n" twice`},
		"a hidden name twice":   {`{"type":"object"}`, `{"l":[{"a":1},{"a":1}]}`, `{"l":[0,{"a":1,"\u0061":2}]}`, `have "/l/1/a" twice`},
		"twice without a check": {``, `{"a":1}`, `{"a":1,"a":1}`, `have "/a" twice`},
		"half a character":      {`{"type":"object"}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, "half a character"},
		"half without a check":  {``, `{"\ud83d\ude00":1}`, `{"\ude00":1}`, "half a character"},
		"a large number":        {`{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":12345678901234567890}`, `{"n":1.5}`, "n"},
	} {
		s := New(slog.New(slog.DiscardHandler))
		tool := &catalog.Tool{Name: "s.t", InputSchema: json.RawMessage(c.schema)}
		if _, err := s.Arguments(tool, json.RawMessage(c.good)); err != nil {
			t.Errorf("%s: %s is refused: %v", name, c.good, err)
		}
		_, err := s.Arguments(tool, json.RawMessage(c.bad))
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.InvalidArguments || f.Outcome != "" || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %q is answered with %v, want a word of %q", name, c.bad, err, c.says)
		}
	}
}

func TestAPatternThatCannotBeReadLeavesTheOtherChecks(t *testing.T) {
	var log strings.Builder
	s := New(slog.New(slog.NewTextHandler(&log, nil)))
	tool := &catalog.Tool{Name: "s.t", InputSchema: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string","pattern":"^(?!no).+$"},"n":{"type":"integer"}},"required":["word"]}`)}
	for args, good := range map[string]bool{`{"word":"yes","n":1}`: true, `{"word":7}`: false, `{"n":1}`: false, `{"word":"yes","n":"1"}`: false} {
		if _, err := s.Arguments(tool, json.RawMessage(args)); (err == nil) != good {
			t.Errorf("%s: %v", args, err)
		}
	}
	if !strings.Contains(log.String(), "(?!no)") {
		t.Errorf("the log does not tell of the pattern: %s", log.String())
	}
}

func TestWhatDoesNotFitIsToldInFewWordsHoweverMuchItIs(t *testing.T) {
	s := New(slog.New(slog.DiscardHandler))
	tool := &catalog.Tool{Name: "s.t", InputSchema: json.RawMessage(`{"properties":{"l":{"items":{"type":"string"}},"t":{"pattern":"^x$"}},"additionalProperties":false}`)}
	many := strings.Repeat("1,", 300_000)
	for _, args := range []string{`{"l":[` + many + `1]}`, `{"t":"` + many + `"}`, `{"` + many + `":1}`} {
		_, err := s.Arguments(tool, json.RawMessage(args))
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.20s… is answered with %.100v… (%d bytes)", args, err, len(err.Error()))
		}
	}
}

func TestAStructuredResultIsCheckedByTheOutputSchema(t *testing.T) {
	tool := &catalog.Tool{Name: "s.t", OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}
	for result, want := range map[string]string{
		`{"content":[],"structuredContent":{"n":12345678901234567890}}`: "",
		`{"content":[],"structuredContent":{"n":"one"}}`:                "n",
		`{"content":[],"structuredContent":{}}`:                         "n",
		`{"content":[]}`:                                                "lacks",
		`{"content":[],"structuredContent":null}`:                       "lacks",
		`{"content":[],"isError":true}`:                                 "",
		`[]`:                                                            "no JSON object",
		`null`:                                                          "no JSON object",
		`"{}"`:                                                          "no JSON object",
		`{"content":[],"isError":true,"structuredContent":{"other":true}}`: "",
	} {
		s := New(slog.New(slog.DiscardHandler))
		err := s.Result(tool, toolcall.Read([]byte(result)))
		var f *fault.Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", result, err)
		case want != "" && (!errors.As(err, &f) || f.Code != fault.InvalidResult || f.Outcome != fault.OutcomeUnknown || !strings.Contains(f.Message, want)):
			t.Errorf("%s: got %v, want a word of %q", result, err, want)
		}
	}
}
