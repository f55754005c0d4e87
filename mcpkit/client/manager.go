package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client/internal/watches"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const giveUpTime = 2 * time.Second // for sessions to end that Close has given up

// Manager knows the sessions by server and their tools as one catalogue (the
// MCPClientManager of the source documents). It is safe for concurrent use.
type Manager struct {
	opts session.Options
	log  *slog.Logger
	ctx  context.Context // of signals on their way to the sink; ends with Close
	stop context.CancelFunc

	mu       sync.Mutex
	ready    map[string]*server // one per server
	all      map[*server]bool   // those too that are opening or ending
	closed   bool
	subs     map[chan struct{}]bool
	sessions sync.WaitGroup

	watches watches.Registry

	publishing  sync.Mutex      // guards the next two
	parts       map[string]part // of the servers that are ready
	fingerprint string          // of the catalogue that they make
	snapshot    atomic.Pointer[Snapshot]
	current     atomic.Bool // snapshot is the catalogue that the parts make
}

// Snapshot is the catalogue at one time. It is immutable.
type Snapshot struct {
	// Tools are those of all ready sessions, in the order of their canonical
	// names, then servers. They differ by ID: of several tools of one server
	// with one name the first counts.
	Tools []*catalog.Tool
	// Fingerprint is SHA-256 over the tools' identities, aliases and whole
	// definitions, in hexadecimal: equal for equal catalogues.
	Fingerprint string
}

// New makes a Manager without sessions.
func New(opts Options) (*Manager, error) {
	if opts.Sink == nil {
		opts.Sink = signal.Discard
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Eras == nil {
		opts.Eras = handshake.NewEras()
	}
	if opts.ProbeTimeout < 0 || opts.QueueSignals < 0 || opts.QueueBytes < 0 {
		return nil, errors.New("a limit of the client is negative")
	}
	opts.Name = cmp.Or(opts.Name, "aurora-platform")
	opts.Version = cmp.Or(opts.Version, "0")
	opts.ProbeTimeout = cmp.Or(opts.ProbeTimeout, 1500*time.Millisecond)
	opts.QueueSignals = cmp.Or(opts.QueueSignals, 256)
	opts.QueueBytes = cmp.Or(opts.QueueBytes, 8<<20)
	m := &Manager{
		opts: session.Options{
			Sink: opts.Sink, Logger: opts.Logger, Probes: handshake.NewProbes(opts.Eras, opts.Logger),
			Name: opts.Name, Version: opts.Version, ProbeTimeout: opts.ProbeTimeout,
			QueueSignals: opts.QueueSignals, QueueBytes: opts.QueueBytes,
		},
		log:   opts.Logger,
		ready: map[string]*server{}, all: map[*server]bool{},
		subs: map[chan struct{}]bool{},
	}
	m.ctx, m.stop = context.WithCancel(context.Background()) // ends in Close
	m.parts, m.fingerprint = map[string]part{}, fingerprintOf(nil)
	m.snapshot.Store(&Snapshot{Tools: []*catalog.Tool{}, Fingerprint: m.fingerprint})
	return m, nil
}

// Connect opens a session with a server that has just been started, reads its
// tools, and adds it to the catalogue. It takes over c's pipes: after an error
// they are closed. An error that wraps handshake.ErrProbeKilled asks for another start.
// A list of tools that cannot be read is no error; see Info.Degraded.
func (m *Manager) Connect(ctx context.Context, c session.Conn) (*session.Session, error) {
	if c.Server == "" || c.Wire == nil && (c.Stdin == nil || c.Stdout == nil) {
		return nil, errors.New("a connection needs a server's name and a way to it")
	}
	s := &server{m: m, log: m.log.With("server", c.Server)}
	s.lists.wake = make(chan struct{}, 1)
	var err error
	if s.session, err = session.New(m.ctx, c, m.opts, s); err != nil {
		c.Close()
		return nil, err
	}
	if err := m.enter(s); err != nil {
		s.session.Abort()
		return nil, err
	}
	if err := s.session.Open(ctx); err != nil {
		return nil, err
	}
	if err := m.register(s); err != nil {
		s.session.Close(nil)
		s.session.Abort()
		return nil, fmt.Errorf("connecting to server %s: %w", c.Server, err)
	}
	m.publish(s)
	s.log.Info("session open", "protocol", s.session.Info().ProtocolVersion, "tools", len(s.lists.state().tools))
	return s.session, nil
}

// enter counts a session in, unless the manager is closed.
func (m *Manager) enter(s *server) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("the client is closed")
	}
	m.all[s] = true
	m.sessions.Add(1)
	return nil
}

// leave is the end of what enter began.
func (m *Manager) leave(s *server) {
	m.mu.Lock()
	delete(m.all, s)
	m.mu.Unlock()
	m.sessions.Done()
}

func (m *Manager) register(s *server) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := s.session.Server()
	switch err := s.session.Usable(); {
	case err != nil:
		return err
	case m.closed:
		return errors.New("the client was closed meanwhile")
	case m.ready[name] != nil:
		return errors.New("it has a session already")
	}
	m.ready[name] = s
	s.ready.Store(true)
	return nil
}

