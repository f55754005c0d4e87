package natsbus

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/journal"
)

// draft is an item on its way through Publish.
type draft struct {
	envelope *amp.Envelope
	route    bus.Route
	id       string // canonical; empty until one is given
	payload  []byte
	source   string
	owner    uint16
	pos      uint64 // of the item, or of the one it duplicates
	receipt  bus.Receipt
}

const maxSource = 1024 // bytes of a source's app and instance together

func newDraft(item bus.Item, maxMessage int) (draft, error) {
	e := item.Envelope
	fail := func(err error) (draft, error) {
		return draft{}, fmt.Errorf("publishing %.60q: %w", e.Payload.Type, err)
	}
	check := *e
	if check.Header.MessageID == "" {
		check.Header.MessageID = "given later"
	}
	if err := check.Validate(); err != nil {
		return fail(err)
	}
	source := e.Header.Source.App + "\x00" + e.Header.Source.Instance
	if len(source) > maxSource {
		return fail(fmt.Errorf("source has %d bytes, more than %d", len(source), maxSource))
	}
	payload, err := e.Payload.Encode()
	if err != nil {
		return draft{}, err
	}
	// JSON makes six bytes of one at most; the other words of a header are short.
	if h := &e.Header; len(payload)+6*(len(source)+len(h.Method)+len(h.CorrelationID)+len(h.TraceParent))+1024 > maxMessage {
		return fail(journal.ErrTooLarge)
	}
	d := draft{envelope: e, route: item.Route, payload: payload, source: source, owner: owner(e.Header.Source.App)}
	if e.Header.MessageID != "" {
		d.id = amp.CanonicalID(e.Header.MessageID)
	}
	return d, nil
}

// owner is a short hash of who an id belongs to.
func owner(app string) uint16 {
	h := fnv.New32a()
	h.Write([]byte(app))
	return uint16(h.Sum32() ^ h.Sum32()>>16)
}

// enqueue gives d its id and seq and adds it to the journal's queue, unless it
// is a duplicate: then it shares the fate of the record it duplicates.
func (d *draft) enqueue(q journal.Queue, ids *amp.IDs) error {
	h := d.envelope.Header
	h.MessageID = d.id
	if d.id == "" {
		h.MessageID = ids.New()
	}
	key := journal.KeyOf(h.MessageID)
	pos, owner, seen := q.Lookup(key)
	if seen && owner != d.owner {
		h.MessageID = amp.Remint(h.Source.App, h.MessageID)
		key = journal.KeyOf(h.MessageID)
		pos, _, seen = q.Lookup(key)
	}
	d.envelope.Header.MessageID = h.MessageID
	d.receipt.ID = h.MessageID
	if seen {
		d.pos, d.receipt.Status = pos, bus.Duplicate
		return nil
	}
	h.Seq = q.Seq(d.source) + 1
	p := &d.envelope.Payload
	r := journal.Record{Kind: journal.Deliver, Key: key, Owner: d.owner, Source: d.source, Seq: h.Seq,
		Name: token(p.Type) + " " + h.MessageID}
	if p.ExpireAt != nil {
		r.Expire = p.ExpireAt.Time
	}
	switch {
	case p.ExpireAt != nil && !p.ExpireAt.After(time.Now()):
		r.Kind, d.receipt.Status = journal.Expired, bus.Expired
	case d.route == bus.Journal:
		r.Kind = journal.RecordOnly
	}
	var err error
	if r.Body, err = amp.Join(&h, d.payload); err != nil {
		return err
	}
	if d.pos, err = q.Add(r); err != nil {
		return err
	}
	d.envelope.Header.Seq, d.receipt.Seq = h.Seq, h.Seq
	return nil
}

// rejectedToken is what follows the prefix in the subject of rejected events.
const rejectedToken = "rejected"

// token is what follows the prefix in the subject of a type, whose words are
// made of letters, digits, - and _ ([amp.ValidType]).
func token(typ string) string {
	if typ == rejectedToken {
		return "_" + typ
	}
	return typ
}

// address splits the name of a record into the end of its subject and its message id.
func address(r *journal.Record) (subject, id string) {
	subject, id, _ = strings.Cut(r.Name, " ")
	return subject, id
}
