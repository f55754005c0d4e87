package ask

import (
	"slices"
	"strings"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// NotFound is the code where no call waits for that answer.
const NotFound = "input_not_found"

// maxPending is how many calls may wait for answers.
const maxPending = 1000

// Pending are the calls whose questions are open to whoever answers. Its zero value
// is ready for use, and it is safe for concurrent use.
type Pending struct {
	mu    sync.Mutex
	calls map[string]*question // by call id
}

// question is one round of questions that waits.
type question struct {
	in     signal.Input
	answer chan given // capacity 1
}

type given struct {
	answers Replies
	actor   string
}

// Inputs are the calls that wait for answers, the oldest first.
func (p *Pending) Inputs() []signal.Input {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []signal.Input{}
	for _, o := range p.calls {
		out = append(out, o.in)
	}
	slices.SortFunc(out, func(a, b signal.Input) int { return strings.Compare(a.ExpiresAt+a.CallID, b.ExpiresAt+b.CallID) })
	return out
}

// Input is what a call waits for; false where it waits for nothing.
func (p *Pending) Input(callID string) (signal.Input, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.calls[callID]
	if o == nil {
		return signal.Input{}, false
	}
	return o.in, true
}

// Answer answers a call that waits. The questions stay open where the answer
// does not fit them: the error is then a *fault.Error with invalid_arguments. One
// with the code NotFound says that nothing waits, any more. An answer for ""
// is for the only question there is.
func (p *Pending) Answer(callID string, answers Replies, actor string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.calls[callID]
	if o == nil {
		return fault.New(NotFound, "no call with the id %q waits for an answer", callID)
	}
	if a, ok := answers[""]; ok && len(answers) == 1 && len(o.in.Questions) == 1 {
		answers = Replies{o.in.Questions[0].ID: a}
	}
	if err := answers.check(o.in.Questions); err != nil {
		return err
	}
	o.answer <- given{answers, actor}
	delete(p.calls, callID)
	return nil
}

// open opens the questions of a call to whoever answers.
func (p *Pending) open(in signal.Input, answer chan given) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.calls) >= maxPending:
		return fault.New(fault.Busy, "%d calls wait for answers already", maxPending)
	case p.calls[in.CallID] != nil:
		return fault.New(fault.Busy, "another call with the id %s waits for an answer", in.CallID)
	}
	if p.calls == nil {
		p.calls = map[string]*question{}
	}
	p.calls[in.CallID] = &question{in, answer}
	return nil
}

// close closes the question that answer belongs to, if it is still open.
func (p *Pending) close(callID string, answer chan given) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.calls[callID]; o != nil && o.answer == answer {
		delete(p.calls, callID)
	}
}
