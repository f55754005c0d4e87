package host

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/egress"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// maxSummary is how many bytes of a preview a summary repeats.
const maxSummary = 500

// line records one call's way through the gate.
type line struct {
	h     *Host
	ctx   context.Context // the caller's; records outlive its end
	id    string
	call  Call
	tool  *catalog.Tool
	start time.Time
	now   time.Time    // of the next step; see look
	waits atomic.Int64 // for people, nanoseconds
	step  signal.Step  // what every step repeats

	recording sync.Mutex      // held while something of the call goes to the sink, so that it stays in order
	steps     []signal.Signal // that happened and are not recorded yet
	together  *time.Timer     // ends the time in which they may wait for the end of the call

	flags   []string // of what the server said of its failure
	settled bool     // whether the answer's Settle was called
}

// usualSteps is how many steps a call has that nothing goes wrong with.
const usualSteps = 6

// togetherTime is how long the steps of a call that was sent wait for its end, to be
// one record with it. A call that takes longer is seen to have begun.
const togetherTime = 250 * time.Millisecond

func (h *Host) begin(ctx context.Context, c Call) *line {
	now := time.Now()
	l := &line{h: h, ctx: ctx, id: c.ID, call: c, start: now, now: now}
	if l.id == "" {
		l.id = ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String()
	}
	l.call.Trace = c.Trace.Valid()
	l.step = signal.Step{CallID: l.id, Tool: c.Name[:egress.Cut(c.Name, maxSummary)], Entrance: c.Entrance}
	return l
}

func (l *line) resolved(tool *catalog.Tool) {
	l.tool = tool
	l.step.Tool, l.step.Server = tool.Name, tool.Source.Server
}

// room refuses a call that could not be recorded, and does not record that either. A
// call that is answered by its record waits for that.
func (l *line) room() error {
	if l.h.o.Room == nil || l.call.Answer != nil {
		return nil
	}
	if err := l.h.o.Room(l.step.Server); err != nil {
		return fault.New(fault.NotRecorded, "calls cannot be recorded just now, so nothing was sent: %v", err).Retry()
	}
	return nil
}

// look looks at the clock, for the steps to come: where two follow one another at
// once it is not asked twice.
func (l *line) look() { l.now = time.Now() }

// lasted is how long the call has taken until now, without the person's time.
func (l *line) lasted() time.Duration {
	l.look()
	return l.now.Sub(l.start) - l.waited()
}

// waited is how long people took.
func (l *line) waited() time.Duration { return time.Duration(l.waits.Load()) }

// emit records one step. Without fill it is what every step repeats. A step that
// neither ends the call nor has a person wait is recorded with what follows it.
func (l *line) emit(kind signal.Kind, summary string, fill func(*signal.Step)) {
	step := &l.step // which no longer changes once the call is permitted
	if fill != nil {
		one := l.step
		fill(&one)
		step = &one
	}
	s := signal.Signal{Kind: kind, Server: l.step.Server, Time: l.now, CallID: l.id, Summary: summary, Trace: l.call.Trace, Data: step}
	s.RecordOnly = l.call.RecordOnly && last(kind)
	if a := l.call.Answer; a != nil && last(kind) {
		if err := l.settle(); err != nil {
			l.h.o.Logger.Error("a call ends that was not settled", "call", l.id, "error", err)
		}
		s.ID = a.ID
		if a.Recorded != nil {
			s.Ack = func(signal.Ack) { a.Recorded() }
		}
	}
	l.recording.Lock()
	defer l.recording.Unlock()
	if l.steps == nil {
		l.steps = make([]signal.Signal, 0, usualSteps)
	}
	l.steps = append(l.steps, s)
	if last(kind) || kind == signal.PermissionRequested && step.Decision == string(rules.Ask) {
		l.observe()
	}
}

// observe hands the steps that happened to the sink, as one record. The caller holds
// recording.
func (l *line) observe() {
	if len(l.steps) == 0 {
		return
	}
	s := l.steps[len(l.steps)-1]
	s.Before = l.steps[:len(l.steps)-1]
	l.steps = nil
	l.h.out.Record(l.ctx, s)
}

