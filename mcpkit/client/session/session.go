// Package session is the conversation with one running MCP server, from the
// agreement on a version to the end: it carries calls and other requests, passes on
// what the server says of its own accord, answers what the server asks, and notices
// that the server is silent. It survives servers that talk nonsense. It does not
// decide which tools there are and when lists are read; that is for its [Owner].
//
//	s, err := session.New(ctx, session.Conn{Server: "weather", Stdin: in, Stdout: out}, options, owner)
//	err = s.Open(ctx)
//	res, err := s.Call(ctx, session.CallRequest{Tool: "get_weather", Arguments: args})
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/internal/pipe"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/asking"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/listen"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/signals"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const (
	flushTime = 500 * time.Millisecond // for what is queued when a session is closed
	drainTime = 2 * time.Second        // for the sink to take what is queued before Done
)

// Session is the conversation with one running server. It is made by New, begins
// with Open, and ends with the server, its wire, or Close. It is safe for
// concurrent use.
type Session struct {
	*features.Client // what the server offers: calls of tools, resources, prompts

	owner     Owner
	ctx       context.Context // of what the session does by itself
	server    string
	alias     string
	instance  string
	crashCode string // of requests that the end of the server fails
	cfg       Config
	log       *slog.Logger

	wire    rpc.Wire
	remote  bool // the wire is somebody else's: what is at its end is not started by us
	conn    *rpc.Conn
	hands   *handshake.Handshake
	agreed  handshake.Agreement // zero until the handshake is done
	acks    atomic.Bool         // the server wants aurora/ack
	signals *signals.Signals
	logs    logLimit
	updates logLimit
	stream  *listen.Stream
	asking  *asking.Questions
	junk    atomic.Pointer[string] // the first of what the server wrote that is no message
	life    atomic.Int64           // when bytes last arrived, Unix nanoseconds

	closing   atomic.Bool // Close was called
	closeOnce sync.Once
	ended     chan struct{} // no request can succeed any more
	endOnce   sync.Once
	err       error // why; set before ended is closed
	read      chan struct{}
	work      sync.WaitGroup // listener, questions, and what the owner runs
	done      chan struct{}
}

// Owner is whoever keeps a session. Its methods may be called by any goroutine,
// those of the read loop among them, and do not wait, except Opened and Keep.
type Owner interface {
	// Opened is called once the version and the capabilities are agreed on, before
	// anything else is asked of the server. Open waits for it.
	Opened(ctx context.Context)
	// Keep looks after what the owner knows of the server until [Session.Ended] is
	// closed. It has a goroutine of its own.
	Keep(ctx context.Context)
	// Tools is how many tools the server offers, and why they could not be read.
	Tools() (n int, err error)
	// ListChanged is told of a notification that the session does not know. It
	// reports false where that does not tell of a list that the server offers.
	ListChanged(method string) bool
	// ListsStale is told that changes of lists may have been missed.
	ListsStale()
	// Watched are the URIs of the resources to hear of.
	Watched() []string
	// Updated is told that a resource changed. It reports whether anybody wants to
	// hear of it, and whether a Brain is to see it.
	Updated(uri string) (watched, deliver bool)
	// Over is told that the session cannot be used any more: err is why, or nil
	// where it is being closed. It may be told twice.
	Over(err error)
	// Gone is told that nothing of the session runs any more.
	Gone()
}

// Info is what a session knows of its server.
type Info struct {
	Server, Instance string
	ProtocolVersion  string
	ServerName       string // what the server calls itself
	ServerVersion    string
	Instructions     string // the server's words: data, never orders
	Tools            int
	InFlight         int    // tool calls without an answer
	Degraded         string // why its list of tools could not be read; empty if it could
}

