package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
	"github.com/aurorabot-dev/platform/bridge/natsbus/internal/stream"
)

const patience = 60 * time.Second // for what takes a moment on a machine with time

// broker is a NATS server in this process that can be stopped and started again
// on its port and store.
type broker struct {
	t   testing.TB
	opt server.Options
	s   *server.Server
}

func newBroker(t testing.TB) *broker {
	t.Helper()
	b := &broker{t: t, opt: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoLog: true, NoSigs: true}}
	t.Cleanup(func() { b.stop() })
	return b
}

func startBroker(t testing.TB) *broker {
	t.Helper()
	b := newBroker(t)
	b.start()
	return b
}

func (b *broker) start() {
	b.t.Helper()
	opt := b.opt // the server changes it
	s, err := server.NewServer(&opt)
	if err != nil {
		b.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		b.t.Fatal("the server does not start")
	}
	b.s, b.opt.Port = s, opt.Port
}

func (b *broker) stop() {
	if b.s != nil {
		b.s.Shutdown()
		b.s.WaitForShutdown()
		b.s = nil
	}
}

func (b *broker) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", b.opt.Port) }

// admin is a connection of the test's own.
func (b *broker) admin() jetstream.JetStream {
	b.t.Helper()
	conn, err := nats.Connect(b.url())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

// roomy takes the state of the machine's own disk out of the tests.
var roomy = space.Reserve{Bytes: 1, Percent: 1e-9, Inodes: 1e-9}

func (b *broker) options(t testing.TB) Options {
	return Options{URLs: []string{b.url()}, Retry: 10 * time.Millisecond, CloseTimeout: patience,
		Journal: journalOptions(t.TempDir())}
}

func journalOptions(dir string) journal.Options {
	return journal.Options{Dir: filepath.Join(dir, "journal"), SegmentBytes: 1 << 20, Space: roomy}
}

func open(t testing.TB, opt Options) *Bus {
	t.Helper()
	b, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func mustClose(t testing.TB, b *Bus) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func event(app, id string, n int) bus.Item {
	e := bustest.Event(app, "test.event", n)
	e.Header.MessageID = id
	return bus.Item{Envelope: e}
}

func publish(t testing.TB, b *Bus, items ...bus.Item) []bus.Receipt {
	t.Helper()
	receipts, err := b.Publish(t.Context(), items...)
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// stored is all the stream holds under a prefix, in its order.
func stored(t testing.TB, js jetstream.JetStream, name, prefix string) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	s, err := js.Stream(context.Background(), name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for seq := max(1, s.CachedInfo().State.FirstSeq); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(context.Background(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(m.Subject, prefix+".") {
			all = append(all, m)
		}
	}
	return all
}

// envelopes are the events among messages, which must be addressed as they say.
func envelopes(t testing.TB, messages []*jetstream.RawStreamMsg, prefix string) (all []*amp.Envelope) {
	t.Helper()
	for _, m := range messages {
		if m.Subject == prefix+".rejected" {
			continue
		}
		e, err := amp.Parse(m.Data)
		if err != nil {
			t.Fatalf("message %d: %v", m.Sequence, err)
		}
		if m.Subject != prefix+"."+stream.Token(e.Payload.Type) || m.Header.Get(jetstream.MsgIDHeader) != e.Header.MessageID {
			t.Fatalf("%s of %s is at %s as %s", e.Header.MessageID, e.Payload.Type, m.Subject, m.Header.Get(jetstream.MsgIDHeader))
		}
		all = append(all, e)
	}
	return all
}

func ids(all []*amp.Envelope) (list []string) {
	for _, e := range all {
		list = append(list, e.Header.MessageID)
	}
	return list
}

func recorded(t testing.TB, dir string) (all []*amp.Envelope) {
	t.Helper()
	r, err := segment.OpenReader(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if subject, _ := stream.Address(&rec); subject == stream.Rejected {
			continue
		}
		e, err := amp.Parse(rec.Body)
		if err != nil {
			t.Fatalf("record %d: %v", rec.Pos, err)
		}
		all = append(all, e)
	}
}

func TestTheNATSBusIsABus(t *testing.T) {
	server := startBroker(t)
	js := server.admin()
	n := 0
	for name, batch := range map[string]int{"in batches": 256, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			bustest.Run(t, func(t *testing.T) bustest.Harness {
				n++
				opt := server.options(t)
				opt.Prefix, opt.Stream = fmt.Sprintf("aurora.host%d", n), fmt.Sprint("EVENTS-", n)
				opt.Batch = batch
				return bustest.Harness{
					Open: func(t testing.TB) bus.Bus { return open(t, opt) },
					Delivered: func(t testing.TB) []*amp.Envelope {
						return envelopes(t, stored(t, js, opt.Stream, opt.Prefix), opt.Prefix)
					},
					Recorded: func(t testing.TB) []*amp.Envelope { return recorded(t, opt.Journal.Dir) },
					Rejected: func(t testing.TB, name string) (r bus.Rejected) {
						find := func() bool {
							for _, m := range stored(t, js, opt.Stream, opt.Prefix) {
								if m.Header.Get(jetstream.MsgIDHeader) == name && m.Subject == opt.Prefix+".rejected" {
									if err := json.Unmarshal(m.Data, &r); err != nil {
										t.Fatal(err)
									}
									return true
								}
							}
							return false
						}
						eventually(t, "the rejected event is in the stream", find)
						return r
					},
				}
			})
		})
	}
}

func TestWrongOptionsAreRefusedWithAllThatIsWrong(t *testing.T) {
	_, err := Open(t.Context(), Options{Prefix: "a..>", Stream: "a.b", Batch: 2000, Replicas: -1, MaxMessage: 7, CertFile: "/nowhere",
		Retry: -1, Journal: journal.Options{Dir: t.TempDir()}})
	for _, want := range []string{"prefix", "stream", "batch", "replicas", "max message", "/nowhere", "retry", "certificate and key"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in %v", want, err)
		}
	}
	if _, err := Open(t.Context(), Options{URLs: []string{"nats://%zz"}, Journal: journal.Options{Dir: t.TempDir(), Space: roomy}}); err == nil {
		t.Error("a URL that is none was taken")
	}
}

func TestAnExistingStreamKeepsWhatTheOptionsDoNotSay(t *testing.T) {
	server := startBroker(t)
	js := server.admin()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "AURORA", Subjects: []string{"other.>", "aurora.a.>"},
		MaxAge: time.Hour, MaxMsgs: 77, Duplicates: 20 * time.Minute, Description: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	opt := server.options(t)
	opt.Prefix, opt.MaxBytes = "aurora.b", 1<<20
	b := open(t, opt)
	publish(t, b, event("a", "one", 1))
	mustClose(t, b)
	s, err := js.Stream(t.Context(), "AURORA")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	if c.MaxAge != time.Hour || c.MaxMsgs != 77 || c.Duplicates != 20*time.Minute || c.Description != "mine" || c.MaxBytes != 1<<20 ||
		!c.AllowAtomicPublish || fmt.Sprint(c.Subjects) != "[other.> aurora.a.> aurora.b.>]" {
		t.Errorf("stream is now %+v", c)
	}
	if n := len(stored(t, js, "AURORA", "aurora.b")); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestAnEventOfTheTypeRejectedIsNotTakenForOne(t *testing.T) {
	server := startBroker(t)
	opt := server.options(t)
	b := open(t, opt)
	publish(t, b, bus.Item{Envelope: bustest.Event("a", "rejected", 1)})
	mustClose(t, b)
	if all := stored(t, server.admin(), "AURORA", "aurora"); len(all) != 1 || all[0].Subject != "aurora._rejected" {
		t.Errorf("stored %+v", all)
	}
}

func TestAnEnvelopeTooLargeForNATSIsRefusedAtOnce(t *testing.T) {
	server := startBroker(t)
	opt := server.options(t)
	b := open(t, opt)
	big := bustest.Event("a", "t", strings.Repeat("x", opt.MaxMessage+1<<20))
	if _, err := b.Publish(t.Context(), bus.Item{Envelope: big}); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("a megabyte: %v", err)
	}
	large := bustest.Event("a", "t", strings.Repeat("x", 1<<20-12<<10))
	publish(t, b, bus.Item{Envelope: large})
	name, err := b.Reject(t.Context(), bus.Rejected{Raw: json.RawMessage(strings.Repeat("\x01", 2<<20))})
	if err != nil || name == "" {
		t.Errorf("rejecting two megabytes: %v", err)
	}
	mustClose(t, b)
	if n := len(stored(t, server.admin(), "AURORA", "aurora")); n != 2 {
		t.Errorf("%d messages", n)
	}
}
