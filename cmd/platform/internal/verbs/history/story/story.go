// Package story tells one call of the history in words: what there is to say of it,
// row by row, and when each step happened.
//
//	steps, err := story.Read(chain)
//	for _, row := range story.Rows(chain, steps, "") {
//		// row[0] is a name, row[1] what there is to say
//	}
//
// The texts are those of others; who prints them makes them safe.
package story

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Step is one event of a call.
type Step struct {
	at   time.Time
	typ  string
	data stepData
}

// stepData is what the events of a call have that is shown.
type stepData struct {
	signal.Step
	Questions []signal.Question `json:"questions"`
	ExpiresAt string            `json:"expires_at"`
}

// Read reads the events of a call.
func Read(chain *history.Chain) ([]Step, error) {
	steps := make([]Step, len(chain.Events))
	for i, e := range chain.Events {
		env, err := amp.Parse(e.Envelope)
		if err != nil {
			return nil, fmt.Errorf("record %d of the journal: %w", e.Position, err)
		}
		steps[i] = Step{at: env.Header.Timestamp.Time, typ: env.Payload.Type}
		if len(env.Payload.Data) > 0 {
			if err := json.Unmarshal(env.Payload.Data, &steps[i].data); err != nil {
				return nil, fmt.Errorf("record %d of the journal: %w", e.Position, err)
			}
		}
	}
	return steps, nil
}

// From is where a call came from, or the server of another event.
func From(e *entry.Entry) string {
	if e.Caller != "" {
		return e.Caller
	}
	return e.Server
}

func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// Rows are a call as rows of a name and what there is to say; rows without that are
// left out. Question is what the policy said in an earlier call.
func Rows(chain *history.Chain, steps []Step, question string) [][2]string {
	e := &chain.Call
	asked := From(e) + ", at " + clock(e.Started)
	if e.Session != "" {
		asked += ", in the conversation " + e.Session
	}
	outcome := string(e.Outcome)
	if e.ErrorCode != "" {
		outcome += " (" + e.ErrorCode + ")"
	}
	if !e.Open {
		outcome += ", after " + console.Millis(e.DurationMS)
		if e.WaitedMS > 0 {
			outcome += " and " + console.Millis(e.WaitedMS) + " for a person"
		}
	}
	rows := [][2]string{{"call", e.CallID}, {"tool", e.Tool}, {"server", e.Server}, {"asked by", asked}}
	var result [][2]string
	for _, s := range steps {
		d := &s.data
		switch signal.Kind(s.typ) {
		case signal.PermissionRequested:
			policy := question // else the reason only repeats that a person allowed it
			if policy == "" {
				policy = said(d.Decision, d.Risk, d.Reason)
			}
			rows = append(rows, [2]string{"sent", string(d.Arguments)}, [2]string{"policy", policy})
		case signal.PermissionResolved:
			rows = append(rows, [2]string{decided(d), d.Actor + because(d)})
		case signal.InputRequired:
			for _, q := range d.Questions {
				rows = append(rows, [2]string{"question", q.Message})
			}
		case signal.InputResolved:
			rows = append(rows, [2]string{d.Decision, d.Actor})
		case signal.ToolCompleted, signal.ToolFailed, signal.AmbiguousCall, signal.ResourceObserved, signal.ResourceFailed, signal.PromptExpanded, signal.PromptFailed:
			if d.Size > 0 {
				result = append(result, [2]string{"size", console.Bytes(d.Size)})
			}
			result = append(result, [2]string{"result", d.Preview}, [2]string{"reason", d.Reason}, [2]string{"artifact", artifact(d.Artifact)}, [2]string{"flags", strings.Join(d.Flags, ", ")})
			if d.Replayed {
				result = append(result, [2]string{"replayed", "nothing was sent: this is the answer to an earlier call with the same key"})
			}
		}
	}
	if e.Approval != "" {
		rows = append(rows, [2]string{"approval", e.Approval})
	}
	rows = append(rows, [2]string{"outcome", outcome})
	rows = append(rows, result...)
	if chain.Others > 0 {
		rows = append(rows, [2]string{"note", fmt.Sprintf("the history has %s with this id; this is the latest", cli.Count(chain.Others+1, "call"))})
	}
	return rows
}

// Question is what the policy said when it had a person asked by the question with
// that id, or "".
func Question(chain *history.Chain, steps []Step, approval string) string {
	for _, s := range steps {
		if d := &s.data; signal.Kind(s.typ) == signal.PermissionRequested && d.Approval == approval {
			return said(d.Decision, d.Risk, d.Reason) + " (in the call " + chain.Call.CallID + ", at " + clock(chain.Call.Started) + ")"
		}
	}
	return ""
}

// said is what the policy said of a call, by which rule.
func said(decision, risk, reason string) string {
	if risk != "" {
		decision += ", risk " + risk
	}
	if reason != "" {
		decision += ": " + reason
	}
	return decision
}

// decided is the word for who decided.
func decided(d *stepData) string {
	switch d.Decision {
	case "allow":
		return "allowed by"
	case "deny":
		return "denied by"
	}
	return d.Decision
}

func because(d *stepData) string {
	if d.Actor == "policy" || d.Reason == "" {
		return "" // the policy said why when it was asked
	}
	return ": " + d.Reason
}

// artifact says where a large result is.
func artifact(raw json.RawMessage) string {
	var ref struct {
		Path string `json:"path"`
		Size int64  `json:"size"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &ref) != nil {
		return ""
	}
	return fmt.Sprintf("%s (%s)", ref.Path, console.Bytes(ref.Size))
}

// barWidth is how many columns a call's time has.
const barWidth = 30

// Waterfall are the steps of a call as rows: when each happened, and how long it took
// until the next.
func Waterfall(steps []Step) [][]console.Cell {
	first, last := steps[0].at, steps[len(steps)-1].at
	whole := max(last.Sub(first), time.Millisecond)
	column := func(t time.Time) int { return int(t.Sub(first) * barWidth / whole) }
	rows := make([][]console.Cell, len(steps))
	for i, s := range steps {
		took, bar, style := "", strings.Repeat(" ", min(column(s.at), barWidth-1))+"▏", console.Dim
		if i+1 < len(steps) {
			next := steps[i+1].at
			if d := next.Sub(s.at); d > 0 {
				took = console.Millis(d.Milliseconds())
				bar = strings.Repeat(" ", column(s.at)) + strings.Repeat("█", max(column(next)-column(s.at), 1))
				style = console.Cyan
			}
		}
		rows[i] = []console.Cell{
			{Text: "+" + console.Millis(s.at.Sub(first).Milliseconds()), Style: console.Dim}, {Text: s.typ}, {Text: bar, Style: style}, {Text: took}, {Text: meaning(s, i+1 == len(steps)), Style: console.Dim},
		}
	}
	return rows
}

// meaning is what the time after a step went to.
func meaning(s Step, end bool) string {
	switch kind := signal.Kind(s.typ); {
	case end:
		return ""
	case kind == signal.PermissionRequested && s.data.Decision == "ask":
		return "a person decides"
	case kind == signal.PermissionRequested:
		return "the policy decides"
	case kind == signal.PermissionResolved:
		return "it is prepared"
	case kind == signal.ToolStarted, kind == signal.ResourceRequested, kind == signal.PromptRequested, kind == signal.InputResolved:
		return "the server works"
	case kind == signal.InputRequired:
		return "the server waits for an answer"
	case kind == signal.CallCompleted, kind == signal.CallFailed:
		return "the result is checked"
	}
	return ""
}
