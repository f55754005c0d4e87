package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// PositionHeader is the header of each message that holds its position in the
// journal of the platform that sent it. It rises along each platform's messages.
const PositionHeader = "Aurora-Position"

// Headers of an atomic batch, see NATS ADR-50.
const (
	batchID     = "Nats-Batch-Id"
	batchSeq    = "Nats-Batch-Sequence"
	batchCommit = "Nats-Batch-Commit"
)

// Error codes of the JetStream API.
const (
	codeBatchKnownID = 10201
	codeNoMessage    = 10037
)

// ErrKnownID says that the stream has a message id of a batch already, and so nothing
// of the batch.
var ErrKnownID = errors.New("the stream has a message id of the batch already")

// Stream is the JetStream stream in one session.
type Stream struct {
	Created     int64  // when the stream was made, in Unix ns
	First, Last uint64 // sequences when it was opened

	link *Link
	opt  *Options
	api  string // what subjects of the JetStream API begin with
}

// Stream makes the stream what the options say, where it is not so.
func (l *Link) Stream(ctx context.Context) (*Stream, error) {
	opt := &l.opt
	s, err := l.js.Stream(ctx, opt.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		c := jetstream.StreamConfig{Name: opt.Name, Storage: opt.Storage, Replicas: 1, MaxAge: 30 * 24 * time.Hour,
			Discard: jetstream.DiscardNew, Description: "events of Aurora platforms"}
		opt.apply(&c)
		s, err = l.js.CreateStream(ctx, c)
	} else if err == nil {
		c := s.CachedInfo().Config
		if opt.apply(&c) {
			s, err = l.js.UpdateStream(ctx, c)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", opt.Name, err)
	}
	info := s.CachedInfo()
	if r := info.Config.Retention; r != jetstream.LimitsPolicy {
		return nil, fmt.Errorf("stream %s: retention is %s, want limits: messages must stay to be found", opt.Name, r)
	}
	if !info.Config.AllowAtomicPublish {
		return nil, fmt.Errorf("stream %s: server %s cannot take batches whole, want nats-server 2.12 or later", opt.Name, l.conn.ConnectedServerVersion())
	}
	api := "$JS.API."
	if opt.Domain != "" {
		api = "$JS." + opt.Domain + ".API."
	}
	return &Stream{link: l, opt: opt, api: api, Created: info.Created.UnixNano(), First: info.State.FirstSeq, Last: info.State.LastSeq}, nil
}

// apply changes c to what the options say and reports whether that was needed.
func (o *Options) apply(c *jetstream.StreamConfig) (changed bool) {
	changed = !c.AllowAtomicPublish || !c.AllowMsgTTL
	c.AllowAtomicPublish, c.AllowMsgTTL = true, true
	if all := o.Prefix + ".>"; !covered(all, c.Subjects) {
		c.Subjects, changed = append(c.Subjects, all), true
	}
	changed = override(&c.Replicas, o.Replicas) || changed
	changed = override(&c.MaxAge, o.MaxAge) || changed
	changed = override(&c.MaxBytes, o.MaxBytes) || changed
	window := o.DuplicateWindow
	if c.MaxAge > 0 {
		window = min(window, c.MaxAge) // the server wants it so
	}
	if c.Duplicates < window {
		c.Duplicates, changed = window, true
	}
	return changed
}

func override[T comparable](v *T, want T) bool {
	var zero T
	if want == zero || *v == want {
		return false
	}
	*v = want
	return true
}

// covered reports whether one of subjects takes all that subject does.
func covered(subject string, subjects []string) bool {
	words := strings.Split(subject, ".")
next:
	for _, s := range subjects {
		have := strings.Split(s, ".")
		for i, w := range have {
			if w == ">" && i < len(words) {
				return true
			}
			if i >= len(words) || w != words[i] && (w != "*" || words[i] == ">") {
				continue next
			}
		}
		if len(have) == len(words) {
			return true
		}
	}
	return false
}

func (s *Stream) message(r *segment.Record) *nats.Msg {
	subject, id := Address(r)
	m := nats.NewMsg(s.opt.Prefix + "." + subject)
	m.Header.Set(jetstream.MsgIDHeader, id)
	m.Header.Set(jetstream.ExpectedStreamHeader, s.opt.Name)
	m.Header.Set(PositionHeader, strconv.FormatUint(r.Pos, 10))
	if !r.Expire.IsZero() {
		left := (time.Until(r.Expire) + time.Second - 1).Truncate(time.Second)
		m.Header.Set(jetstream.MsgTTLHeader, max(left, time.Second).String())
	}
	m.Data = r.Event()
	return m
}

const headerBytes = 1024 // of a message, at most: ids, numbers and the stream's name

// fits says what a server that takes less than MaxMessage would not, before it
// has half a batch.
func (s *Stream) fits(batch []segment.Record) error {
	for i := range batch {
		if size := int64(len(batch[i].Event())); size+headerBytes > s.link.conn.MaxPayload() {
			return fmt.Errorf("record %d has %d bytes, more than the max_payload of the server, %d, allows", batch[i].Pos, size, s.link.conn.MaxPayload())
		}
	}
	return nil
}

// Publish sends one message and returns its sequence in the stream. A duplicate
// is one whose id the stream knows already.
func (s *Stream) Publish(ctx context.Context, r *segment.Record) (seq uint64, duplicate bool, err error) {
	ack, err := s.request(ctx, s.message(r))
	if err != nil {
		return 0, false, err
	}
	return ack.Sequence, ack.Duplicate, nil
}

// PublishAll sends a batch that the stream takes whole or not at all, and
// returns the sequence of its last message. After ErrKnownID it has none of it.
// After other errors it may have it, unless the error is of the API.
func (s *Stream) PublishAll(ctx context.Context, batch []segment.Record) (seq uint64, err error) {
	if err := s.fits(batch); err != nil {
		return 0, err
	}
	if len(batch) == 1 {
		seq, duplicate, err := s.Publish(ctx, &batch[0])
		if err == nil && duplicate {
			err = ErrKnownID
		}
		return seq, err
	}
	id := amp.NewID()
	for i := range batch {
		m := s.message(&batch[i])
		m.Header.Set(batchID, id)
		m.Header.Set(batchSeq, strconv.Itoa(i+1))
		if i+1 < len(batch) {
			if err := s.link.conn.PublishMsg(m); err != nil {
				return 0, fmt.Errorf("publishing: %w", err)
			}
			continue
		}
		m.Header.Set(batchCommit, "1")
		ack, err := s.request(ctx, m)
		if err != nil {
			return 0, err
		}
		seq = ack.Sequence
	}
	return seq, nil
}

// request publishes m and waits for the stream's answer.
func (s *Stream) request(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.AckTimeout)
	defer cancel()
	answer, err := s.link.conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("publishing to stream %s: %w", s.opt.Name, err)
	}
	var ack struct {
		jetstream.PubAck
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return nil, fmt.Errorf("publishing to stream %s: answer %.60q: %w", s.opt.Name, answer.Data, err)
	}
	switch {
	case ack.Error == nil && ack.Sequence > 0:
		return &ack.PubAck, nil
	case ack.Error == nil:
		err = fmt.Errorf("answer %.60q", answer.Data)
	case ack.Error.ErrorCode == codeBatchKnownID:
		err = ErrKnownID
	default:
		err = ack.Error
	}
	return nil, fmt.Errorf("publishing to stream %s: %w", s.opt.Name, err)
}

