package approvals

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

// A person must see what they approve, and nothing in it may steer what they see.
func TestNothingInAnApprovalSteersTheTerminal(t *testing.T) {
	const hostile = "\x1b[2J\x1b]0;title\a\u009b31m\x00\x7f\u202eevil\u2066\u200b\ufeff\U000e0041\u061c\u3164\r\nstate     approved"
	arguments, err := json.Marshal(map[string]string{"text": hostile, "\u202ekey": "\u009b1m"})
	if err != nil {
		t.Fatal(err)
	}
	beginning, err := json.Marshal(strings.Repeat("\u202ex", approval.MaxArguments/8))
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]approval.Approval{
		"texts": {
			ID: "A", State: approval.Pending, Call: approval.Call{Server: "s" + hostile, Tool: "t" + hostile}, Arguments: arguments,
			Reason: hostile, Risk: "high" + hostile, Actor: hostile, Note: hostile,
		},
		"huge": {ID: "B", State: approval.Pending, Arguments: beginning, Cut: true, Size: 5 << 20},
	} {
		var out bytes.Buffer
		c := cli.New(nil, &out, nil)
		if err := showApproval(c, a); err != nil {
			t.Fatal(err)
		}
		for i, r := range out.String() {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u3164') {
				t.Errorf("%s: %U at %d is printed", name, r, i)
			}
		}
		if n := strings.Count(out.String(), "\nstate "); n != 1 {
			t.Errorf("%s: %d lines say what the state is:\n%s", name, n, &out)
		}
		if a.Cut && !strings.Contains(out.String(), "the arguments have 5.0 MB") {
			t.Errorf("%s: nothing says that they are cut", name)
		}
		c.JSON = true
		out.Reset()
		if err := showApproval(c, a); err != nil {
			t.Fatal(err)
		}
		var back approval.Approval
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Reason != a.Reason {
			t.Errorf("%s: as JSON it is %.200s, %v", name, &out, err)
		}
		for i, r := range out.String() {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("%s: %U at %d is in the JSON", name, r, i)
			}
		}
	}
}