// New makes a session over c, whose pipes it takes over. ctx is for what the
// session does by itself. Nothing runs before Open, and after an error nothing is
// taken over.
func New(ctx context.Context, c Conn, o Options, owner Owner) (*Session, error) {
	cfg, err := c.Config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configuration of server %s: %w", c.Server, err)
	}
	s := &Session{
		owner: owner, ctx: ctx, server: c.Server, alias: c.Alias, instance: c.Instance, cfg: cfg,
		crashCode: fault.ServerCrashed,
		log:       o.Logger.With("server", c.Server),
		ended:     make(chan struct{}), read: make(chan struct{}), done: make(chan struct{}),
	}
	if c.Crashes > 0 {
		s.crashCode = fault.ServerUnstable
	}
	s.signals = signals.New(signals.Options{
		Server: c.Server, Instance: c.Instance, Sink: o.Sink, Log: s.log,
		Limit: o.QueueSignals, MaxBytes: o.QueueBytes, Hold: c.Hold,
	})
	s.logs, s.updates = newLogLimit(), newLogLimit()
	s.life.Store(time.Now().UnixNano())
	s.remote = c.Wire != nil
	if s.wire = c.Wire; s.wire == nil {
		s.wire = pipe.New(c.Stdin, c.Stdout, cfg.MaxLine, cfg.WriteTimeout, s.alive)
	}
	s.conn = rpc.New(s.wire, rpc.Options{
		Server: c.Server, Peer: peer{s}, Ended: s.crashCode,
		Timeout: cfg.CallTimeout, MaxTime: cfg.MaxCallTime, MaxLine: cfg.MaxLine,
	})
	s.asking = asking.New(ctx, asking.Options{
		Features: cfg.features(), Roots: cfg.Roots, Turns: !s.remote, Reply: s.conn.Reply, Report: s.Report,
		Go: s.work.Go, // the read loop asks, so nobody has begun to wait for the others
	})
	s.Client = features.New(s.features())
	s.stream = listen.New(listen.Options{
		Server: c.Server, Conn: s.conn, Agreed: &s.agreed, Watched: owner.Watched, Missed: s.changesMissed,
		Ended: s.ended, Crash: s.crashCode,
	})
	s.hands = handshake.New(s.wire, handshake.Options{
		Server: c.Server, Self: mcp.Implementation{Name: o.Name, Version: o.Version},
		Features: cfg.features(), Relay: cfg.Relay, Probes: o.Probes, ProbeTimeout: o.ProbeTimeout, Remote: s.remote,
		Ended: s.ended, Err: func() error { return s.err }, Closing: s.closing.Load,
	})
	return s, nil
}

// toolWire is a Wire whose messages look different by tool: it is told of each
// reading of the list, and says for each tool why it cannot be called, or "".
type toolWire interface {
	Tools(list []json.RawMessage) []string
}

// features is how the session asks for what the server offers.
func (s *Session) features() features.Options {
	o := features.Options{
		Server: s.server, Conn: s.conn, Agreed: &s.agreed, Report: s.Report, Ended: s.ended, Crash: s.crashCode, Log: s.log,
		CallTimeout: s.cfg.CallTimeout, MaxInFlight: s.cfg.MaxInFlight, MaxTools: s.cfg.MaxTools,
		MaxPages: s.cfg.MaxPages, MaxLine: s.cfg.MaxLine, ListTimeout: s.cfg.ListTimeout,
	}
	if s.cfg.Elicit || s.cfg.Sampling {
		o.Questions = s.asking
	}
	if w, ok := s.wire.(toolWire); ok {
		o.Tools = w.Tools
	}
	return o
}

// Open negotiates, and has the owner read what it needs. It is called once. After
// an error the session is over and its pipes are closed. Where the server wrote what is
// no message, the error has a method Evidence, which says so for a person.
func (s *Session) Open(ctx context.Context) error {
	s.work.Add(1) // so that nobody waits for the rest before it has begun
	defer s.work.Done()
	go s.readAll()
	go s.deliver()

	agreed, err := s.hands.Negotiate(ctx)
	if err != nil {
		s.fail(fmt.Errorf("the session could not be opened: %w", err))
		s.wire.Close()
		s.Release() // nobody can do it later
		<-s.done
		err = fmt.Errorf("connecting to server %s: %w", s.server, err)
		if junk := s.junk.Load(); junk != nil {
			err = &openError{err, *junk}
		}
		return err
	}
	s.agreed = *agreed
	_, acks := s.agreed.Capabilities.Experimental[methodEvent]
	s.acks.Store(acks)
	s.owner.Opened(ctx)
	s.signals.Insist()
	s.work.Go(func() { s.owner.Keep(s.ctx) })
	if s.Stateless() {
		s.work.Go(func() { s.stream.Run(s.ctx) })
	}
	return nil
}

// readAll owns the session's life: it reads until the wire ends, and then
// waits for everything the session started.
func (s *Session) readAll() {
	if err := s.conn.Run(); errors.Is(err, io.EOF) {
		s.fail(fmt.Errorf("server %s closed its stdout: %w", s.server, err))
	} else {
		s.fail(fmt.Errorf("reading from server %s: %w", s.server, err))
	}
	s.wire.Close()
	close(s.read)
	s.signals.Close()
}

// Release lets the sink have the signals that [Conn].Hold kept. They are also let
// go two seconds after the session's end, and where more come while the owner
// still reads the tools than the queue holds: what is not read would hold back the
// answer with the tools. Release does not wait and may be called more than once.
func (s *Session) Release() { s.signals.Release() }

// fail ends the session: requests fail at once, and the owner is told.
func (s *Session) fail(err error) {
	s.endOnce.Do(func() {
		s.err = err
		s.conn.Close(s.lost(err), false)
		s.asking.Close()
		close(s.ended)
		s.hands.Close()
		s.owner.Over(err)
		s.work.Go(func() {
			if errors.Is(err, ErrHung) {
				s.signals.Close() // the rest of what it says is not waited for
			}
			t := time.NewTimer(drainTime)
			defer t.Stop()
			select {
			case <-s.signals.Drained():
			case <-t.C:
			}
			s.Release() // whoever held them has had the time
			close(s.done)
		})
	})
}

