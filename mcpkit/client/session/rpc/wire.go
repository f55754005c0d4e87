package rpc

import (
	"context"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// Line is a message as it arrived, whole or skipped for its length.
type Line = jsonline.Line

// Wire carries JSON-RPC messages to and from one server. Receive is called by
// one goroutine; the rest is safe for concurrent use. Every message of a session
// passes through its wire, which may look into them for what it needs itself,
// such as the protocol version that was agreed on.
type Wire interface {
	// Send queues msg, one message without a line end in it, and does not keep
	// it. It waits for room until ctx is done. After an error nothing of msg was
	// or will be sent; after none, nobody knows. The error wraps
	// io.ErrClosedPipe once nothing more can be sent.
	Send(ctx context.Context, msg []byte) error
	// TrySend is Send where there is room at once. It never waits.
	TrySend(msg []byte) bool
	// Receive waits for the next message, or for the news that a request failed
	// on its way ([Line].Failed). Its error ends the session: io.EOF
	// where the server closed the wire, else why the wire broke; one that wraps
	// session.ErrHung where the server took nothing for too long.
	Receive() (Line, error)
	// CloseSend sends what is queued, for no longer than timeout, and tells the
	// server that nothing more comes.
	CloseSend(timeout time.Duration)
	// Close gives up the wire in both directions: Receive returns.
	Close() error
}
