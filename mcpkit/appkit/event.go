package appkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/internal/outbox"
)

// The two notifications by which events travel: an event to the peer, and the
// peer's word that it holds the event durably. The server announces them as the
// experimental capability "aurora/event".
const (
	eventMethod = "aurora/event"
	ackMethod   = "aurora/ack"
)

// maxEvent bounds one event's JSON, in bytes. What is larger belongs in a
// resource that the event names.
const maxEvent = 1 << 20

// Event is something that happened in the app, for a Brain to act on.
type Event struct {
	Type      string    // dotted, such as timer.triggered
	SessionID string    // the conversation it belongs to, if any
	Summary   string    // one sentence for a person
	Data      any       // marshals to JSON; nil for none
	ExpireAt  time.Time // not worth delivering later than this; zero for never

	// Key names what happened, such as "alarm 17 at 2026-06-17T07:30". Two
	// events with the same key are the same event: an app that cannot know
	// whether it emitted one before it crashed emits it again under its key.
	// Empty means that every Emit is an event of its own.
	Key string
}

// wireEvent is an event on the wire and on disk.
type wireEvent struct {
	ID        string          `json:"message_id"`
	Key       string          `json:"idempotency_key,omitempty"`
	Type      string          `json:"type"`
	SessionID string          `json:"session_id,omitempty"`
	Summary   string          `json:"summary,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	ExpireAt  *time.Time      `json:"expire_at,omitempty"`
}

// ErrOutboxFull is Emit's error when as many events as are kept wait for their
// acknowledgement. Whether that fails what the app was doing, waits or goes
// unnoticed is for the app to say.
var ErrOutboxFull = outbox.ErrFull

// Emit makes e durable and returns; it does not wait for a peer. From then on
// the event is sent, in the order of the Emits, in every session until it is
// acknowledged, refused or expired. The peer may see it more than once, always
// under the same message_id. Emit may be called before Serve and concurrently.
func (a *App) Emit(ctx context.Context, e Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Type == "" {
		return errors.New("emitting an event: it has no type")
	}
	m := wireEvent{Key: e.Key, Type: e.Type, SessionID: e.SessionID, Summary: e.Summary}
	if e.Key == "" {
		m.ID = ulid.Make().String()
	} else {
		// Derived, not minted: the same key gives the same id after a crash, too.
		space := uuid.NewSHA1(uuid.NameSpaceURL, []byte(a.Package()))
		m.ID = uuid.NewSHA1(space, []byte(e.Key)).String()
	}
	if !e.ExpireAt.IsZero() {
		m.ExpireAt = &e.ExpireAt
	}
	if e.Data != nil {
		var err error
		if m.Data, err = jsontext.Marshal(e.Data); err != nil {
			return fmt.Errorf("emitting %s: encoding its data: %w", e.Type, err)
		}
		if string(m.Data) == "null" { // such as a nil map: none, too
			m.Data = nil
		}
	}
	text, err := jsontext.Marshal(m)
	if err != nil {
		return fmt.Errorf("emitting %s: %w", e.Type, err)
	}
	if len(text) > maxEvent {
		return fmt.Errorf("emitting %s: %d bytes are more than %d", e.Type, len(text), maxEvent)
	}
	if err := a.outbox.Put(m.ID, text, e.ExpireAt); err != nil {
		return fmt.Errorf("emitting %s: %w", e.Type, err)
	}
	return nil
}

// tap is a transport that also carries events and their acknowledgements, which
// the SDK has no words for: it would discard the one and cannot send the other.
type tap struct {
	mcp.Transport
	outbox  *outbox.Outbox
	answers *answers
	ready   chan struct{} // closed when the peer may be sent notifications
	conn    mcp.Connection
}

// Connect implements mcp.Transport.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	t.conn = conn
	return &tapped{Connection: conn, tap: t}, err
}

// send writes one event.
func (t *tap) send(ctx context.Context, params json.RawMessage) error {
	return t.conn.Write(ctx, &jsonrpc.Request{Method: eventMethod, Params: params})
}

type tapped struct {
	mcp.Connection
	tap   *tap
	ready bool // only Read, which is serial, looks at it
}

// Read implements mcp.Connection. It keeps acknowledgements to itself, and it
// notices when the session has begun: with notifications/initialized, or, where
// the era knows no such thing, with the first request that is not part of
// getting to know each other.
func (c *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		req, ok := m.(*jsonrpc.Request)
		if !ok {
			return m, nil
		}
		if req.IsCall() {
			c.tap.answers.read(req)
		}
		switch req.Method {
		case ackMethod:
			if !req.IsCall() {
				c.tap.outbox.Acknowledge(req.Params)
				continue
			}
		case "initialize", "server/discover", "ping":
		default:
			if !c.ready && (req.IsCall() || req.Method == "notifications/initialized") {
				c.ready = true
				close(c.tap.ready)
			}
		}
		return m, nil
	}
}

// Write implements mcp.Connection. It keeps the answers' record.
func (c *tapped) Write(ctx context.Context, m jsonrpc.Message) error {
	if answer, ok := m.(*jsonrpc.Response); ok {
		return c.tap.answers.write(ctx, c.Connection, answer)
	}
	return c.Connection.Write(ctx, m)
}
