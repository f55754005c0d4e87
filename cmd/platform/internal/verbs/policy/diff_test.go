package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

func TestADiffShowsTextsAsTheyAre(t *testing.T) {
	var out bytes.Buffer
	c := cli.New(nil, &out, nil)
	showDiff(c, []review.ToolDiff{{Tool: "add", State: review.Changed, Changes: []review.Change{
		{Pointer: "/description", Before: json.RawMessage(`"Adds."`), After: json.RawMessage(`"\u003cb\u003e A \u0026 \\u003c \u202e"`)},
		{Pointer: "/maximum", After: json.RawMessage(`12345678901234567890`)},
	}}})
	for _, want := range []string{`- "Adds."`, `+ "<b> A & \\u003c `, `+ 12345678901234567890`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\u202e") {
		t.Errorf("a character that turns the line round is printed:\n%s", &out)
	}
}
