package control

import (
	"context"
	"net/url"

	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

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
