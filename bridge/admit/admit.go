// Package admit is the way into a journal that all buses share: it checks
// events, gives them their ids and seqs, drops duplicates, and waits until they
// are durable. It also counts callers in and out, wakes those who wait, and keeps
// what they are told of a bus that does not get on.
//
//	d := admit.NewDesk(j, 1<<20, amp.FileName)
//	drafts, err := d.Check(items)
//	receipts, err := d.Admit(ctx, drafts) // durable
//
// What becomes of the records is the affair of the bus.
package admit

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// Desk admits events to a journal. It is safe for concurrent use.
type Desk struct {
	journal *journal.Journal
	max     int
	name    func(typ, id string) string
	ids     amp.IDs
	given   given // under the journal's end

	accepted, recorded, duplicate, expired atomic.Int64
}

// NewDesk is a desk for a journal, whose ids rise from those that are in it. An
// envelope may have maxBytes when encoded, and its record the name that name
// makes of its type and id.
func NewDesk(j *journal.Journal, maxBytes int, name func(typ, id string) string) *Desk {
	d := &Desk{journal: j, max: maxBytes, name: name}
	if _, last := j.End(); !last.IsZero() {
		d.ids.After(last)
	}
	return d
}

// Counts are of the events that were admitted.
type Counts struct {
	Accepted  int64 // durable and for the Brain
	Recorded  int64 // durable and only for the journal
	Duplicate int64
	Expired   int64 // recorded, not delivered
}

// Counts counts since the desk was made.
func (d *Desk) Counts() Counts {
	return Counts{d.accepted.Load(), d.recorded.Load(), d.duplicate.Load(), d.expired.Load()}
}

// NewID is an id above all that were given before, for records that are no
// events. It is called under the journal's end, so that ids rise with positions.
func (d *Desk) NewID() string { return d.ids.New() }

// Drafts are items on their way through a desk.
type Drafts struct {
	drafts  []draft
	ToBrain bool // some of them are to be delivered
}

type draft struct {
	envelope *amp.Envelope
	before   []step
	route    bus.Route
	id       string // canonical; empty until one is given
	payload  []byte
	source   string
	app      string // whom the id belongs to
	owner    uint16 // the same, short
	pos      uint64 // of the item, or of the one it duplicates
	receipt  bus.Receipt
}

// Check makes drafts of items, or says what is wrong with the first bad one: too
// large is [journal.ErrTooLarge].
func (d *Desk) Check(items []bus.Item) (Drafts, error) {
	all := Drafts{drafts: make([]draft, len(items))}
	for i, item := range items {
		draft, err := d.check(item)
		if err != nil {
			return Drafts{}, fmt.Errorf("publishing %.60q: %w", item.Envelope.Payload.Type, err)
		}
		all.drafts[i] = draft
		all.ToBrain = all.ToBrain || item.Route == bus.Inbox
	}
	return all, nil
}

// step is an envelope that is recorded with another one.
type step struct {
	envelope *amp.Envelope
	payload  []byte
}

const maxSource = 1024 // bytes of a source's app and instance together

func (d *Desk) check(item bus.Item) (draft, error) {
	e := item.Envelope
	h := &e.Header
	if s := source(h); len(s) > maxSource {
		return draft{}, fmt.Errorf("source has %d bytes, more than %d", len(s), maxSource)
	}
	payload, err := d.encode(e)
	if err != nil {
		return draft{}, err
	}
	made := draft{envelope: e, route: item.Route, payload: payload, source: source(h), app: cmp.Or(item.Owner, h.Source.App)}
	for _, before := range item.Before {
		payload, err := d.encode(before)
		switch {
		case err != nil:
			return draft{}, err
		case source(&before.Header) != made.source:
			return draft{}, fmt.Errorf("an envelope of %q cannot be recorded with one of %q", before.Header.Source.App, h.Source.App)
		}
		made.before = append(made.before, step{before, payload})
	}
	made.owner = owner(made.app)
	if h.MessageID != "" {
		made.id = amp.CanonicalID(h.MessageID)
	}
	return made, nil
}

// source is whom seqs count for.
func source(h *amp.Header) string { return h.Source.App + "\x00" + h.Source.Instance }

// encode checks an envelope and encodes its payload.
func (d *Desk) encode(e *amp.Envelope) (payload []byte, err error) {
	known := *e
	known.Payload.Data = nil // encoding it finds out whether it is JSON
	if known.Header.MessageID == "" {
		known.Header.MessageID = "given later"
	}
	if err := known.Validate(); err != nil {
		return nil, err
	}
	if payload, err = e.Payload.Encode(); err != nil {
		return nil, err
	}
	// JSON makes six bytes of one at most; the other words of a header are short.
	h := &e.Header
	if len(payload)+6*(len(source(h))+len(h.Method)+len(h.CorrelationID)+len(h.TraceParent))+1024 > d.max {
		return nil, journal.ErrTooLarge
	}
	return payload, nil
}

// owner is a short hash of who an id belongs to.
func owner(app string) uint16 {
	h := fnv.New32a()
	h.Write([]byte(app))
	return uint16(h.Sum32() ^ h.Sum32()>>16)
}

