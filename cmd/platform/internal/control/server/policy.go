package server

import (
	"net/http"
	"slices"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

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
			in := control.Answer{Scope: approval.Once}
			if err := a.decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Approve(r.Context(), r.PathValue("id"), in.Scope, in.Actor)
			respond(w, v, err)
		}},
		{"POST", "/v1/approvals/{id}/deny", func(w http.ResponseWriter, r *http.Request) {
			var in control.Answer
			if err := a.decode(w, r, &in); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Deny(r.Context(), r.PathValue("id"), in.Actor, in.Reason)
			respond(w, v, err)
		}},
		{"POST", "/v1/approvals/{id}/revoke", func(w http.ResponseWriter, r *http.Request) {
			var in control.Answer
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
			var in control.PinRequest
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