// flush records what happened so far, without waiting for the end of the call.
func (l *line) flush() {
	l.recording.Lock()
	defer l.recording.Unlock()
	l.observe()
}

// record records something of the call that is no step of it.
func (l *line) record(kind signal.Kind, summary string, data any) {
	l.flush()
	l.h.out.Record(l.ctx, signal.Signal{
		Kind: kind, Server: l.step.Server, Time: time.Now(), CallID: l.id, Summary: summary, Trace: l.call.Trace, Data: data,
	})
}

// settle tells who waits for the answer that something comes of the call now.
func (l *line) settle() error {
	if l.settled || l.call.Answer == nil || l.call.Answer.Settle == nil {
		return nil
	}
	l.settled = true
	if err := l.call.Answer.Settle(); err != nil {
		return fault.New(fault.Busy, "the call cannot be recorded, so nothing was sent: %v", err).Retry()
	}
	return nil
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
	failed := " failed: "
	if f.Replayed {
		failed = " failed earlier: "
	}
	l.emit(kind, l.step.Tool+failed+f.Message, l.failure(f))
	return f
}

func (l *line) failure(f *fault.Error) func(*signal.Step) {
	return func(s *signal.Step) {
		s.ErrorCode, s.Reason, s.Retryable, s.Candidates, s.Replayed = f.Code, f.Message, f.Retryable, f.Candidates, f.Replayed
		s.Flags, s.Outcome = l.flags, string(f.Outcome)
		if s.Outcome == "" {
			s.Outcome = string(fault.OutcomeFailed)
		}
		s.DurationMS, s.WaitedMS = l.lasted().Milliseconds(), l.waited().Milliseconds()
	}
}

func (l *line) started() {
	l.look()
	l.emit(signal.CallStarted, "call to "+l.step.Tool, nil)
	l.emit(signal.ToolStarted, l.step.Tool+" started", nil)
	l.together = time.AfterFunc(togetherTime, l.flush)
}

// handed records that the server asks for input, which is the far client's to give.
func (l *line) handed(res *Result) {
	res.Duration, res.Waited = l.lasted(), l.waited()
	l.emit(signal.CallCompleted, "call to "+l.step.Tool+" asks for input", func(s *signal.Step) {
		s.DurationMS, s.Size = res.Duration.Milliseconds(), int64(len(res.Raw))
	})
	l.record(signal.InputResolved, l.step.Tool+" asks its client", &signal.Input{
		CallID: l.id, Server: l.step.Server, Subject: l.step.Tool, Entrance: l.call.Entrance, Round: 1, Decision: "handed",
	})
}

// completed records the result and sets its durations and the flags of its text.
func (l *line) completed(res *Result, result toolcall.Result) {
	res.Duration, res.Waited = l.lasted(), l.waited()
	if !res.Replayed { // nothing was sent
		l.emit(signal.CallCompleted, "call to "+l.step.Tool+" completed", func(s *signal.Step) {
			s.DurationMS, s.Size = res.Duration.Milliseconds(), int64(len(res.Raw))
		})
	}
	kind, verb := signal.ToolCompleted, "completed"
	if res.IsError {
		kind, verb = signal.ToolFailed, "failed"
	}
	if res.Replayed {
		verb += " earlier, read again"
	}
	shown, flags := egress.Preview(result, l.h.o.MaxPreview)
	summary := l.step.Tool + " " + verb + " in " + res.Duration.Round(time.Millisecond).String() + ": " + shown[:egress.Cut(shown, maxSummary)]
	res.Flags = append(flags, res.Flags...)
	l.emit(kind, summary, func(s *signal.Step) {
		s.DurationMS, s.WaitedMS = res.Duration.Milliseconds(), res.Waited.Milliseconds()
		s.Size, s.Preview, s.IsError = int64(len(res.Raw)), shown, res.IsError
		s.Flags, s.Replayed = res.Flags, res.Replayed
		if res.IsError {
			s.ErrorCode, s.Reason, s.Retryable = egress.Failure(result)
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
