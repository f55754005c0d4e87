package streamable

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/answer"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// batch answers several messages at once, which one revision of the protocol
// allows (2025-03-26, basic: batching).
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, view *view.View, body []byte) {
	s, status := h.find(r, view)
	if s == nil || s.conn.Version() != "2025-03-26" {
		if s == nil && status == http.StatusNotFound {
			http.Error(w, "the session is over", status)
			return
		}
		answer.WriteJSON(w, http.StatusBadRequest, (&rpc.Error{Code: rpc.CodeInvalidRequest, Message: "batches are not taken in this version of the protocol"}).Reply())
		return
	}
	s.begin()
	defer s.done()
	out := h.answer(w, r, nil)
	defer out.Close()
	reply, bad := serveBatch(s.ctx, s.conn, body, out)
	if bad != nil {
		out.Finish(bad.Reply(), http.StatusBadRequest)
		return
	}
	out.Finish(reply, http.StatusOK)
}

// maxBatch is how many messages one batch may have.
const maxBatch = 64

// serveBatch answers the messages of a batch at once. It returns nil where none of
// them wants an answer.
func serveBatch(ctx context.Context, c *gateway.Conn, raw []byte, out rpc.Stream) ([]byte, *rpc.Error) {
	var parts [][]byte
	if !jsontext.Elements(raw, func(v []byte) bool { parts = append(parts, v); return true }) || !utf8.Valid(raw) {
		return nil, &rpc.Error{Code: rpc.CodeParse, Message: "the batch is not valid JSON"}
	}
	if len(parts) == 0 || len(parts) > maxBatch {
		return nil, &rpc.Error{Code: rpc.CodeInvalidRequest, Message: fmt.Sprintf("a batch has from 1 to %d messages", maxBatch)}
	}
	replies := make([][]byte, len(parts))
	var work sync.WaitGroup
	for i, part := range parts {
		m, bad := rpc.Parse(part)
		switch {
		case bad != nil:
			replies[i] = bad.Reply()
		case !m.IsRequest():
			c.Notify(m)
		default:
			work.Go(func() {
				reply, err := c.Serve(ctx, m, out)
				if err != nil {
					reply = err.Reply()
				}
				replies[i] = reply
			})
		}
	}
	work.Wait()
	replies = slices.DeleteFunc(replies, func(r []byte) bool { return r == nil })
	if len(replies) == 0 {
		return nil, nil
	}
	return append(append([]byte{'['}, bytes.Join(replies, []byte{','})...), ']'), nil
}
