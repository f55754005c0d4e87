package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func newShowCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "show CALL_ID",
		Short: "Tell all of one call: who asked, what was sent, who allowed it, what came back",
		Args:  cli.Args(cobra.ExactArgs(1)),
		RunE: asking(c, func(ctx context.Context, s source, a []string) error {
			return runShow(ctx, c, s, a[0])
		}),
	})
}

func runShow(ctx context.Context, c *cli.Env, s source, id string) error {
	chain, err := s.Call(ctx, id)
	if err != nil && fault.From(err).Code == history.CallNotFound {
		return cli.Hint(err, `"platform history --kind call" lists the calls with their ids`)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(chain)
	}
	steps, err := read(chain)
	if err != nil {
		return err
	}
	question, err := asked(ctx, s, &chain.Call)
	if err != nil {
		return err
	}
	for _, row := range story(chain, steps, question) {
		if row[1] != "" {
			c.Out.Printf("%s  %s\n", c.Out.Paint(console.Dim, fmt.Sprintf("%-10s", console.Safe(row[0]))), console.Safe(row[1]))
		}
	}
	if len(steps) > 0 {
		c.Out.Printf("\n")
		c.Out.Table([]string{"AFTER", "STEP", "", "TOOK", ""}, waterfall(steps))
	}
	return nil
}

// step is one event of a call.
type step struct {
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

func read(chain *history.Chain) ([]step, error) {
	steps := make([]step, len(chain.Events))
	for i, e := range chain.Events {
		env, err := amp.Parse(e.Envelope)
		if err != nil {
			return nil, fmt.Errorf("record %d of the journal: %w", e.Position, err)
		}
		steps[i] = step{at: env.Header.Timestamp.Time, typ: env.Payload.Type}
		if len(env.Payload.Data) > 0 {
			if err := json.Unmarshal(env.Payload.Data, &steps[i].data); err != nil {
				return nil, fmt.Errorf("record %d of the journal: %w", e.Position, err)
			}
		}
	}
	return steps, nil
}

// asked is what the policy said when it had a person asked, where that was in an
// earlier call, whose caller did not wait; else "".
func asked(ctx context.Context, s source, e *entry.Entry) (string, error) {
	if e.Approval == "" {
		return "", nil
	}
	page, err := s.List(ctx, store.Filter{Approval: e.Approval}, store.Page{Limit: 1, After: 1})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].CallID == e.CallID {
		return "", err
	}
	first, err := s.Call(ctx, page.Entries[0].CallID)
	if err != nil {
		return "", err
	}
	steps, err := read(first)
	if err != nil {
		return "", err
	}
	for _, st := range steps {
		if d := &st.data; signal.Kind(st.typ) == signal.PermissionRequested && d.Approval == e.Approval {
			return said(d.Decision, d.Risk, d.Reason) + " (in the call " + first.Call.CallID + ", at " + clock(first.Call.Started) + ")", nil
		}
	}
	return "", nil
}

func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// story is a call as rows of a name and what there is to say; rows without that are
// left out. Question is what the policy said in an earlier call.
func story(chain *history.Chain, steps []step, question string) [][2]string {
	e := &chain.Call
	asked := from(e) + ", at " + clock(e.Started)
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

// waterfall are the steps of a call as rows: when each happened, and how long it took
// until the next.
func waterfall(steps []step) [][]console.Cell {
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
func meaning(s step, end bool) string {
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
