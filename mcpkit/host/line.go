package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// recordTimeout bounds how long a call waits for a full sink. Past it the call
// goes on and the missing record is logged: callers are not held up for ever by
// a full disk.
const recordTimeout = 5 * time.Second

// line records one call's way through the gate.
type line struct {
	h     *Host
	ctx   context.Context // the caller's; records outlive its end
	id    string
	call  Call
	tool  *catalog.Tool
	start time.Time
	step  signal.Step // what every step repeats
}

func (h *Host) begin(ctx context.Context, c Call) *line {
	l := &line{h: h, ctx: ctx, id: c.ID, call: c, start: time.Now()}
	if l.id == "" {
		l.id = ulid.Make().String()
	}
	l.step = signal.Step{CallID: l.id, Tool: c.Name, Entrance: c.Entrance}
	return l
}

func (l *line) resolved(tool *catalog.Tool) {
	l.tool = tool
	l.step.Tool, l.step.Server = tool.Name, tool.Source.Server
}

// emit records one step.
func (l *line) emit(kind signal.Kind, summary string, fill func(*signal.Step)) {
	step := l.step
	if fill != nil {
		fill(&step)
	}
	s := signal.Signal{Kind: kind, Server: l.step.Server, Time: time.Now(), CallID: l.id, Summary: summary, Data: &step}
	if a := l.call.Answer; a != nil && last(kind) {
		s.ID = a.ID
		if a.Recorded != nil {
			s.Ack = func(signal.Ack) { a.Recorded() }
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), recordTimeout)
	defer cancel()
	if err := l.h.o.Sink.Observe(ctx, s); err != nil {
		l.h.o.Logger.Error("a step of a call was not recorded", "call", l.id, "step", kind, "error", err)
	}
}

// last reports whether a step of this kind ends a call.
func last(kind signal.Kind) bool {
	return kind == signal.ToolCompleted || kind == signal.ToolFailed || kind == signal.AmbiguousCall
}

// unresolved records a name that leads to no single tool.
func (l *line) unresolved(err error) error {
	f := fault.From(err)
	kind := signal.ToolFailed
	if f.Code == fault.AmbiguousCall {
		kind = signal.AmbiguousCall
	}
	return l.fail(kind, f)
}

// refused records a call that ended before anything was sent.
func (l *line) refused(err error) error { return l.fail(signal.ToolFailed, fault.From(err)) }

// failed records a call that was sent, or was about to be.
func (l *line) failed(err error) error {
	f := fault.From(err)
	l.emit(signal.CallFailed, "call to "+l.step.Tool+" failed", l.failure(f))
	return l.fail(signal.ToolFailed, f)
}

func (l *line) fail(kind signal.Kind, f *fault.Error) error {
	l.emit(kind, fmt.Sprintf("%s failed: %s", l.step.Tool, f.Message), l.failure(f))
	return f
}

func (l *line) failure(f *fault.Error) func(*signal.Step) {
	return func(s *signal.Step) {
		s.ErrorCode, s.Reason, s.Retryable, s.Candidates = f.Code, f.Message, f.Retryable, f.Candidates
		s.Outcome = string(f.Outcome)
		if s.Outcome == "" {
			s.Outcome = string(fault.OutcomeFailed)
		}
		s.DurationMS = time.Since(l.start).Milliseconds()
	}
}

func (l *line) started() {
	l.emit(signal.CallStarted, "call to "+l.step.Tool, nil)
	l.emit(signal.ToolStarted, l.step.Tool+" started", nil)
}

// completed records an answer and sets its duration.
func (l *line) completed(res *Result) {
	res.Duration = time.Since(l.start)
	if !res.Replayed { // nothing was sent
		l.emit(signal.CallCompleted, "call to "+l.step.Tool+" completed", func(s *signal.Step) {
			s.DurationMS, s.Size = res.Duration.Milliseconds(), int64(len(res.Raw))
		})
	}
	kind, verb := signal.ToolCompleted, "completed"
	if res.IsError {
		kind, verb = signal.ToolFailed, "failed"
	}
	preview, flags := preview(res.Raw, l.h.o.MaxPreview)
	for _, kind := range res.secrets {
		flags = append(flags, "secret_"+kind)
	}
	l.emit(kind, fmt.Sprintf("%s %s in %s: %s", l.step.Tool, verb, res.Duration.Round(time.Millisecond), preview), func(s *signal.Step) {
		s.DurationMS, s.Size, s.Preview, s.IsError = res.Duration.Milliseconds(), int64(len(res.Raw)), preview, res.IsError
		s.Flags = flags
		if res.IsError {
			s.ErrorCode, s.Reason, s.Retryable = businessFailure(res.Raw)
			s.Outcome = string(fault.OutcomeFailed)
		}
		if res.Artifact != nil {
			s.Artifact, _ = json.Marshal(res.Artifact)
		}
		if l.call.Answer != nil && res.Artifact == nil {
			s.Result = res.Raw
		}
	})
}

// businessFailure reads the one shape of a failure out of a result whose tool
// reported one; tools that use another shape leave only their text.
func businessFailure(raw json.RawMessage) (code, message string, retryable bool) {
	var r struct {
		Structured *fault.Error `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Structured == nil || r.Structured.Code == "" {
		text, _ := preview(raw, 300)
		return "tool_error", text, false
	}
	return r.Structured.Code, r.Structured.Message, r.Structured.Retryable
}

// preview is the beginning of a result's text for events (text parts joined,
// other parts named, else the structured content) without hidden characters, and
// what is dangerous in that text.
func preview(raw json.RawMessage, limit int) (text string, flags []string) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			MIME string `json:"mimeType"`
			URI  string `json:"uri"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		var shape *json.UnmarshalTypeError
		if !errors.As(err, &shape) {
			return "", nil
		}
	}
	const most = 64 << 10 // of text that is looked at
	var b strings.Builder
	for _, c := range r.Content {
		if b.Len() > most {
			break
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		switch {
		case c.Type == "text":
			b.WriteString(c.Text[:min(len(c.Text), most)])
		case c.URI != "":
			fmt.Fprintf(&b, "[%s %s]", c.Type, c.URI)
		default:
			fmt.Fprintf(&b, "[%s %s]", c.Type, c.MIME)
		}
	}
	if b.Len() == 0 {
		b.Write(r.Structured[:min(len(r.Structured), most)])
	}
	s := strings.ToValidUTF8(b.String(), "\uFFFD")
	flags = review.Flags(s)
	if s, _ = redact.Strip(s[:min(len(s), 2*limit+utf8.UTFMax)]); len(s) <= limit {
		return s, flags
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…", flags
}
