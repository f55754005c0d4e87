package control

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// CallState is a call as it stands. Response is set once it is completed,
// Problem once it has failed.
type CallState struct {
	CallID    string    `json:"call_id"`
	State     string    `json:"state"` // running, input_required, completed or failed
	Name      string    `json:"name,omitempty"`
	StartedAt time.Time `json:"started_at"`
	// Progress are the latest params of notifications/progress, of a running call.
	Progress json.RawMessage `json:"progress,omitempty"`
	// Input is what the server wants to know, while the state is input_required.
	Input    *signal.Input `json:"input,omitempty"`
	Response *CallResponse `json:"response,omitempty"`
	Problem  *Problem      `json:"problem,omitempty"`
}

// InputAnswer answers the questions of a call: Replies by question, or Action and
// Content where there is only one.
type InputAnswer struct {
	Replies ask.Replies     `json:"replies,omitempty"`
	Action  string          `json:"action,omitempty"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
	Actor   string          `json:"actor,omitempty"` // who answers
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
