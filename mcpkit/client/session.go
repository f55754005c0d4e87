package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/internal/pipe"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const (
	flushTime = 500 * time.Millisecond // for what is queued when a session is closed
	drainTime = 2 * time.Second        // for the sink to take what is queued before Done
)

// Session is the conversation with one running server. It is made by
// Manager.Connect and ends with the server, its wire, or Close. It is safe for
// concurrent use.
type Session struct {
	m        *Manager
	server   string
	alias    string
	instance string
	crashes  int
	cfg      ServerConfig
	log      *slog.Logger

	wire     Wire
	remote   bool // the wire is somebody else's: what is at its end is not started by us
	link     *link
	sdk      *mcp.ClientSession
	version  string                 // negotiated
	meta     atomic.Pointer[[]byte] // members of each request's _meta under the stateless protocol; nil under older ones
	caps     mcp.ServerCapabilities
	acks     atomic.Bool // the server wants aurora/ack
	requests requests
	slots    chan struct{} // one taken by each tool call
	signals  *queue
	reports  reports
	logs     logLimit
	updates  logLimit
	cache    cache
	stream   stream
	asking   asking
	life     atomic.Int64 // when bytes last arrived, Unix nanoseconds
	lists    lists
	ready    atomic.Bool // Connect has succeeded, and the end has not come

	closing   atomic.Bool // Close was called
	closeOnce sync.Once
	ended     chan struct{} // no request can succeed any more
	endOnce   sync.Once
	err       error // why; set before ended is closed
	read      chan struct{}
	work      sync.WaitGroup // keeper, listener
	done      chan struct{}
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

// connect makes a session over c that has negotiated and read its tools.
func (m *Manager) connect(ctx context.Context, c Conn) (*Session, error) {
	cfg, err := c.Config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configuration of server %s: %w", c.Server, err)
	}
	s := &Session{
		m: m, server: c.Server, alias: c.Alias, instance: c.Instance, crashes: c.Crashes, cfg: cfg,
		log:   m.log.With("server", c.Server),
		slots: make(chan struct{}, cfg.MaxInFlight),
		ended: make(chan struct{}), read: make(chan struct{}), done: make(chan struct{}),
	}
	s.lists.wake = make(chan struct{}, 1)
	s.signals = newQueue(m.opts.QueueSignals, m.opts.QueueBytes)
	if c.Hold {
		s.signals.holdBack()
	}
	s.logs, s.updates = newLogLimit(), newLogLimit()
	s.stream.again = make(chan struct{}, 1)
	s.life.Store(time.Now().UnixNano())
	if err := m.enter(s); err != nil {
		return nil, err
	}
	s.remote = c.Wire != nil
	if s.wire = c.Wire; s.wire == nil {
		s.wire = pipe.New(c.Stdin, c.Stdout, cfg.MaxLine, cfg.WriteTimeout, s.alive)
	}
	s.link = newLink(s)
	s.work.Add(1) // so that nobody waits for the rest before it has begun
	defer s.work.Done()
	go s.readAll()
	go s.deliver()

	if err := s.negotiate(ctx); err != nil {
		s.fail(fmt.Errorf("the session could not be opened: %w", err))
		s.wire.Close()
		s.Release() // nobody can do it later
		<-s.done
		return nil, fmt.Errorf("connecting to server %s: %w", c.Server, err)
	}
	s.readFirst(ctx)
	s.signals.insist()
	s.work.Add(1)
	go s.keep()
	if s.version >= stateless {
		s.work.Add(1)
		go s.listen()
	}
	return s, nil
}

// readFirst reads the tools in the first half of what time there is: a list that
// does not come makes a degraded session, not a failed start.
func (s *Session) readFirst(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	s.readTools(ctx)
}

