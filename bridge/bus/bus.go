// Package bus is the seam between the bridge, which makes envelopes, and what
// carries them to a Brain: the file inbox on one machine, JetStream between
// several. Every Bus passes the suite in bridge/bustest.
package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aurorabot-dev/platform/amp"
)

// Route says where an envelope goes.
type Route uint8

const (
	// Inbox envelopes are recorded in the journal and delivered to the Brain.
	Inbox Route = iota
	// Journal envelopes are only recorded.
	Journal
)

// Item is one envelope on its way.
//
// Publish completes the envelope: it sets Header.MessageID where that is empty
// (a monotonic ULID) and Header.Seq (per source app and instance, rising by
// one), both given at the commit queue, so that their order is the order of
// publication.
type Item struct {
	Envelope *amp.Envelope
	// Before are envelopes of the same source that are recorded with Envelope as one
	// record, in this order and ahead of it. They are completed as it is, and never
	// delivered. A duplicate of Envelope is one of all.
	Before []*amp.Envelope
	Route  Route
	// Owner is whom the envelope's message id belongs to, where that is not the app
	// of its source: ids that the platform gives are its own, whichever server an
	// envelope speaks of.
	Owner string
}

// Status is what became of an item.
type Status uint8

const (
	Accepted  Status = iota // durable, and delivered if its route says so
	Duplicate               // the message id was seen before; dropped
	Expired                 // expire_at had passed; recorded, not delivered
)

// Receipt answers one Item.
type Receipt struct {
	ID     string
	Seq    uint64
	Status Status
}

// Rejected is an event that is not an envelope: it is kept beside the queue with
// the reason, so that nothing is silently dropped.
type Rejected struct {
	Source amp.Source      `json:"source"`
	Method string          `json:"method"`
	Reason string          `json:"reason"`
	Raw    json.RawMessage `json:"raw"` // as it came; a JSON string where it was no JSON
}

// Bus carries envelopes. It is safe for concurrent use.
type Bus interface {
	// Publish returns when every item is durable, with a receipt for each in
	// order. It keeps the order of items, and of successive calls by one
	// goroutine. It blocks while the bus cannot take more; an error means that
	// none of the items without a receipt was acknowledged. When ctx ends
	// while the outcome is open, the items may or may not have been taken:
	// publishing them again under the same ids is safe.
	Publish(ctx context.Context, items ...Item) ([]Receipt, error)
	// Reject keeps r and returns a name under which it can be found.
	Reject(ctx context.Context, r Rejected) (string, error)
	// Close waits for what was accepted to be delivered, then frees everything.
	// Where that does not come about in its time the error is a *Backlog.
	Close() error
}

// Backlog is what Close leaves for the next start: it is durable, and delivered
// then. Where more is wrong, Close joins it with what that is.
type Backlog struct {
	Records int64
	Cause   error // what holds them up; nil where there was too little time
}

func (b *Backlog) Error() string {
	text := fmt.Sprintf("%d records are in the journal and are delivered after the next start", b.Records)
	if b.Cause != nil {
		text += ": " + b.Cause.Error()
	}
	return text
}

func (b *Backlog) Unwrap() error { return b.Cause }

// With joins b with what else went wrong, if anything did.
func (b *Backlog) With(err error) error {
	if err == nil {
		return b
	}
	return errors.Join(b, err)
}
