package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
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
		c := &cli{out: console.New(&out)}
		if err := c.showApproval(a); err != nil {
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
		c.json = true
		out.Reset()
		if err := c.showApproval(a); err != nil {
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

func TestADiffShowsTextsAsTheyAre(t *testing.T) {
	var out bytes.Buffer
	c := &cli{out: console.New(&out)}
	c.showDiff([]review.ToolDiff{{Tool: "add", State: review.Changed, Changes: []review.Change{
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

func TestTheHintAboutAClosedQuestionHoldsForUsedOnesToo(t *testing.T) {
	hint := near(fault.New(control.ApprovalDecided, "X is used: the approval is not open"))
	if !strings.Contains(hint, "approvals show ID") || !strings.Contains(hint, "still stands") {
		t.Errorf("the hint is %q", hint)
	}
}