// negotiate opens the session in the newest era that the server stands.
func (s *Session) negotiate(ctx context.Context) error {
	known := s.m.era(s.server)
	features := mcp.ClientCapabilities{}
	opts := &mcp.ClientOptions{
		Capabilities: &features,
		// An input_required result goes to the caller as it is.
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	}
	if len(s.cfg.Roots) > 0 {
		features.RootsV2 = &mcp.RootCapabilities{}
	}
	if s.cfg.Sampling {
		features.Sampling = &mcp.SamplingCapabilities{}
	}
	if s.cfg.Elicit {
		features.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
	}
	c := mcp.NewClient(s.m.self(), opts)
	probed := false
	c.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "server/discover" {
				probed = true
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, s.probeTime())
				defer cancel()
			}
			return next(ctx, method, req)
		}
	})
	var so mcp.ClientSessionOptions
	if known == EraInitialize {
		so.ProtocolVersion = "2025-11-25"
	}
	cs, err := c.Connect(ctx, s.link, &so)
	s.link.open.Store(true)
	if err != nil {
		if s.link.broken.Load() { // the server's last words may still be on their way
			select {
			case <-s.ended:
			case <-ctx.Done():
			}
		}
		select {
		case <-s.ended:
			if probed && !s.link.probeAnswered.Load() && ctx.Err() == nil && !s.closing.Load() {
				s.m.suspectProbe(s.server)
				return fmt.Errorf("%w (%v)", ErrProbeKilled, s.err)
			}
			return s.err
		default:
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no answer to the greeting: %w", ctx.Err())
		}
		if f := s.link.why.Load(); f != nil {
			return f
		}
		if known == EraInitialize {
			s.m.setEra(s.server, "") // perhaps it has become a newer one
		}
		if strings.Contains(err.Error(), "unsupported protocol version") {
			return fmt.Errorf("%w; this client speaks %s", err, strings.Join(ProtocolVersions, ", "))
		}
		return err
	}
	s.sdk = cs
	res := cs.InitializeResult()
	s.version = res.ProtocolVersion
	if res.Capabilities != nil {
		s.caps = *res.Capabilities
	}
	_, acks := s.caps.Experimental[methodEvent]
	s.acks.Store(acks)
	s.lists.keep(&s.caps)
	if s.version >= stateless {
		s.setTriple("")
	} else if probed && !s.link.probeAnswered.Load() && !s.remote || s.m.suspected(s.server) {
		// It is mute on the probe, or dies of it. Far away it may just be slow today.
		s.m.setEra(s.server, EraInitialize)
	}
	return nil
}

// probeTime is how long the probe may take: to a remote server the connection is
// part of it, and it may have to wake up.
func (s *Session) probeTime() time.Duration {
	if s.remote {
		return 4 * s.m.opts.ProbeTimeout
	}
	return s.m.opts.ProbeTimeout
}

// setTriple makes what each request says of the client under the stateless
// protocol, and the level of log messages it asks for, if any.
func (s *Session) setTriple(logLevel string) {
	var caps struct { // the SDK's own type marshals roots wrongly
		Roots       *mcp.RootCapabilities        `json:"roots,omitempty"`
		Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
		Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
	}
	if len(s.cfg.Roots) > 0 {
		caps.Roots = &mcp.RootCapabilities{}
	}
	if s.cfg.Sampling {
		caps.Sampling = &mcp.SamplingCapabilities{}
	}
	if s.cfg.Elicit {
		caps.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
	}
	meta := map[string]any{
		mcp.MetaKeyProtocolVersion:    s.version,
		mcp.MetaKeyClientInfo:         s.m.self(),
		mcp.MetaKeyClientCapabilities: caps,
	}
	if logLevel != "" {
		meta[mcp.MetaKeyLogLevel] = logLevel
	}
	b, _ := json.Marshal(meta) // strings and plain structs always marshal
	b = b[1 : len(b)-1]
	s.meta.Store(&b)
}

func (s *Session) triple() []byte {
	if b := s.meta.Load(); b != nil {
		return *b
	}
	return nil
}

// alive notes that the server gave a sign of life.
func (s *Session) alive() { s.life.Store(time.Now().UnixNano()) }

