package server

import (
	"context"
	"net/http"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/calls"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// call answers POST /v1/calls. A synchronous call ends with its request.
func (a *api) call(w http.ResponseWriter, r *http.Request) {
	var req control.CallRequest
	err := a.decode(w, r, &req)
	if err == nil {
		err = calls.Check(&req)
	}
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	ctx := r.Context()
	req.Trace = trace(r)
	if req.Async {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, e, err := a.calls.Begin(ctx, req)
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	if !req.Async {
		a.calls.Run(ctx, e)
		res, err := e.Result()
		httpjson.Respond(w, res, err)
		return
	}
	a.guard.Go(func() { a.calls.Run(ctx, e) }) // the request is counted, so nothing waits for zero yet
	w.Header().Set("Location", "/v1/calls/"+req.ID)
	httpjson.ReplyStatus(w, http.StatusAccepted, e.State())
}

// callState answers GET /v1/calls/{id}. With wait=true it waits for the end of
// the call or of the API; then the state is still running.
func (a *api) callState(w http.ResponseWriter, r *http.Request) {
	wait, err := httpjson.Flag(r.URL.Query(), "wait")
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	e, err := a.calls.Find(r.PathValue("id"))
	if err != nil {
		if in, ok := a.b.Input(r.PathValue("id")); ok { // it came in another way
			httpjson.Reply(w, waiting(in))
			return
		}
		httpjson.Fail(w, err)
		return
	}
	if wait {
		ctx, end, err := a.streams.Begin(r.Context())
		if err != nil {
			httpjson.Fail(w, err)
			return
		}
		defer end()
		select {
		case <-e.Done():
		case <-ctx.Done():
		}
	}
	s := e.State()
	a.addInput(&s)
	httpjson.Reply(w, s)
}

// cancelCall answers DELETE /v1/calls/{id}: unless the call was over, its server
// is told and it ends as cancelled.
func (a *api) cancelCall(w http.ResponseWriter, r *http.Request) {
	e, err := a.calls.Find(r.PathValue("id"))
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	e.Cancel(fault.New(fault.Cancelled, "the call was cancelled"))
	select {
	case <-e.Done():
	case <-r.Context().Done():
	}
	httpjson.Reply(w, e.State())
}
