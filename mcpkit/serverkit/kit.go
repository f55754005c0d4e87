// Package serverkit runs the processes of MCP servers: it spawns them, keeps
// what they write to stderr, restarts what crashes, gives up on what keeps
// crashing, and ends all of it without leaving a process behind. In the words of
// the AuroraBot guide it is the MCPServerKit.
//
// Servers that somebody else runs ([Spec].Endpoint) it keeps connected in the
// same way: what is a spawn there is a connection here, see hold.
//
// It knows neither JSON-RPC nor HTTP. The spec's [Connect] makes a [Session] over
// a child's pipes or to an endpoint; the kit learns from the session only that it
// is ready and that it is over. What happens is told as lifecycle signals to a
// [signal.Sink]. Tools and calls are not its business, nor is reading
// configuration.
//
//	func main() {
//		serverkit.RunGuardIfAsked()
//		kit, err := serverkit.New(serverkit.Options{Sink: sink, Logger: log, LogDir: "logs"})
//		…
//		kit.Apply([]serverkit.Spec{{
//			Name:    "im.polaris.weather",
//			Command: []string{"aurora-weather"},
//			Env:     serverkit.BaseEnv(os.LookupEnv),
//			Connect: connect,
//		}})
//		…
//		err = kit.Shutdown(ctx)
//	}
//
// # Nothing is left behind
//
// Each child leads a process group of its own and carries, like everything that
// descends from it, a token: on Linux in a resource limit, where even a daemon
// keeps it, and in its environment. Signals go to the group and to whoever has
// the token or descends from one of these, so a launcher that dies alone or a
// grandchild in another session changes nothing. The leader is reaped last:
// until then its number cannot pass to a stranger. A process that other code
// forks in the very moment in which the kit does may be taken for a server's:
// leave starting processes to the kit.
//
// If the platform itself is killed, the kernel kills the direct children (on
// Linux, by the parent-death signal), and a guard, a small process executed from
// the same binary, notices the end of a pipe and kills the rest. See
// docs/design/process-death.md for what this cannot reach.
package serverkit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/child"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/proc"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/stderrlog"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"golang.org/x/time/rate"
)

// spawnsPerMinute is the default of Options.SpawnsPerMinute.
const spawnsPerMinute = 120

// Options configures a Kit. The zero value of each is a default.
type Options struct {
	Sink   signal.Sink  // nil discards
	Logger *slog.Logger // nil discards

	LogDir     string // one rotated file per server, made if missing; empty keeps none
	LogSize    int64  // bytes of one file before it is rotated. Zero means 5 MiB
	LogBackups int    // rotated files kept. Zero means 3

	// Redact, if set, is applied to each line of stderr after Spec.Secrets
	// have been removed. It must be safe for concurrent use.
	Redact func(string) string

	// SpawnsPerMinute and SpawnBurst bound how often processes are spawned after
	// the first start of each server, over all servers: the burst at once, beyond
	// that the rate. What exceeds it waits for its turn. Zero means 120 and 200.
	SpawnsPerMinute int
	SpawnBurst      int

	// AdoptOrphans makes this process the parent of all orphans among its
	// descendants, on Linux, and reaps them, as a process 1 must. Shutdown
	// kills those that are left. Set it only where nothing else in the process
	// starts children in groups or sessions of their own.
	AdoptOrphans bool
}

// Kit runs a set of servers. Its methods are safe for concurrent use.
type Kit struct {
	opt    Options
	log    *slog.Logger
	prefix string // of all tokens, which are RUN/START: RUN is random, START counts spawns
	wd     string // where the kit was made; empty if that is unknown
	exeDir string

	forks    *proc.Forks
	guard    *proc.Guard
	reaper   *proc.Reaper
	children *child.Spawner
	spawns   *rate.Limiter
	emitter  *emitter
	hurry    chan struct{} // closed when Shutdown has run out of time
	down     chan struct{} // closed when Shutdown is through

	// Replaced by tests.
	now   func() time.Time
	after func(time.Duration) <-chan time.Time

	mu      sync.Mutex
	servers map[string]*server
	started uint64 // spawns so far, for tokens
	closed  bool
	running sync.WaitGroup // one per server
}