// Admit makes drafts durable; see [bus.Bus]. An id that another app's event has
// already is replaced by the UUIDv5 of the app and that id ([amp.Remint]), so
// that no app can suppress another's event; see [bus.Item].Owner. An id is put in its canonical form
// ([amp.CanonicalID]). The receipt of a duplicate has no seq.
func (d *Desk) Admit(ctx context.Context, all Drafts) ([]bus.Receipt, error) {
	var last uint64
	err := d.journal.Append(ctx, func(q journal.Queue) error {
		for i := range all.drafts {
			if err := d.enqueue(q, &all.drafts[i]); err != nil {
				return err
			}
			last = max(last, all.drafts[i].pos)
		}
		return nil
	})
	if err == nil {
		err = d.journal.Wait(ctx, last)
	}
	if err != nil {
		return nil, err
	}
	receipts := make([]bus.Receipt, len(all.drafts))
	for i := range all.drafts {
		receipts[i] = all.drafts[i].receipt
		d.count(&all.drafts[i])
	}
	return receipts, nil
}

// enqueue gives m its id and seq and adds it to the journal's queue, unless it
// is a duplicate: then it shares the fate of the record it duplicates.
func (d *Desk) enqueue(q journal.Queue, m *draft) error {
	id := m.id
	if id != "" {
		var seen bool
		if id, m.pos, seen = d.find(q, m); seen {
			m.envelope.Header.MessageID = id
			m.receipt.ID, m.receipt.Status = id, bus.Duplicate
			return nil
		}
	}
	seq := q.Seq(m.source)
	size := amp.JoinedSize(&m.envelope.Header, m.payload)
	for _, s := range m.before {
		size += amp.JoinedSize(&s.envelope.Header, s.payload)
	}
	body := make([]byte, 0, size) // an envelope in each line
	write := func(e *amp.Envelope, id string, payload []byte) (err error) {
		seq++
		e.Header.MessageID, e.Header.Seq = id, seq
		if len(body) > 0 {
			body = append(body, '\n')
		}
		body, err = amp.AppendJoined(body, &e.Header, payload)
		return err
	}
	for _, s := range m.before {
		if err := write(s.envelope, d.ids.New(), s.payload); err != nil {
			return err
		}
	}
	if id == "" {
		id = d.ids.New()
	}
	if err := write(m.envelope, id, m.payload); err != nil {
		return err
	}
	m.receipt.ID, m.receipt.Seq = id, seq
	p, key := &m.envelope.Payload, segment.KeyOf(id)
	r := segment.Record{Kind: segment.Deliver, Key: key, Owner: m.owner, Source: m.source, Seq: seq, Name: d.name(p.Type, id), Body: body}
	if p.ExpireAt != nil {
		r.Expire = p.ExpireAt.Time
	}
	switch {
	case p.ExpireAt != nil && !p.ExpireAt.After(time.Now()):
		r.Kind, m.receipt.Status = segment.Expired, bus.Expired
	case m.route == bus.Journal:
		r.Kind = segment.RecordOnly
		if m.id == "" {
			r.Key = segment.Key{} // nobody else knows the id, so nobody can repeat it later
		}
	}
	var err error
	if m.pos, err = q.Add(r); err != nil {
		return err
	}
	if r.Key != key {
		d.given.add(key, m.pos, m.owner)
	}
	return nil
}

// find finds the record that has m's id already, and the id that m has then: where
// the record is another app's, m gets one of its own.
func (d *Desk) find(q journal.Queue, m *draft) (id string, pos uint64, seen bool) {
	id = m.id
	key := segment.KeyOf(id)
	pos, owner, seen := q.Lookup(key)
	if !seen {
		pos, owner, seen = d.given.lookup(key)
	}
	if seen && owner != m.owner {
		id = amp.Remint(m.app, id)
		pos, _, seen = q.Lookup(segment.KeyOf(id))
	}
	return id, pos, seen
}

// given is a short memory of the ids that were given to records for the audit.
// The journal's long one is for ids that others chose or that the Brain has
// seen; these only a publisher can repeat whose Publish was cut off.
type given struct {
	entries map[segment.Key]givenTo
	ring    []segment.Key
	next    int
}

type givenTo struct {
	pos   uint64
	owner uint16
}

// maxGiven bounds the memory: more than all publishers together have under way.
const maxGiven = 1 << 14

func (g *given) lookup(k segment.Key) (pos uint64, owner uint16, seen bool) {
	to, seen := g.entries[k]
	return to.pos, to.owner, seen
}

func (g *given) add(k segment.Key, pos uint64, owner uint16) {
	if g.entries == nil {
		g.entries = make(map[segment.Key]givenTo)
	}
	if len(g.ring) < maxGiven {
		g.ring = append(g.ring, k)
	} else {
		delete(g.entries, g.ring[g.next])
		g.ring[g.next] = k
		g.next = (g.next + 1) % maxGiven
	}
	g.entries[k] = givenTo{pos, owner}
}

func (d *Desk) count(m *draft) {
	if m.receipt.Status != bus.Duplicate {
		d.recorded.Add(int64(len(m.before)))
	}
	switch {
	case m.receipt.Status == bus.Duplicate:
		d.duplicate.Add(1)
	case m.receipt.Status == bus.Expired:
		d.expired.Add(1)
	case m.route == bus.Journal:
		d.recorded.Add(1)
	default:
		d.accepted.Add(1)
	}
}
