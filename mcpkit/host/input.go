package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Replies are what a call's open questions are answered with, by the id of the
// question. Each open question needs one.
type Replies map[string]Reply

// Reply is the answer to one question.
type Reply struct {
	// Action is accept, decline (a person said no) or cancel (nobody said anything).
	Action string `json:"action"`
	// Content of a form that is accepted is an object with its fields, of accepted
	// sampling a CreateMessageResult. A URL has none.
	Content json.RawMessage `json:"content,omitempty"`
}

// Actions of a Reply.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// InputFunc answers what a server wants to know in the middle of a call. The
// error ends the call, or of an older era the question.
type InputFunc func(ctx context.Context, in signal.Input) (Replies, error)

// InputNotFound is the code where no call waits for that answer.
const InputNotFound = "input_not_found"

const (
	maxRounds       = 10 // times that one call may ask
	maxShed         = 3  // times in a row that a server may put a call off without asking anything
	shedPause       = 250 * time.Millisecond
	maxWaiting      = 1000 // calls that wait for answers
	maxAnswerLength = 1 << 20
)

// waiting are the calls whose questions are open to whoever answers.
type waiting struct {
	mu   sync.Mutex
	open map[string]*open // by call id
}

// open is a question that waits.
type open struct {
	in     signal.Input
	answer chan given // capacity 1
}

type given struct {
	answers Replies
	actor   string
}

// Inputs are the calls that wait for answers, the oldest first.
func (h *Host) Inputs() []signal.Input {
	h.waiting.mu.Lock()
	defer h.waiting.mu.Unlock()
	out := []signal.Input{}
	for _, o := range h.waiting.open {
		out = append(out, o.in)
	}
	slices.SortFunc(out, func(a, b signal.Input) int { return strings.Compare(a.ExpiresAt+a.CallID, b.ExpiresAt+b.CallID) })
	return out
}

// Input is what a call waits for; false where it waits for nothing.
func (h *Host) Input(callID string) (signal.Input, bool) {
	h.waiting.mu.Lock()
	defer h.waiting.mu.Unlock()
	o := h.waiting.open[callID]
	if o == nil {
		return signal.Input{}, false
	}
	return o.in, true
}

// AnswerInput answers a call that waits. The questions stay open where the answer
// does not fit them: the error is then a *fault.Error with invalid_arguments. One
// with the code InputNotFound says that nothing waits, any more. An answer for ""
// is for the only question there is.
func (h *Host) AnswerInput(callID string, answers Replies, actor string) error {
	h.waiting.mu.Lock()
	defer h.waiting.mu.Unlock()
	o := h.waiting.open[callID]
	if o == nil {
		return fault.New(InputNotFound, "no call with the id %q waits for an answer", callID)
	}
	if a, ok := answers[""]; ok && len(answers) == 1 && len(o.in.Questions) == 1 {
		answers = Replies{o.in.Questions[0].ID: a}
	}
	if err := answers.check(o.in.Questions); err != nil {
		return err
	}
	o.answer <- given{answers, actor}
	delete(h.waiting.open, callID)
	return nil
}

