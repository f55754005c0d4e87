package wire

import (
	"context"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answers sees to it that each request whose handler has returned gets one answer.
// The SDK (v1.8.0) writes none where the result cannot be encoded, and gives up the
// whole session where an error cannot: docs/design/unanswered-calls.md has the
// detail, and when this can go.
//
// A request is known to its handler by its extra, which the SDK hands on, and to
// the connection by its id.
type answers struct {
	log    *slog.Logger
	failed string // the message of an error that answers what has no other answer

	mu    sync.Mutex
	extra map[jsonrpc.ID]*mcp.RequestExtra // of requests that were read and are not answered
	ids   map[*mcp.RequestExtra]jsonrpc.ID // the same the other way
}

func newAnswers(log *slog.Logger, failed string) *answers {
	return &answers{log: log, failed: failed, extra: map[jsonrpc.ID]*mcp.RequestExtra{}, ids: map[*mcp.RequestExtra]jsonrpc.ID{}}
}

// read notes a request. One that has the id of another that is open is left to the
// SDK, which ignores it.
func (a *answers) read(req *jsonrpc.Request) {
	extra, ok := req.Extra.(*mcp.RequestExtra)
	if !ok || extra == nil {
		extra = new(mcp.RequestExtra)
		req.Extra = extra
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.extra[req.ID] == nil {
		a.extra[req.ID], a.ids[extra] = extra, req.ID
	}
}

// take reports whether the request is open. It no longer is: who calls take and
// gets true writes the answer.
func (a *answers) take(id jsonrpc.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	extra := a.extra[id]
	delete(a.ids, extra)
	delete(a.extra, id)
	return extra != nil
}

// write writes an answer of the SDK, or an error in place of one that cannot be
// encoded. It drops the answer to a request that is not open.
func (a *answers) write(ctx context.Context, to mcp.Connection, answer *jsonrpc.Response) error {
	if !a.take(answer.ID) {
		return nil
	}
	err := to.Write(ctx, answer)
	if err == nil {
		return nil
	}
	if _, unfit := jsonrpc.EncodeMessage(answer); unfit == nil {
		return err // the connection is what failed
	}
	a.log.Error("an answer cannot be encoded", "id", answer.ID.Raw(), "error", err)
	return to.Write(ctx, a.unforeseen(answer.ID))
}

// returned is called when the handler of the request with that extra has returned.
// The SDK cancels ctx, the request's own, when it is done with the request. If that
// is not answered by then, it is answered here.
func (a *answers) returned(ctx context.Context, extra *mcp.RequestExtra, to mcp.Connection) {
	if extra == nil || ctx.Err() != nil { // cancelled: nobody waits for the answer
		return
	}
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		id, open := a.ids[extra]
		a.mu.Unlock()
		if !open || !a.take(id) {
			return
		}
		a.log.Error("a result cannot be encoded, or the request was cancelled at the last moment", "id", id.Raw())
		if err := to.Write(context.WithoutCancel(ctx), a.unforeseen(id)); err != nil {
			a.log.Debug("the connection is closed", "error", err)
		}
	})
}

// unforeseen is the answer to a request that has no other.
func (a *answers) unforeseen(id jsonrpc.ID) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: a.failed}}
}
