package appkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/internal/outbox"
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
