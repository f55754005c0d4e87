package question

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func asked(t *testing.T, args string) string {
	t.Helper()
	var p struct{ Message string }
	raw := Approval("files__delete", fault.New(fault.ApprovalRequired, "risk high"), json.RawMessage(args))
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p.Message
}

func TestHiddenCharactersOfArgumentsAreShownAsEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"\u202e":     `\u202e`,     // right to left
		"\u2066":     `\u2066`,     // isolate
		"\U000e0041": `\U000e0041`, // tag
		"\u200b":     `\u200b`,     // no width
		"\u00a0":     `\u00a0`,     // a blank that is another
		"\u2028":     `\u2028`,     // end of a line
		"\ufe0f":     `\ufe0f`,     // variation
		"\u3164":     `\u3164`,     // Hangul filler
		"\u2800":     `\u2800`,     // Braille without dots
		"\x1b":       `\u001b`,     // escape
		"\n":         `\u000a`,     // a line of its own
		"\xff":       `\xff`,       // no UTF-8
		"日本 é":       "日本 é",
	} {
		if got := asked(t, `{"a":"x`+in+`y"}`); !strings.Contains(got, `{"a":"x`+want+`y"}`) {
			t.Errorf("%q is shown as %q, want %q in it", in, got, want)
		}
	}
}

func TestACutQuestionSaysHowManyBytesAreNotShown(t *testing.T) {
	args := `{"a":"` + strings.Repeat("x", maxShown-7) + `éé; rm -rf /"}`
	got := asked(t, args)
	_, shown, _ := strings.Cut(got, "Arguments: ")
	begin, rest, _ := strings.Cut(shown, "…")
	if begin != args[:maxShown-1] || rest != " (16 bytes not shown)" {
		t.Errorf("shown %q, then %q of %d bytes", begin[len(begin)-10:], rest, len(args))
	}
}