// RunGuardIfAsked must be the first thing that main, and TestMain, calls. It
// returns at once unless the program was started by a kit as its guard process;
// then it does that work and exits. Without it a kit runs unguarded.
// The same holds for the first process of a sandbox ([Spec].Sandbox).
func RunGuardIfAsked() {
	sandbox.RunIfAsked()
	proc.RunGuardIfAsked()
}

// New returns a kit that runs nothing yet. Shutdown must be called in the end.
func New(o Options) (*Kit, error) {
	if o.Sink == nil {
		o.Sink = signal.Discard
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	orDefault(&o.LogSize, 5<<20)
	orDefault(&o.LogBackups, 3)
	orDefault(&o.SpawnsPerMinute, spawnsPerMinute)
	orDefault(&o.SpawnBurst, 200)
	wd, _ := os.Getwd() // needed only where a Spec has no Dir
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("serverkit: %w", err)
	}
	guardLog := ""
	if o.LogDir != "" {
		if o.LogDir, err = filepath.Abs(o.LogDir); err == nil {
			err = os.MkdirAll(o.LogDir, 0o700)
		}
		if err != nil {
			return nil, fmt.Errorf("serverkit: the log folder: %w", err)
		}
		guardLog = filepath.Join(o.LogDir, "_guard.log")
	}
	var run [8]byte
	rand.Read(run[:])
	prefix := hex.EncodeToString(run[:]) + "/"
	k := &Kit{
		opt: o, log: o.Logger, prefix: prefix, wd: wd, exeDir: filepath.Dir(exe),
		forks:   proc.NewForks(),
		spawns:  rate.NewLimiter(rate.Limit(o.SpawnsPerMinute)/60, o.SpawnBurst),
		hurry:   make(chan struct{}),
		down:    make(chan struct{}),
		now:     time.Now,
		after:   time.After,
		servers: make(map[string]*server),
	}
	if o.AdoptOrphans {
		if k.reaper, err = proc.NewReaper(k.forks); err != nil {
			k.forks.Stop()
			return nil, fmt.Errorf("serverkit: adopting orphans: %w", err)
		}
	}
	if !proc.CanMark() {
		k.log.Info("descendants of servers cannot be marked on this system: one that leaves its group, wipes its environment and loses its parents is not found")
	}
	k.guard = proc.NewGuard(prefix, guardLog, k.forks, k.log)
	k.children = &child.Spawner{Forks: k.forks, Tree: proc.NewTree(prefix), Guard: k.guard}
	k.emitter = newEmitter(o.Sink, k.log)
	return k, nil
}

// Apply makes specs what runs: it starts the new, stops the missing, replaces
// the changed once their calls in flight have finished ([StopPolicy].Drain), and
// leaves the equal alone, also where a person has stopped them. It returns at once. Of specs with the same name the first counts.
func (k *Kit) Apply(specs []Spec) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	wanted := make(map[string]bool)
	for _, spec := range specs {
		if wanted[spec.Name] {
			k.log.Error("two servers have the same name; the first is run", "server", spec.Name)
			continue
		}
		wanted[spec.Name] = true
		if spec.Endpoint == "" {
			spec.Dir = cmp.Or(spec.Dir, k.wd)
		}
		spec = spec.withDefaults()
		s, ok := k.servers[spec.Name]
		if !ok {
			s = k.newServer(spec)
			k.servers[spec.Name] = s
			k.running.Go(s.run)
			continue
		}
		s.apply(spec)
	}
	for name, s := range k.servers {
		if !wanted[name] {
			s.remove(causeRemoved)
		}
	}
}

// SetSpawnsPerMinute changes Options.SpawnsPerMinute. Who waits already, waits as long
// as before.
func (k *Kit) SetSpawnsPerMinute(n int) {
	orDefault(&n, spawnsPerMinute)
	k.spawns.SetLimit(rate.Limit(n) / 60)
}

// Start starts a server that is stopped, failed, waiting for a restart or for an
// authorization, and
// returns when it is ready or the attempt has failed. A server that is starting
// or ready is left alone.
func (k *Kit) Start(ctx context.Context, name string) error {
	return k.tell(ctx, name, "starting", func(w *want, phase Phase) bool {
		change := !w.up || phase == Failed || phase == Backoff || phase == NeedsAuth
		w.up, w.cause = true, causeRequested
		return change
	})
}

// Stop stops a server and returns when all its processes are gone. It stays
// down until Start, Restart or an Apply with another spec.
func (k *Kit) Stop(ctx context.Context, name string) error {
	return k.tell(ctx, name, "stopping", func(w *want, _ Phase) bool {
		change := w.up
		w.up, w.cause = false, causeRequested
		return change
	})
}