// check says whether the answers fit the questions.
func (a Replies) check(questions []signal.Question) error {
	bad := func(format string, args ...any) error { return fault.New(fault.InvalidArguments, format, args...) }
	left := maps.Clone(a)
	for _, q := range questions {
		given, ok := a[q.ID]
		if !ok {
			return bad("the question %q is not answered", q.ID)
		}
		delete(left, q.ID)
		switch {
		case given.Action == Decline || given.Action == Cancel:
			if len(given.Content) > 0 && string(given.Content) != "null" {
				return bad("an answer that does not accept has no content")
			}
			continue
		case given.Action != Accept:
			return bad("an action is accept, decline or cancel, not %.40q", given.Action)
		case len(given.Content) > maxAnswerLength:
			return bad("an answer may have %d bytes", maxAnswerLength)
		}
		switch q.Kind {
		case FormQuestion:
			f, err := readForm(q.Message, q.Schema)
			if err != nil {
				return err
			}
			if err := f.check(orEmpty(given.Content)); err != nil {
				return err
			}
		case SamplingQuestion:
			if firstByte(given.Content) != '{' || !json.Valid(given.Content) {
				return bad("the answer of a model is a CreateMessageResult")
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		return bad("there is no question %.80q", id)
	}
	return nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if k := firstByte(raw); k == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// result is the answer as the method's result.
func (a Reply) result(q signal.Question) (json.RawMessage, error) {
	if q.Kind == SamplingQuestion {
		if a.Action != Accept {
			return nil, fault.New(fault.InputRequired, "the request for a model's answer was declined")
		}
		return a.Content, nil
	}
	out := map[string]any{"action": a.Action}
	if a.Action == Accept && q.Kind == FormQuestion {
		out["content"] = orEmpty(a.Content)
	}
	return json.Marshal(out)
}

// ask has somebody answer the questions of one round: the caller where it
// answers itself, else whoever comes by in time. Both leave tool.input_required
// and tool.input_resolved. over ends where nobody needs the answer any more.
func (l *line) ask(over context.Context, questions []signal.Question) (answers Replies, err error) {
	l.asking.Lock() // one at a time
	defer l.asking.Unlock()
	if l.rounds++; l.rounds > maxRounds {
		return nil, fault.New(fault.InputRequired, "%s has asked %d times and is not done", l.step.Tool, maxRounds)
	}
	limit := l.h.o.InputTimeout
	start := time.Now()
	in := signal.Input{
		CallID: l.id, Server: l.step.Server, Subject: l.step.Tool, Entrance: l.call.Entrance, Round: l.rounds,
		Questions: l.h.clean(questions), AskedAt: start.Format(time.RFC3339), ExpiresAt: start.Add(limit).Format(time.RFC3339),
	}
	ctx, cancel := context.WithTimeout(over, limit)
	defer cancel()
	answer := make(chan given, 1)
	if l.call.Input == nil { // before anybody hears of it, so that an answer is never too early
		if err := l.h.wait(in, answer); err != nil {
			return nil, err
		}
	}
	shown := in
	l.record(signal.InputRequired, l.step.Tool+" waits for an answer: "+summarise(in.Questions), &shown)

	by := given{actor: l.call.Entrance}
	if l.call.Input != nil {
		if by.answers, err = l.call.Input(ctx, in); err == nil {
			err = by.answers.check(questions)
		}
	} else {
		select {
		case by = <-answer:
		case <-ctx.Done():
			l.h.forget(l.id, answer) // before anybody hears that it is over
			select {
			case by = <-answer: // at the last moment; whoever gave it was told that it counts
			default:
				err = ctx.Err()
			}
		}
	}
	l.waits.Add(int64(time.Since(start)))
	done := signal.Input{CallID: l.id, Server: in.Server, Subject: in.Subject, Entrance: in.Entrance, Round: in.Round, Actor: by.actor}
	switch {
	case err == nil:
		done.Decision = "answered"
	case over.Err() != nil || l.ctx.Err() != nil:
		done.Decision, done.Reason = "cancelled", "the call was given up, or is over"
		err = fault.New(fault.Cancelled, "%s was given up while it waited for an answer", l.step.Tool)
	case ctx.Err() != nil: // nobody came: the server is told so, and may end well without
		done.Decision, done.Reason = "expired", fmt.Sprintf("nobody answered in %v", limit)
		by.answers, err = cancelled(questions), nil
	default:
		done.Decision, done.Reason = "refused", err.Error()
	}
	l.record(signal.InputResolved, l.step.Tool+" was "+done.Decision, &done)
	return by.answers, err
}

// cancelled is the answer of nobody.
func cancelled(questions []signal.Question) Replies {
	a := Replies{}
	for _, q := range questions {
		a[q.ID] = Reply{Action: Cancel}
	}
	return a
}

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
	return text[:cut(text, maxSummary)]
}

// clean is questions for events and people: without secrets.
func (h *Host) clean(questions []signal.Question) []signal.Question {
	out := slices.Clone(questions)
	for i := range out {
		q := &out[i]
		for _, raw := range []*json.RawMessage{&q.Schema, &q.Params} {
			if len(*raw) > 0 {
				*raw, _ = h.o.Redact(*raw)
			}
		}
		q.Message = h.cleanText(q.Message)
	}
	return out
}

// wait opens the questions of a call to whoever answers.
func (h *Host) wait(in signal.Input, answer chan given) error {
	h.waiting.mu.Lock()
	defer h.waiting.mu.Unlock()
	switch {
	case len(h.waiting.open) >= maxWaiting:
		return fault.New(fault.Busy, "%d calls wait for answers already", maxWaiting)
	case h.waiting.open[in.CallID] != nil:
		return fault.New(fault.Busy, "another call with the id %s waits for an answer", in.CallID)
	}
	if h.waiting.open == nil {
		h.waiting.open = map[string]*open{}
	}
	h.waiting.open[in.CallID] = &open{in, answer}
	return nil
}

func (h *Host) forget(callID string, answer chan given) {
	h.waiting.mu.Lock()
	defer h.waiting.mu.Unlock()
	if o := h.waiting.open[callID]; o != nil && o.answer == answer {
		delete(h.waiting.open, callID)
	}
}

// asker answers what a server of an older era asks in the middle of the call.
func (l *line) asker(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	q, err := l.question("1", method, params)
	if err != nil {
		return nil, err
	}
	answers, err := l.ask(ctx, []signal.Question{q})
	if err != nil {
		return nil, err
	}
	return answers[q.ID].result(q)
}

// question reads what a server asks and records a refusal.
func (l *line) question(id, method string, params json.RawMessage) (signal.Question, error) {
	q, err := readQuestion(id, method, params)
	if err == nil && q.Kind == SamplingQuestion && l.call.Input == nil {
		err = fault.New(fault.InputRequired, "nobody here lets a server ask a model")
	}
	if err != nil {
		f := fault.From(err)
		l.notShown(method, f)
		return q, f
	}
	return q, nil
}

// notShown records that a server asked what nobody is to be asked.
func (l *line) notShown(method string, f *fault.Error) {
	l.record(signal.Problem, l.step.Tool+" asked what is refused: "+f.Message, &signal.Fault{Code: questionRefused, Detail: f.Message, Sample: method})
}

// questionRefused is the code in the event of a question that nobody was shown.
const questionRefused = "question_refused"

// inputRequest is one of the requests in an input_required result.
type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// inputRequests are those of a result, by their keys, and not too many.
func inputRequests(subject string, r *features.Result) (map[string]inputRequest, error) {
	var asked map[string]inputRequest
	if raw := r.Member("inputRequests"); len(raw) > 0 {
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, fault.New(fault.Protocol, "%s asks for input in a way that cannot be read: %v", subject, err)
		}
	}
	if len(asked) > maxQuestions {
		return nil, fault.New(fault.InputRequired, "%s asks %d things at once; the limit is %d", subject, len(asked), maxQuestions)
	}
	return asked, nil
}

func withoutLeave(subject, method string) error {
	return fault.New(fault.InputRequired, "%s asks for input (%.60s), which is not allowed for its server", subject, method)
}

func refusedInput(subject string, why error) error {
	return fault.New(fault.InputRequired, "%s asks for input that is refused: %s", subject, fault.From(why).Message)
}

// answer answers an input_required result (2026-07-28, multi round-trip
// requests): what the next request is to carry. shed counts results in a row that
// ask for nothing.
func (l *line) answer(session *session.Session, r *features.Result, shed *int) (features.With, error) {
	w := features.With{RequestState: r.Member("requestState")}
	asked, err := inputRequests(l.step.Tool, r)
	if err != nil {
		return w, err
	}
	if len(asked) == 0 { // the server is busy and wants to be asked again
		if *shed++; *shed > maxShed || len(w.RequestState) == 0 {
			return w, fault.New(fault.Busy, "%s puts the call off and asks for nothing", l.step.Tool).Retry()
		}
		pause := time.NewTimer(shedPause << *shed)
		defer pause.Stop()
		select {
		case <-pause.C:
			return w, nil
		case <-l.ctx.Done():
			return w, fault.New(fault.Cancelled, "the caller gave %s up", l.step.Tool)
		}
	}
	*shed = 0
	responses := map[string]json.RawMessage{}
	var questions []signal.Question
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		a := asked[id]
		if !session.Offers(a.Method) {
			return w, withoutLeave(l.step.Tool, a.Method)
		}
		if a.Method == handshake.MethodRoots {
			responses[id] = session.RootsResult()
			continue
		}
		q, err := l.question(id, a.Method, a.Params)
		if err != nil {
			return w, refusedInput(l.step.Tool, err)
		}
		questions = append(questions, q)
	}
	if len(questions) > 0 {
		answers, err := l.ask(l.ctx, questions)
		if err != nil {
			return w, err
		}
		for _, q := range questions {
			if responses[q.ID], err = answers[q.ID].result(q); err != nil {
				return w, err
			}
		}
	}
	w.InputResponses, _ = json.Marshal(responses) // raw JSON always marshals
	return w, nil
}
