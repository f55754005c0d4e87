package server

import (
	"net/http"
	"slices"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// policyRoutes are the policy's part of the API.
func (a *api) policyRoutes() []route {
	return []route{
		{"GET", "/v1/approvals", answering(func(r *http.Request) (any, error) {
			var states []approval.State
			for _, s := range r.URL.Query()["state"] {
				if !slices.Contains(approval.States, approval.State(s)) {
					return nil, httpjson.Bad("there is no state %.40q of an approval", s)
				}
				states = append(states, approval.State(s))
			}
			list, err := a.b.Approvals(r.Context(), states...)
			if list == nil {
				list = []approval.Approval{}
			}
			return map[string]any{"approvals": list}, err
		})},
		{"GET", "/v1/approvals/{id}", answering(func(r *http.Request) (any, error) {
			return a.b.Approval(r.Context(), r.PathValue("id"))
		})},
		{"POST", "/v1/approvals/{id}/approve", reading(a, control.Answer{Scope: approval.Once}, func(r *http.Request, in *control.Answer) (any, error) {
			return a.b.Approve(r.Context(), r.PathValue("id"), in.Scope, in.Actor)
		})},
		{"POST", "/v1/approvals/{id}/deny", reading(a, control.Answer{}, func(r *http.Request, in *control.Answer) (any, error) {
			return a.b.Deny(r.Context(), r.PathValue("id"), in.Actor, in.Reason)
		})},
		{"POST", "/v1/approvals/{id}/revoke", reading(a, control.Answer{}, func(r *http.Request, in *control.Answer) (any, error) {
			return a.b.Revoke(r.Context(), r.PathValue("id"), in.Actor)
		})},
		{"GET", "/v1/policy/explain", answering(func(r *http.Request) (any, error) {
			tool := r.URL.Query().Get("tool")
			if tool == "" {
				return nil, httpjson.Bad("tool, whose calls to explain, is missing")
			}
			return a.b.Explain(tool)
		})},
		{"GET", "/v1/catalog/review", answering(func(r *http.Request) (any, error) {
			return a.b.Review(r.URL.Query().Get("server"))
		})},
		{"GET", "/v1/catalog/diff", answering(func(r *http.Request) (any, error) {
			diff, err := a.b.Diff(r.URL.Query().Get("server"))
			if diff == nil {
				diff = []review.ToolDiff{}
			}
			return map[string]any{"tools": diff}, err
		})},
		{"POST", "/v1/catalog/approve", reading(a, control.PinRequest{}, func(r *http.Request, in *control.PinRequest) (any, error) {
			if in.Server == "" {
				return nil, httpjson.Bad("server, whose tools to approve, is missing")
			}
			return done, a.b.Pin(r.Context(), review.Approval{Server: in.Server, Tool: in.Tool, Hash: in.Hash, Actor: in.Actor})
		})},
	}
}