// lost is the failure of requests that were in flight when the session ended
// by itself.
func (s *Session) lost(err error) *fault.Error {
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		return f
	}
	return fault.New(s.crashCode, "server %s ended with the request in flight: %v", s.server, err).Retry()
}

// Done is closed when the session cannot be used any more and the sink has
// taken its signals, or has had two seconds to.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is why the session ended, once Done is closed: an error that wraps ErrHung
// or io.EOF, or another one. Before it is nil.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the conversation: requests fail with cause, which should be a
// *fault.Error, the server is told of each with notifications/cancelled, and its
// stdin is closed once that is written (half a second at most). What the server
// still says is read until it closes its stdout or the pipe is closed; then Done
// is closed. Close may be called more than once.
func (s *Session) Close(cause error) {
	s.closeOnce.Do(func() {
		s.closing.Store(true)
		s.owner.Over(nil)
		f := fault.New(fault.ServerStopped, "the session with server %s was closed", s.server)
		if cause != nil {
			f = fault.From(cause)
		}
		s.asking.Close()
		s.conn.Close(f, true)
		s.wire.CloseSend(flushTime)
		time.AfterFunc(drainTime, s.signals.Hurry)
	})
}

// Abort gives the session up: what the sink has no room for is dropped, and the
// wire is closed in both directions.
func (s *Session) Abort() {
	s.signals.Hurry()
	s.wire.Close()
}

// Ended is closed when no request can succeed any more.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Usable is nil, or why the session cannot be used any more.
func (s *Session) Usable() error {
	select {
	case <-s.ended:
		return s.err
	default:
	}
	if s.closing.Load() {
		return errors.New("the session was closed")
	}
	return nil
}

// Settled waits until the sink has taken what the server said before now, or ctx
// is done.
func (s *Session) Settled(ctx context.Context) { s.signals.Settled(ctx) }

// Server is the name of the session's server.
func (s *Session) Server() string { return s.server }

// Alias is the short form of the server's name; it may be empty.
func (s *Session) Alias() string { return s.alias }

// Keeps reports whether one of the server's tools, by its name as the server lists
// it, is one of those that there are; see [Config].
func (s *Session) Keeps(tool string) bool { return s.cfg.Keeps(tool) }

// Config is what the session was made with, with defaults for what was not set.
func (s *Session) Config() Config { return s.cfg }

// Stateless reports whether the session speaks the protocol without initialize.
func (s *Session) Stateless() bool { return s.agreed.Stateless() }

// Info is the session's present state.
func (s *Session) Info() Info {
	i := Info{
		Server: s.server, Instance: s.instance, ProtocolVersion: s.agreed.Version,
		ServerName: s.agreed.ServerName, ServerVersion: s.agreed.ServerVersion, Instructions: s.agreed.Instructions,
		InFlight: s.InFlight(),
	}
	var err error
	if i.Tools, err = s.owner.Tools(); err != nil {
		i.Degraded = err.Error()
	}
	return i
}

// RootsResult is the answer to roots/list.
func (s *Session) RootsResult() json.RawMessage { return asking.RootsResult(s.cfg.Roots) }

// Relays says whether the server may make requests of a method of clients further
// away, see [Config].Relay.
func (s *Session) Relays(method string) bool { return s.cfg.Relay.Has(method) }

// Offers says whether the client offered to answer requests of a method, such as
// handshake.MethodElicit.
func (s *Session) Offers(method string) bool { return s.cfg.features().Has(method) }

// Emit puts a signal into the queue; false means that the session is over.
func (s *Session) Emit(sig signal.Signal) bool { return s.signals.Emit(sig) }

// Report counts a fault of the server, and announces the first of its code, the tenth,
// the hundredth and so on.
func (s *Session) Report(code, detail string, sample []byte) { s.signals.Report(code, detail, sample) }

// Announce counts a fault of the server, logs it and announces it, however many
// there were before.
func (s *Session) Announce(code, detail string) { s.signals.Announce(code, detail) }

// Problems is how often the server did what, by the codes of signal.Fault, and
// as late_response how many answers came after their requests were given up.
func (s *Session) Problems() map[string]int64 { return s.signals.Problems() }

// deliver hands signals to the sink, and ends when nothing of the session runs any
// more.
func (s *Session) deliver() {
	defer s.owner.Gone()
	s.signals.Deliver(s.ctx)
	<-s.read
	s.work.Wait()
	s.hands.Wait()
	if n := s.signals.Lost(); n > 0 {
		s.log.Error("signals were lost: the sink did not take them", "count", n)
	}
}
