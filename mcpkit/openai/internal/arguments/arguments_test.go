package arguments

import (
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

func TestOnlyWhatCanMeanOneThingIsPutRight(t *testing.T) {
	for sent, want := range map[string]string{
		`{"b":1.50,"a":9007199254740993}`: `{"b":1.50,"a":9007199254740993}`,
		``:                                `{}`,
		` null `:                          `{}`,
		"```json\n{\"a\":1}\n```":         `{"a":1}`,
		`{"a":[1,],}`:                     `{"a":[1]}`,
		`{"a":",]"}`:                      `{"a":",]"}`,
		`"{\"a\":1}"`:                     `{"a":1}`,
	} {
		args, repairs, err := Read(sent)
		if err != nil {
			t.Errorf("%s: %v", sent, err)
			continue
		}
		if got := string(jsonvalue.Append(nil, args)); got != want || (len(repairs) > 0) != (strings.TrimSpace(sent) != want && len(strings.TrimSpace(sent)) > len("null")) {
			t.Errorf("%s became %s, repairs %q", sent, got, repairs)
		}
	}
	for _, sent := range []string{`[1]`, `{`, `{"a":1,"a":2}`, `{"a":1}{"b":2}`, `"x"`, `{,}`, "```\n{}", strings.Repeat(" ", Max+1)} {
		if args, _, err := Read(sent); err == nil {
			t.Errorf("%.30q became %s", sent, jsonvalue.Append(nil, args))
		}
	}
}
