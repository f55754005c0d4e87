package natsbus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/natsbus/internal/stream"
)

// forwarder ships the journal to the stream. One goroutine runs it.
//
// One batch is under way at a time, and the stream takes a batch whole or not at
// all, so what the stream holds of the journal is always all of it up to some
// position. Whenever that position is in doubt, after a start, a lost connection
// or any error, the stream is asked for it before anything more is sent.
type forwarder struct {
	b         *Bus
	forwarded atomic.Uint64 // cp.Forwarded, for others
	cp        checkpoint
	file      checkpointFile
	synced    time.Time // of the checkpoint
	reader    *segment.Reader
	stream    *stream.Stream
	batch     []segment.Record
	keys      map[segment.Key]bool // of the batch
	limit     int                  // messages in a batch
	late      int64                // records read with the batch that expired before they were sent
}

func newForwarder(b *Bus) (*forwarder, error) {
	f := &forwarder{b: b, keys: map[segment.Key]bool{}, limit: b.opt.Batch}
	file, cp, found, err := openCheckpoint(b.opt.Journal.Dir)
	if err != nil {
		return nil, err
	}
	f.file, f.cp = file, cp
	end, _ := b.journal.End()
	switch {
	case !found && end > 0:
		b.problem("the checkpoint of the journal is missing: the stream is searched for what it has")
		f.cp.Unsure = true
	case cp.Forwarded > end:
		b.problem(fmt.Sprintf("the journal ends at %d, but the stream has it up to %d: parts of it are gone", end, cp.Forwarded))
		f.cp = checkpoint{Forwarded: end}
	}
	f.forwarded.Store(f.cp.Forwarded)
	b.journal.Delivered(f.cp.Forwarded)
	return f, nil
}

// run forwards until ctx ends.
func (f *forwarder) run(ctx context.Context) {
	for {
		session, cancel, err := f.b.link.Wait(ctx)
		if err != nil {
			return
		}
		err = f.serve(session)
		cancel()
		if ctx.Err() != nil {
			return
		}
		f.b.setState(err)
		select {
		case <-time.After(f.b.opt.Retry):
		case <-ctx.Done():
			return
		}
	}
}

// serve forwards until something fails or the session ends.
func (f *forwarder) serve(session context.Context) error {
	var err error
	if f.stream, err = f.b.link.Stream(session); err != nil {
		return because(err, session)
	}
	if err := f.agree(session); err != nil {
		return because(err, session)
	}
	f.reader = f.b.journal.Reader(f.cp.Forwarded + 1)
	defer f.reader.Close()
	f.b.setState(nil)
	for {
		if err := f.b.journal.Wait(session, f.cp.Forwarded+1); err != nil {
			return err
		}
		if err := f.step(session); err != nil {
			return because(err, session)
		}
	}
}

// because adds to err why the session ended, if it did.
func because(err error, session context.Context) error {
	if cause := context.Cause(session); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// step sends the next batch.
func (f *forwarder) step(session context.Context) error {
	last, err := f.collect()
	if err != nil {
		return err
	}
	if len(f.batch) > 0 {
		if !f.cp.Unsure {
			f.cp.Unsure = true
			if err := f.save(true); err != nil {
				return err
			}
		}
		if err := f.b.opt.Fault("nats send"); err != nil {
			return err
		}
		seq, pos, err := f.send(session)
		if err != nil {
			return err
		}
		if err := f.b.opt.Fault("nats acknowledged"); err != nil {
			return err
		}
		f.acknowledged(seq, pos)
	}
	if err := f.settle(last); err != nil {
		return err
	}
	f.b.late.Add(f.late)
	return nil
}

// collect fills the batch with what is next in the journal, and returns the
// position up to which that is.
func (f *forwarder) collect() (last uint64, err error) {
	f.batch = f.batch[:0]
	clear(f.keys)
	f.late = 0
	last = f.cp.Forwarded
	for size := 0; len(f.batch) < f.limit && size < batchBytes; {
		rec, err := f.reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("reading the journal: %w", err)
		}
		last = rec.Pos
		if f.wanted(&rec) {
			f.batch = append(f.batch, rec)
			size += len(rec.Event())
		}
	}
	for _, d := range f.reader.Damage {
		f.b.problem("journal: " + d.String())
	}
	f.reader.Damage = nil
	if last == f.cp.Forwarded {
		return 0, fmt.Errorf("record %d of the journal cannot be read", last+1) // until one after it can
	}
	return last, nil
}

// wanted reports whether a record needs a message. Two records of one batch have
// the same key only where the memory of ids was lost.
func (f *forwarder) wanted(rec *segment.Record) bool {
	if rec.Kind != segment.Deliver {
		return false
	}
	if !rec.Expire.IsZero() && !rec.Expire.After(time.Now()) {
		f.late++
		return false
	}
	if f.keys[rec.Key] {
		return false
	}
	f.keys[rec.Key] = true
	return true
}

