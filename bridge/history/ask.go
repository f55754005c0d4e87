package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Page is a part of the history.
type Page struct {
	Entries []entry.Entry `json:"entries"`
	// Behind is how many records of the journal are not indexed yet; they are the latest.
	Behind uint64 `json:"behind"`
}

func (p *Page) complete(behind uint64) {
	p.Behind = behind
	if p.Entries == nil {
		p.Entries = []entry.Entry{} // an empty list in JSON
	}
}

// Chain is one call with all that the journal has of it.
type Chain struct {
	Call   entry.Entry `json:"call"`
	Events []Event     `json:"events"` // in the order in which they happened; those that the journal dropped are missing
	// Others are how many other calls the history has with the same id: callers may
	// choose ids of their own. The call is the latest.
	Others int `json:"others,omitempty"`
}

// Event is one envelope of the journal.
type Event struct {
	Position uint64          `json:"position"` // of its record
	Envelope json.RawMessage `json:"envelope"`
}

// List returns a part of the entries that f chooses.
func (x *Index) List(ctx context.Context, f store.Filter, p store.Page) (page Page, err error) {
	err = x.ask(ctx, func(s *store.Store) (err error) {
		page.Entries, err = s.List(ctx, f, p)
		return err
	})
	page.complete(x.Behind())
	return page, err
}

// Stats counts the calls that f chooses, grouped by one of store.Groups.
func (x *Index) Stats(ctx context.Context, by string, f store.Filter) (out []store.Stat, err error) {
	err = x.ask(ctx, func(s *store.Store) (err error) {
		out, err = s.Stats(ctx, by, f)
		return err
	})
	return out, err
}

// Call returns the latest call with an id.
func (x *Index) Call(ctx context.Context, id string) (c *Chain, err error) {
	err = x.ask(ctx, func(s *store.Store) (err error) {
		c, err = chain(ctx, s, id, x.o.Journal.Reader)
		return err
	})
	return c, err
}

// chain reads a call's records.
func chain(ctx context.Context, s *store.Store, id string, reader func(from uint64) *segment.Reader) (*Chain, error) {
	calls, err := s.Calls(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(calls) == 0 {
		return nil, fault.New(CallNotFound, "the history has no call %.100q", id)
	}
	c := &Chain{Call: calls[0], Events: []Event{}, Others: len(calls) - 1}
	for _, pos := range c.Call.Records {
		rec, err := next(reader(pos))
		if errors.Is(err, io.EOF) || err == nil && rec.Pos != pos {
			continue // it was dropped in between
		}
		if err != nil {
			return nil, fmt.Errorf("reading the journal: %w", err)
		}
		for line := range rec.Before() {
			c.add(pos, line)
		}
		c.add(pos, rec.Event())
	}
	return c, nil
}

// add adds an envelope, unless it is not of the call.
func (c *Chain) add(pos uint64, line []byte) {
	for _, path := range [][]string{{"payload", "data", "call_id"}, {"header", "correlation_id"}} {
		if jsontext.String(jsontext.Get(line, path...)) == c.Call.CallID {
			c.Events = append(c.Events, Event{Position: pos, Envelope: line})
			return
		}
	}
}

func next(r *segment.Reader) (segment.Record, error) {
	defer r.Close()
	return r.Next()
}

// Archive is the index of a platform that does not run. It changes nothing.
type Archive struct {
	Bus string // whose journal it is of

	store   *store.Store
	journal string
	at      uint64
}

// OpenArchive opens the index at path. Folder says where the journal of a bus is.
func OpenArchive(ctx context.Context, path string, folder func(bus string) string) (*Archive, error) {
	s, err := store.OpenReader(path)
	if err != nil {
		return nil, err
	}
	bus, at, _, err := s.State(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Archive{Bus: bus, store: s, journal: folder(bus), at: at}, nil
}

// Close frees the index.
func (a *Archive) Close() error { return a.store.Close() }

// List is as that of an Index.
func (a *Archive) List(ctx context.Context, f store.Filter, p store.Page) (page Page, err error) {
	page.Entries, err = a.store.List(ctx, f, p)
	page.complete(a.behind())
	return page, err
}

// behind counts the records that a platform wrote and had no time to index.
func (a *Archive) behind() (n uint64) {
	r := segment.NewReader(a.journal, a.at+1, nil, nil)
	defer r.Close()
	for {
		if _, err := r.Next(); err != nil {
			return n
		}
		n++
	}
}

// Stats is as that of an Index.
func (a *Archive) Stats(ctx context.Context, by string, f store.Filter) ([]store.Stat, error) {
	return a.store.Stats(ctx, by, f)
}

// Call is as that of an Index.
func (a *Archive) Call(ctx context.Context, id string) (*Chain, error) {
	return chain(ctx, a.store, id, func(from uint64) *segment.Reader { return segment.NewReader(a.journal, from, nil, nil) })
}
