// Package ask is what servers ask in the middle of a call: it reads their
// questions, refuses those that nobody is to be shown, has a person or the caller
// answer the others, and checks the answers (2025-11-25, client/elicitation and
// client/sampling; 2026-07-28, multi round-trip requests). It makes no calls.
package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/egress"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Func answers what a server wants to know in the middle of a call. The
// error ends the call, or of an older era the question.
type Func func(ctx context.Context, in signal.Input) (Replies, error)

const (
	maxRounds  = 10  // times that one call may ask
	maxSummary = 500 // bytes of a question that the summary of its event repeats
	maxShed    = 3   // times in a row that a server may put a call off without asking anything
	shedPause  = 250 * time.Millisecond
)

// Asker asks the questions that a server has in the middle of one call. All members
// are required but Func.
type Asker struct {
	CallID, Server, Entrance string
	Subject                  string          // what is called, in messages
	Context                  context.Context // of the call's caller
	// Func answers the questions. Without it they are put into Pending, for whoever
	// answers within Timeout.
	Func    Func
	Pending *Pending
	Timeout time.Duration
	Filter  *egress.Filter
	// Record records something of the call that is no step of it.
	Record func(kind signal.Kind, summary string, data any)
	// Waited is told each time how long the call has waited for an answer.
	Waited func(time.Duration)

	mu     sync.Mutex // held while a question is open
	rounds int        // of questions so far
	shed   int        // results in a row that asked for nothing
}

// Ask has somebody answer the questions of one round: the caller where it
// answers itself, else whoever comes by in time. Both leave tool.input_required
// and tool.input_resolved. over ends where nobody needs the answer any more.
func (a *Asker) Ask(over context.Context, questions []signal.Question) (answers Replies, err error) {
	a.mu.Lock() // one at a time
	defer a.mu.Unlock()
	if a.rounds++; a.rounds > maxRounds {
		return nil, fault.New(fault.InputRequired, "%s has asked %d times and is not done", a.Subject, maxRounds)
	}
	limit := a.Timeout
	start := time.Now()
	in := signal.Input{
		CallID: a.CallID, Server: a.Server, Subject: a.Subject, Entrance: a.Entrance, Round: a.rounds,
		Questions: a.clean(questions), AskedAt: start.Format(time.RFC3339), ExpiresAt: start.Add(limit).Format(time.RFC3339),
	}
	ctx, cancel := context.WithTimeout(over, limit)
	defer cancel()
	answer := make(chan given, 1)
	if a.Func == nil { // before anybody hears of it, so that an answer is never too early
		if err := a.Pending.open(in, answer); err != nil {
			return nil, err
		}
	}
	shown := in
	a.Record(signal.InputRequired, a.Subject+" waits for an answer: "+summarise(in.Questions), &shown)

	by := given{actor: a.Entrance}
	if a.Func != nil {
		if by.answers, err = a.Func(ctx, in); err == nil {
			err = by.answers.check(questions)
		}
	} else {
		select {
		case by = <-answer:
		case <-ctx.Done():
			a.Pending.close(a.CallID, answer) // before anybody hears that it is over
			select {
			case by = <-answer: // at the last moment; whoever gave it was told that it counts
			default:
				err = ctx.Err()
			}
		}
	}
	a.Waited(time.Since(start))
	done := signal.Input{CallID: a.CallID, Server: in.Server, Subject: in.Subject, Entrance: in.Entrance, Round: in.Round, Actor: by.actor}
	switch {
	case err == nil:
		done.Decision = "answered"
	case over.Err() != nil || a.Context.Err() != nil:
		done.Decision, done.Reason = "cancelled", "the call was given up, or is over"
		err = fault.New(fault.Cancelled, "%s was given up while it waited for an answer", a.Subject)
	case ctx.Err() != nil: // nobody came: the server is told so, and may end well without
		done.Decision, done.Reason = "expired", fmt.Sprintf("nobody answered in %v", limit)
		by.answers, err = cancelled(questions), nil
	default:
		done.Decision, done.Reason = "refused", err.Error()
	}
	a.Record(signal.InputResolved, a.Subject+" was "+done.Decision, &done)
	return by.answers, err
}

// summarise is the first question in one line.
func summarise(questions []signal.Question) string {
	if len(questions) == 0 {
		return "nothing"
	}
	q := questions[0]
	text := q.Message
	if q.Kind == URLQuestion {
		text = "at " + q.Host + ": " + text
	}
	if q.Kind == SamplingQuestion {
		text = "a model's answer"
	}
	return text[:egress.Cut(text, maxSummary)]
}

// clean is questions for events and people: without secrets.
func (a *Asker) clean(questions []signal.Question) []signal.Question {
	out := slices.Clone(questions)
	for i := range out {
		q := &out[i]
		for _, raw := range []*json.RawMessage{&q.Schema, &q.Params} {
			if len(*raw) > 0 {
				*raw, _ = a.Filter.Clean(*raw)
			}
		}
		q.Message = a.Filter.Text(q.Message)
	}
	return out
}

// Reverse answers what a server of an older era asks in the middle of the call.
func (a *Asker) Reverse(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	q, err := a.question("1", method, params)
	if err != nil {
		return nil, err
	}
	answers, err := a.Ask(ctx, []signal.Question{q})
	if err != nil {
		return nil, err
	}
	return answers[q.ID].result(q)
}

// question reads what a server asks and records a refusal.
func (a *Asker) question(id, method string, params json.RawMessage) (signal.Question, error) {
	q, err := readQuestion(id, method, params)
	if err == nil && q.Kind == SamplingQuestion && a.Func == nil {
		err = fault.New(fault.InputRequired, "nobody here lets a server ask a model")
	}
	if err != nil {
		f := fault.From(err)
		a.refused(method, f)
		return q, f
	}
	return q, nil
}

// refused records that a server asked what nobody is to be asked.
func (a *Asker) refused(method string, f *fault.Error) {
	a.Record(Refused(a.Subject, method, f))
}

// Refused are the kind, the summary and the data of the event that a server asked
// what nobody was shown.
func Refused(subject, method string, f *fault.Error) (signal.Kind, string, any) {
	return signal.Problem, subject + " asked what is refused: " + f.Message, &signal.Fault{Code: "question_refused", Detail: f.Message, Sample: method}
}
