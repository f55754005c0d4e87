package control

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// Policy is what the API offers of the policy: questions to people, and the
// review of what servers say of their tools.
type Policy interface {
	Approvals(ctx context.Context, states ...approval.State) ([]approval.Approval, error)
	Approval(ctx context.Context, id string) (approval.Approval, error)
	Approve(ctx context.Context, id string, scope approval.Scope, actor string) (approval.Approval, error)
	Deny(ctx context.Context, id, actor, reason string) (approval.Approval, error)
	// Revoke takes an answer back, or closes a question.
	Revoke(ctx context.Context, id, actor string) (approval.Approval, error)
	// Explain says what would become of a call of a tool, and why.
	Explain(tool string) (policy.Explanation, error)
	// Review is of one server, by name or alias, or of all for "".
	Review(server string) (*review.Report, error)
	Diff(server string) ([]review.ToolDiff, error)
	// Pin approves a server's tools, or one, as they were reviewed.
	Pin(ctx context.Context, a review.Approval) error
}

// Answer is a person's answer to a question.
type Answer struct {
	Scope  approval.Scope `json:"scope,omitempty"`  // of an approval: once (default), session or always
	Actor  string         `json:"actor,omitempty"`  // who answers
	Reason string         `json:"reason,omitempty"` // of a denial
}

// PinRequest approves the tools of a server, or one of them.
type PinRequest struct {
	Server string `json:"server"`
	Tool   string `json:"tool,omitempty"` // empty is all
	Hash   string `json:"hash,omitempty"` // as reviewed; if it is another by now nothing is approved
	Actor  string `json:"actor,omitempty"`
}

// policyRoutes are the policy's part of the API.
func (a *api) policyRoutes() []route {
	return []route{
		{"GET", "/v1/approvals", func(w http.ResponseWriter, r *http.Request) {
			var states []approval.State
			for _, s := range r.URL.Query()["state"] {
				if !slices.Contains(approval.States, approval.State(s)) {
					fail(w, bad("there is no state %.40q of an approval", s))
					return
				}
				states = append(states, approval.State(s))
			}
			list, err := a.b.Approvals(r.Context(), states...)
			if list == nil {
				list = []approval.Approval{}
			}
			respond(w, map[string]any{"approvals": list}, err)
		}},
		{"GET", "/v1/approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
			v, err := a.b.Approval(r.Context(), r.PathValue("id"))
			respond(w, v, err)
		}},
		{"POST", "/v1/approvals/{id}/approve", func(w http.ResponseWriter, r *http.Request) {
			in := Answer{Scope: approval.Once}
			if err := a.decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Approve(r.Context(), r.PathValue("id"), in.Scope, in.Actor)
			respond(w, v, err)
		}},
		{"POST", "/v1/approvals/{id}/deny", func(w http.ResponseWriter, r *http.Request) {
			var in Answer
			if err := a.decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Deny(r.Context(), r.PathValue("id"), in.Actor, in.Reason)
			respond(w, v, err)
		}},
		{"POST", "/v1/approvals/{id}/revoke", func(w http.ResponseWriter, r *http.Request) {
			var in Answer
			if err := a.decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Revoke(r.Context(), r.PathValue("id"), in.Actor)
			respond(w, v, err)
		}},
		{"GET", "/v1/policy/explain", func(w http.ResponseWriter, r *http.Request) {
			tool := r.URL.Query().Get("tool")
			if tool == "" {
				fail(w, bad("tool, whose calls to explain, is missing"))
				return
			}
			v, err := a.b.Explain(tool)
			respond(w, v, err)
		}},
		{"GET", "/v1/catalog/review", func(w http.ResponseWriter, r *http.Request) {
			v, err := a.b.Review(r.URL.Query().Get("server"))
			respond(w, v, err)
		}},
		{"GET", "/v1/catalog/diff", func(w http.ResponseWriter, r *http.Request) {
			v, err := a.b.Diff(r.URL.Query().Get("server"))
			if v == nil {
				v = []review.ToolDiff{}
			}
			respond(w, map[string]any{"tools": v}, err)
		}},
		{"POST", "/v1/catalog/approve", func(w http.ResponseWriter, r *http.Request) {
			var in PinRequest
			if err := a.decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			if in.Server == "" {
				fail(w, bad("server, whose tools to approve, is missing"))
				return
			}
			err := a.b.Pin(r.Context(), review.Approval{Server: in.Server, Tool: in.Tool, Hash: in.Hash, Actor: in.Actor})
			respond(w, map[string]any{"ok": true}, err)
		}},
	}
}

func respond(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, v)
}

// Codes of the policy's part of the API.
const (
	ApprovalNotFound = "approval_not_found"
	ApprovalDecided  = "approval_decided" // it was answered, or has expired
)

// Approvals lists questions, of one state or of all.
func (c *Client) Approvals(ctx context.Context, states ...string) ([]approval.Approval, error) {
	var r struct{ Approvals []approval.Approval }
	return r.Approvals, c.get(ctx, "/v1/approvals?"+url.Values{"state": states}.Encode(), &r)
}

// Approval is one question.
func (c *Client) Approval(ctx context.Context, id string) (v approval.Approval, err error) {
	return v, c.get(ctx, "/v1/approvals/"+url.PathEscape(id), &v)
}

// Approve answers a question with yes.
func (c *Client) Approve(ctx context.Context, id string, a Answer) (v approval.Approval, err error) {
	return v, c.post(ctx, "/v1/approvals/"+url.PathEscape(id)+"/approve", a, &v)
}

// Deny answers a question with no.
func (c *Client) Deny(ctx context.Context, id string, a Answer) (v approval.Approval, err error) {
	return v, c.post(ctx, "/v1/approvals/"+url.PathEscape(id)+"/deny", a, &v)
}

// Revoke takes an answer back, or closes a question.
func (c *Client) Revoke(ctx context.Context, id string, a Answer) (v approval.Approval, err error) {
	return v, c.post(ctx, "/v1/approvals/"+url.PathEscape(id)+"/revoke", a, &v)
}

// Explain says what would become of a call of a tool.
func (c *Client) Explain(ctx context.Context, tool string) (v policy.Explanation, err error) {
	return v, c.get(ctx, "/v1/policy/explain?"+url.Values{"tool": {tool}}.Encode(), &v)
}

// Review is the review of the catalogue, or of one server's part of it.
func (c *Client) Review(ctx context.Context, server string) (v review.Report, err error) {
	return v, c.get(ctx, "/v1/catalog/review?"+url.Values{"server": {server}}.Encode(), &v)
}

// Diff is how a server's tools differ from what was approved.
func (c *Client) Diff(ctx context.Context, server string) ([]review.ToolDiff, error) {
	var r struct{ Tools []review.ToolDiff }
	return r.Tools, c.get(ctx, "/v1/catalog/diff?"+url.Values{"server": {server}}.Encode(), &r)
}

// Pin approves tools.
func (c *Client) Pin(ctx context.Context, r PinRequest) error {
	return c.post(ctx, "/v1/catalog/approve", r, nil)
}