// remove takes a session's tools out of the catalogue.
func (m *Manager) remove(s *server) {
	m.mu.Lock()
	name := s.session.Server()
	mine := m.ready[name] == s
	if mine {
		delete(m.ready, name)
	}
	m.mu.Unlock()
	if mine {
		m.publish(s)
	}
}

// part is one server's part of the catalogue.
type part struct {
	tools  []*catalog.Tool // in the order of the catalogue
	digest digest          // of their identities, aliases and definitions
}

func partOf(l listState) part {
	p := part{tools: slices.Clone(l.tools)}
	slices.SortFunc(p.tools, inCatalogue)
	h := sha256.New()
	for _, t := range p.tools {
		for _, text := range []string{t.Source.Server, t.Source.OriginalName, t.Alias} {
			fmt.Fprintf(h, "%d:%s", len(text), text)
		}
		sum := l.sums[t.Source.OriginalName]
		h.Write(sum[:])
	}
	h.Sum(p.digest[:0])
	return p
}

// inCatalogue is the order of tools in a Snapshot.
func inCatalogue(a, b *catalog.Tool) int {
	return cmp.Or(strings.Compare(a.Name, b.Name),
		strings.Compare(a.Source.Server, b.Source.Server),
		strings.Compare(a.Source.OriginalName, b.Source.OriginalName))
}

// fingerprintOf is that of the catalogue which the parts make. A server without tools
// is as good as none.
func fingerprintOf(parts map[string]part) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if p := parts[name]; len(p.tools) > 0 {
			h.Write(p.digest[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// publish takes over s's part of the catalogue, or takes it out where s is not ready,
// and tells subscribers if the catalogue differs. Only the one part is sorted and
// hashed; the whole is put together when somebody asks for it.
func (m *Manager) publish(s *server) {
	m.publishing.Lock()
	defer m.publishing.Unlock()
	name := s.session.Server()
	m.mu.Lock()
	present := m.ready[name]
	m.mu.Unlock()
	switch present {
	case s:
		m.parts[name] = partOf(s.lists.state())
	case nil:
		delete(m.parts, name)
	default: // another session has come, and publishes itself
		return
	}
	next := fingerprintOf(m.parts)
	if next == m.fingerprint {
		return
	}
	m.fingerprint = next
	m.current.Store(false)
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.subs {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Tools is the present catalogue: the same Snapshot until the catalogue differs.
func (m *Manager) Tools() *Snapshot {
	if m.current.Load() {
		return m.snapshot.Load()
	}
	m.publishing.Lock()
	defer m.publishing.Unlock()
	if m.fingerprint != m.snapshot.Load().Fingerprint {
		next := &Snapshot{Tools: []*catalog.Tool{}, Fingerprint: m.fingerprint}
		for _, p := range m.parts {
			next.Tools = append(next.Tools, p.tools...)
		}
		slices.SortFunc(next.Tools, inCatalogue)
		m.snapshot.Store(next)
	}
	m.current.Store(true)
	return m.snapshot.Load()
}

// Subscribe returns a channel that receives after each change of the catalogue;
// changes that come while nobody receives are one. Call the function to end it.
func (m *Manager) Subscribe() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subs[c] = true
	return c, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.subs, c)
	}
}

// Session is the ready session of a server, or nil.
func (m *Manager) Session(server string) *session.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.ready[server]; s != nil {
		return s.session
	}
	return nil
}

// Infos are the states of all ready sessions, by server.
func (m *Manager) Infos() []session.Info {
	m.mu.Lock()
	sessions := make([]*session.Session, 0, len(m.ready))
	for _, s := range m.ready {
		sessions = append(sessions, s.session)
	}
	m.mu.Unlock()
	infos := make([]session.Info, len(sessions))
	for i, s := range sessions {
		infos[i] = s.Info()
	}
	slices.SortFunc(infos, func(a, b session.Info) int { return strings.Compare(a.Server, b.Server) })
	return infos
}

// Ready is Session of a server by its name, else by its alias, with a
// *fault.Error where it is not ready.
func (m *Manager) Ready(server string) (*session.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.ready[server]; s != nil {
		return s.session, nil
	}
	for _, s := range m.ready {
		if s.session.Alias() == server && server != "" {
			return s.session, nil
		}
	}
	return nil, fault.New(fault.ServerNotReady, "server %s is not ready", server).Retry()
}

// Call carries one call to the session of its server. The error is a
// *fault.Error.
func (m *Manager) Call(ctx context.Context, r features.CallRequest) (*features.Result, error) {
	s, err := m.Ready(r.Server)
	if err != nil {
		return nil, err
	}
	return s.Call(ctx, r)
}

// Close closes all sessions and waits until they have ended and their signals
// are taken. When ctx is done first, it gives up what is left and says so.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	open := make([]*session.Session, 0, len(m.all))
	for s := range m.all {
		open = append(open, s.session)
	}
	m.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range open {
		closing.Go(func() { s.Close(fault.New(fault.ServerStopped, "the platform is shutting down")) })
	}
	closing.Wait()
	gone := make(chan struct{})
	go func() {
		m.sessions.Wait()
		close(gone)
	}()
	defer m.stop()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	m.stop()
	for _, s := range open {
		closing.Go(s.Abort)
	}
	closing.Wait()
	select {
	case <-gone:
		return nil
	case <-time.After(giveUpTime):
		return fmt.Errorf("closing the client: %w", ctx.Err())
	}
}
