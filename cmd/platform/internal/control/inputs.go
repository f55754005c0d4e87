package control

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Inputs are the calls that wait for an answer to their server's questions,
// whichever way they came in.
type Inputs interface {
	Inputs() []signal.Input
	Input(callID string) (signal.Input, bool)
	AnswerInput(callID string, r host.Replies, actor string) error
}

// InputAnswer answers the questions of a call: Replies by question, or Action and
// Content where there is only one.
type InputAnswer struct {
	Replies host.Replies    `json:"replies,omitempty"`
	Action  string          `json:"action,omitempty"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
	Actor   string          `json:"actor,omitempty"` // who answers
}

// replies are the answers in one form.
func (i *InputAnswer) replies() (host.Replies, error) {
	switch {
	case i.Action != "" && i.Replies != nil:
		return nil, bad("either action, for the only question, or replies")
	case i.Action != "":
		return host.Replies{"": {Action: i.Action, Content: i.Content}}, nil
	case len(i.Replies) == 0:
		return nil, bad("replies, by the ids of the questions, are missing")
	case i.Content != nil:
		return nil, bad("content belongs to an action")
	}
	return i.Replies, nil
}

func (a *api) inputRoutes() []route {
	return []route{
		{"GET", "/v1/calls", a.listCalls},
		{"POST", "/v1/calls/{id}/input", func(w http.ResponseWriter, r *http.Request) {
			var in InputAnswer
			err := a.decode(w, r, &in)
			var replies host.Replies
			if err == nil {
				replies, err = in.replies()
			}
			if err == nil {
				err = a.b.AnswerInput(r.PathValue("id"), replies, cmp.Or(in.Actor, "api"))
			}
			respond(w, map[string]any{"ok": true}, err)
		}},
	}
}

// listCalls answers GET /v1/calls: those that were made over the API and are
// kept, and all that wait for an answer.
func (a *api) listCalls(w http.ResponseWriter, r *http.Request) {
	states := a.calls.states()
	for i := range states {
		a.addInput(&states[i])
	}
	for _, in := range a.b.Inputs() {
		if !slices.ContainsFunc(states, func(s CallState) bool { return s.CallID == in.CallID }) {
			states = append(states, waiting(in))
		}
	}
	if want := r.URL.Query().Get("state"); want != "" {
		states = slices.DeleteFunc(states, func(s CallState) bool { return s.State != want })
	}
	if states == nil {
		states = []CallState{}
	}
	reply(w, map[string]any{"calls": states})
}

const stateInput = "input_required"

// waiting is a call that came in another way and waits.
func waiting(in signal.Input) CallState {
	asked, _ := time.Parse(time.RFC3339, in.AskedAt) // as the host wrote it
	return CallState{CallID: in.CallID, State: stateInput, Name: in.Subject, StartedAt: asked, Input: &in}
}

// addInput says of a running call what it waits for, if it does.
func (a *api) addInput(s *CallState) {
	if s.State != "running" {
		return
	}
	if in, ok := a.b.Input(s.CallID); ok {
		s.State, s.Input = stateInput, &in
	}
}

// Calls lists the calls that are known, of one state or of all.
func (c *Client) Calls(ctx context.Context, state string) ([]CallState, error) {
	var r struct{ Calls []CallState }
	return r.Calls, c.get(ctx, "/v1/calls?"+url.Values{"state": {state}}.Encode(), &r)
}

// CallState is a call as it stands; with wait, once it has ended.
func (c *Client) CallState(ctx context.Context, id string, wait bool) (s CallState, err error) {
	path := "/v1/calls/" + url.PathEscape(id)
	if wait {
		path += "?wait=true"
	}
	return s, c.get(ctx, path, &s)
}

// AnswerInput answers the questions of a call.
func (c *Client) AnswerInput(ctx context.Context, id string, a InputAnswer) error {
	return c.post(ctx, "/v1/calls/"+url.PathEscape(id)+"/input", a, nil)
}