// Query chooses one message: by its sequence, the last of a subject, or the next of a
// subject at or after a sequence.
type Query struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
	NextBySubject string `json:"next_by_subj,omitempty"` // at or after Seq
}

// Message is a stored message without its body.
type Message struct {
	Seq    uint64
	header nats.Header
}

// ID is the message's Nats-Msg-Id.
func (m *Message) ID() string { return m.header.Get(jetstream.MsgIDHeader) }

// Position is that in the journal of whoever sent m; 0 where it has none.
func (m *Message) Position() uint64 {
	pos, _ := strconv.ParseUint(m.header.Get(PositionHeader), 10, 64)
	return pos
}

// Get asks the stream's leader, and no replica that may lag behind; nil when
// there is no such message.
func (s *Stream) Get(ctx context.Context, r Query) (*Message, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.AckTimeout)
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	answer, err := s.link.conn.RequestWithContext(ctx, s.api+"STREAM.MSG.GET."+s.opt.Name, body)
	if err != nil {
		return nil, fmt.Errorf("asking stream %s: %w", s.opt.Name, err)
	}
	var got struct {
		Message struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return nil, fmt.Errorf("asking stream %s: answer %.60q: %w", s.opt.Name, answer.Data, err)
	}
	if got.Error != nil {
		if got.Error.ErrorCode == codeNoMessage {
			return nil, nil
		}
		return nil, fmt.Errorf("asking stream %s: %w", s.opt.Name, got.Error)
	}
	m := &Message{Seq: got.Message.Seq}
	if len(got.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(got.Message.Header); err != nil {
			return nil, fmt.Errorf("asking stream %s: message %d: %w", s.opt.Name, m.Seq, err)
		}
	}
	return m, nil
}