// Restart stops a server, if it runs, starts it with a fresh crash count, and
// returns when it is ready or the attempt has failed.
func (k *Kit) Restart(ctx context.Context, name string) error {
	return k.tell(ctx, name, "restarting", func(w *want, _ Phase) bool {
		w.up, w.cause = true, causeRestart
		return true
	})
}

// tell changes what is wanted of a server by edit, which returns false if
// nothing changes, and waits for the outcome.
func (k *Kit) tell(ctx context.Context, name, doing string, edit func(*want, Phase) bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s server %q: %w", doing, name, err)
		}
	}()
	k.mu.Lock()
	s, ok := k.servers[name]
	closed := k.closed
	k.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case !ok:
		return ErrUnknownServer
	}
	gen, err := s.change(edit)
	if err != nil {
		return err
	}
	return s.settled(ctx, gen)
}

// Wait returns when every server has become ready, has failed once or is down
// on purpose.
func (k *Kit) Wait(ctx context.Context) error {
	k.mu.Lock()
	all := slices.Collect(maps.Values(k.servers))
	k.mu.Unlock()
	for _, s := range all {
		for errors.Is(s.settled(ctx, s.generation()), ErrSuperseded) {
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Status returns the state of all servers, by name.
func (k *Kit) Status() []Status {
	k.mu.Lock()
	all := slices.Collect(maps.Values(k.servers))
	k.mu.Unlock()
	list := make([]Status, 0, len(all))
	for _, s := range all {
		list = append(list, s.status())
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// LogPath is the file that a server of that name writes its stderr to, or has
// written it to before it was removed; "" without a folder for logs.
func (k *Kit) LogPath(name string) string {
	if k.opt.LogDir == "" {
		return ""
	}
	return stderrlog.Path(k.opt.LogDir, name)
}

// Stderr returns the last n lines, at most 100, that a server has written to
// stderr, oldest first, or nil if there is no such server.
func (k *Kit) Stderr(name string, n int) []string {
	k.mu.Lock()
	s, ok := k.servers[name]
	k.mu.Unlock()
	if !ok {
		return nil
	}
	return s.stderr.Lines(n)
}

// hurryWait is how long servers may take to end when nothing is waited for.
const hurryWait = 10 * time.Second

// Shutdown stops all servers at the same time and returns when no process is
// left. When ctx is done first, it kills what is left without waiting further.
// After Shutdown the kit does nothing any more. Further calls wait for the first.
func (k *Kit) Shutdown(ctx context.Context) error {
	k.mu.Lock()
	first := !k.closed
	k.closed = true
	for _, s := range k.servers {
		s.remove(causeShutdown)
	}
	k.mu.Unlock()
	if !first {
		select {
		case <-k.down:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	gone := make(chan struct{})
	go func() {
		k.running.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		close(k.hurry)
		select {
		case <-gone:
		case <-time.After(hurryWait):
			return fmt.Errorf("serverkit: servers do not end: %s", strings.Join(k.names(), ", "))
		}
	}
	k.reaper.Close()
	k.guard.Close()
	k.forks.Stop()
	err := k.emitter.close(ctx)
	close(k.down)
	return err
}

func (k *Kit) names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.servers))
}

// leave forgets s unless it has been applied again.
func (k *Kit) leave(s *server) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !s.wanted().gone {
		return false
	}
	delete(k.servers, s.name)
	return true
}

// admit waits until the rate of spawns allows one more. The first start of a server
// is not counted: only what is started over and over can be too much. It returns
// false if over is closed first.
func (k *Kit) admit(s *server, over <-chan struct{}) bool {
	if s.spawned() == 0 {
		return true
	}
	r := k.spawns.ReserveN(k.now(), 1)
	delay := r.DelayFrom(k.now())
	if delay == 0 {
		return true
	}
	s.log.Warn("too many processes were spawned lately; the server waits for its turn", "delay", delay)
	s.move(func() { s.st.Waiting = "too many processes were spawned lately" })
	select {
	case <-k.after(delay):
		return true
	case <-over:
		r.CancelAt(k.now())
		return false
	}
}

func (k *Kit) token() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started++
	return fmt.Sprintf("%s%d", k.prefix, k.started)
}