// send makes the batch part of the stream and returns the sequence and position
// of the last message; 0 where the stream had it from elsewhere.
//
// A batch in which the stream knows an id already, from another platform or a
// journal that was lost, is sent one by one, and such messages are left out. A
// batch that the server refuses, as it is too large for the server or for what
// room is left in the stream, is tried by half.
func (f *forwarder) send(session context.Context) (seq, pos uint64, err error) {
	last := f.batch[len(f.batch)-1].Pos
	seq, err = f.stream.PublishAll(session, f.batch)
	switch {
	case err == nil:
		f.b.delivered.Add(int64(len(f.batch)))
		f.limit = min(2*f.limit, f.b.opt.Batch)
		return seq, last, nil
	case errors.As(err, new(*jetstream.APIError)):
		f.limit = max(1, len(f.batch)/2)
		return 0, 0, err
	case !errors.Is(err, stream.ErrKnownID):
		return 0, 0, err
	}
	for i := range f.batch {
		at := f.batch[i].Pos
		duplicate := false
		if seq, duplicate, err = f.stream.Publish(session, &f.batch[i]); err != nil {
			return 0, 0, err
		}
		if duplicate {
			seq = 0
		} else {
			f.b.delivered.Add(1)
		}
		if at == last {
			break // its caller does the rest
		}
		f.acknowledged(seq, at)
		if err := f.settle(at); err != nil {
			return 0, 0, err
		}
	}
	return seq, last, nil
}

// acknowledged notes the last message that the stream acknowledged.
func (f *forwarder) acknowledged(seq, pos uint64) {
	if seq > 0 {
		f.cp.Seq, f.cp.SeqPos = seq, pos
	}
}

// settle notes that all records up to pos are dealt with.
func (f *forwarder) settle(pos uint64) error {
	f.cp.Forwarded = pos
	if err := f.save(time.Since(f.synced) > time.Second); err != nil {
		return err
	}
	f.forwarded.Store(pos)
	f.b.advanced(pos)
	return nil
}

func (f *forwarder) save(sync bool) error {
	if err := f.b.opt.Fault("nats checkpoint"); err != nil {
		return err
	}
	if sync {
		f.synced = time.Now()
	}
	return f.file.save(f.cp, sync)
}

// agree finds out how much of the journal the stream has.
//
// The last message of the prefix is of this journal, or, where others use the
// prefix too, the last of this journal after the last acknowledged one is looked
// for. It is ahead of the checkpoint when an acknowledgement was lost or the
// checkpoint is old. It is behind when the servers lost what they had
// acknowledged: then that is sent again.
func (f *forwarder) agree(session context.Context) error {
	s := f.stream
	lostEnd := false
	from := f.cp.Seq + 1
	switch {
	case f.cp.Created != s.Created: // another stream, or the first
		from = s.First
	case f.cp.Seq > s.Last:
		lostEnd = true
	case f.cp.Seq > 0:
		m, err := s.Get(session, stream.Query{Seq: f.cp.Seq})
		if err != nil {
			return err
		}
		lostEnd = m != nil && m.Position() != f.cp.SeqPos
	}
	if lostEnd {
		from = s.First
	}
	seq, sentTo, err := f.lastOwn(session, from)
	if err != nil {
		return err
	}
	pos := max(sentTo, f.cp.Forwarded)
	if lostEnd && seq > 0 && sentTo < f.cp.Forwarded {
		f.b.problem(fmt.Sprintf("the stream lost messages it had acknowledged: records %d to %d are sent again", sentTo+1, f.cp.Forwarded))
		pos = sentTo
	} else if lostEnd {
		f.b.problem("the stream lost messages it had acknowledged, and holds none of this journal: it goes on with what comes next")
	}
	if lostEnd || f.cp.Created != s.Created {
		f.cp.Seq, f.cp.SeqPos = 0, 0
	}
	f.acknowledged(seq, sentTo)
	f.cp.Created = s.Created
	return f.settle(pos)
}

// lastOwn finds the last message of this journal, at or after from where others
// use the prefix too; seq 0 when there is none.
func (f *forwarder) lastOwn(session context.Context, from uint64) (seq, pos uint64, err error) {
	m, err := f.stream.Get(session, stream.Query{LastBySubject: f.b.opt.Prefix + ".>"})
	if err != nil || m == nil {
		return 0, 0, err
	}
	if f.owns(m) {
		return m.Seq, m.Position(), nil
	}
	if !f.cp.Unsure {
		return 0, 0, nil
	}
	for last := m.Seq; from <= last; from = m.Seq + 1 {
		m, err = f.stream.Get(session, stream.Query{Seq: from, NextBySubject: f.b.opt.Prefix + ".>"})
		if err != nil || m == nil {
			return seq, pos, err
		}
		if f.owns(m) {
			seq, pos = m.Seq, m.Position()
		}
	}
	return seq, pos, nil
}

// owns reports whether m was made of a record of this journal: the record at
// its position has its id.
func (f *forwarder) owns(m *stream.Message) bool {
	pos := m.Position()
	if pos == 0 {
		return false
	}
	r := f.b.journal.Reader(pos)
	defer r.Close()
	rec, err := r.Next()
	return err == nil && rec.Pos == pos && rec.Key == segment.KeyOf(m.ID())
}

// close saves where forwarding stands; done says that nothing is under way.
func (f *forwarder) close(done bool) error {
	if done {
		f.cp.Unsure = false
	}
	return errors.Join(f.save(true), f.file.f.Close())
}