// readAll owns the session's life: it reads until the wire ends, and then
// waits for everything the session started.
func (s *Session) readAll() {
	for {
		l, err := s.wire.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.fail(fmt.Errorf("reading from server %s: %w", s.server, err))
			} else {
				s.fail(fmt.Errorf("server %s closed its stdout: %w", s.server, err))
			}
			break
		}
		if l.Failed == nil {
			s.alive()
		}
		s.receive(l)
	}
	s.wire.Close()
	close(s.read)
	s.signals.close()
}

// fail ends the session: requests fail at once, tools leave the catalogue, and
// Release lets the sink have the signals that [Conn].Hold kept. They are also let
// go two seconds after the session's end, and where more come while Connect still
// reads the tools than the queue holds: what is not read would hold back the
// answer with the tools. Release does not wait and may be called more than once.
func (s *Session) Release() { s.signals.release() }

// Done is closed when the sink has taken what the server said before.
func (s *Session) fail(err error) {
	s.endOnce.Do(func() {
		s.err = err
		if s.ready.Swap(false) {
			s.log.Info("session over", "reason", err)
		}
		s.requests.close(s.lost(err))
		s.asking.close()
		close(s.ended)
		s.link.Close()
		s.m.remove(s)
		s.work.Go(func() {
			if errors.Is(err, ErrHung) {
				s.signals.close() // the rest of what it says is not waited for
			}
			t := time.NewTimer(drainTime)
			defer t.Stop()
			select {
			case <-s.signals.drained:
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
	return fault.New(s.crashCode(), "server %s ended with the request in flight: %v", s.server, err).Retry()
}

func (s *Session) crashCode() string {
	if s.crashes > 0 {
		return fault.ServerUnstable
	}
	return fault.ServerCrashed
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
		s.ready.Store(false)
		s.m.remove(s)
		f := fault.New(fault.ServerStopped, "the session with server %s was closed", s.server)
		if cause != nil {
			f = fault.From(cause)
		}
		s.asking.close()
		for _, id := range s.requests.close(f) {
			s.wire.TrySend(cancelled(id, f.Message))
		}
		s.wire.CloseSend(flushTime)
		time.AfterFunc(drainTime, s.signals.hurry)
	})
}

// Settled waits until the sink has taken what the server said before now, or ctx
// is done.
func (s *Session) Settled(ctx context.Context) { s.signals.settled(ctx) }

// Server is the name of the session's server.
func (s *Session) Server() string { return s.server }

// Info is the session's present state.
func (s *Session) Info() Info {
	i := Info{
		Server: s.server, Instance: s.instance, ProtocolVersion: s.version,
		InFlight: len(s.slots),
	}
	if r := s.sdk.InitializeResult(); r != nil {
		i.Instructions = r.Instructions
		if r.ServerInfo != nil {
			i.ServerName, i.ServerVersion = r.ServerInfo.Name, r.ServerInfo.Version
		}
	}
	l := s.lists.state()
	i.Tools = len(l.tools)
	if l.err != nil {
		i.Degraded = l.err.Error()
	}
	return i
}

// emit puts a signal into the queue; false means that the session is over.
func (s *Session) emit(sig signal.Signal) bool {
	sig.Server, sig.Instance = s.server, s.instance
	if sig.Time.IsZero() {
		sig.Time = time.Now()
	}
	return s.signals.put(sig)
}

// deliver hands signals to the sink, one at a time.
func (s *Session) deliver() {
	defer s.m.leave(s)
	var refused int64
	for {
		sig, ok := s.signals.take()
		if !ok {
			break
		}
		if err := s.m.opts.Sink.Observe(s.m.ctx, sig); err != nil {
			if refused++; refused == 1 {
				s.log.Error("the sink did not take a signal", "kind", sig.Kind, "error", err)
			}
		}
	}
	close(s.signals.drained)
	<-s.read
	s.work.Wait()
	if s.sdk != nil {
		s.sdk.Wait() // the error is the session's own
	}
	if n := s.signals.dropped() + refused; n > 0 {
		s.log.Error("signals were lost: the sink did not take them", "count", n)
	}
}
