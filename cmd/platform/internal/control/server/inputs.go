package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// oneForm returns the replies by question, in whichever of the two forms they came.
func oneForm(i *control.InputAnswer) (ask.Replies, error) {
	switch {
	case i.Action != "" && i.Replies != nil:
		return nil, httpjson.Bad("either action, for the only question, or replies")
	case i.Action != "":
		return ask.Replies{"": {Action: i.Action, Content: i.Content}}, nil
	case len(i.Replies) == 0:
		return nil, httpjson.Bad("replies, by the ids of the questions, are missing")
	case i.Content != nil:
		return nil, httpjson.Bad("content belongs to an action")
	}
	return i.Replies, nil
}

// inputRoutes are the part of the API for calls that wait for an answer.
func (a *api) inputRoutes() []route {
	return []route{
		{"GET", "/v1/calls", a.listCalls},
		{"POST", "/v1/calls/{id}/input", reading(a, control.InputAnswer{}, func(r *http.Request, in *control.InputAnswer) (any, error) {
			replies, err := oneForm(in)
			if err != nil {
				return nil, err
			}
			return done, a.b.AnswerInput(r.PathValue("id"), replies, cmp.Or(in.Actor, "api"))
		})},
	}
}

// listCalls answers GET /v1/calls: those that were made over the API and are
// kept, and all that wait for an answer.
func (a *api) listCalls(w http.ResponseWriter, r *http.Request) {
	states := a.calls.States()
	for i := range states {
		a.addInput(&states[i])
	}
	for _, in := range a.b.Inputs() {
		if !slices.ContainsFunc(states, func(s control.CallState) bool { return s.CallID == in.CallID }) {
			states = append(states, waiting(in))
		}
	}
	if want := r.URL.Query().Get("state"); want != "" {
		states = slices.DeleteFunc(states, func(s control.CallState) bool { return s.State != want })
	}
	if states == nil {
		states = []control.CallState{}
	}
	httpjson.Reply(w, map[string]any{"calls": states})
}

const stateInput = "input_required"

// waiting is a call that came in another way and waits.
func waiting(in signal.Input) control.CallState {
	asked, _ := time.Parse(time.RFC3339, in.AskedAt) // as the host wrote it
	return control.CallState{CallID: in.CallID, State: stateInput, Name: in.Subject, StartedAt: asked, Input: &in}
}

// addInput says of a running call what it waits for, if it does.
func (a *api) addInput(s *control.CallState) {
	if s.State != "running" {
		return
	}
	if in, ok := a.b.Input(s.CallID); ok {
		s.State, s.Input = stateInput, &in
	}
}
