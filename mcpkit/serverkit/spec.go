package serverkit

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
)

// Spec says what to run and how to speak to it. Apply replaces a server whose
// process or session would be another one under the new spec, see [Spec.Equal].
// Secrets, StartTimeout, Restart and Stop are the kit's own business: a change of
// these takes effect in place on a server that runs or starts.
type Spec struct {
	// Name is the server's identity.
	Name string
	// Command is the argv. Command[0] is looked up by [ResolveCommand] with
	// the PATH found in Env.
	Command []string
	// Endpoint is the URL of a server that somebody else runs. There is no process
	// then: Connect gets no pipes and opens the connection itself; Command, Dir, Env
	// and the waits of Stop are not used.
	Endpoint string
	// Connect makes the session. It is required.
	Connect Connect
	// Revision stands for everything that Connect uses beside its parameters: it must
	// differ where any of that differs, as functions cannot be compared. A hash does.
	Revision string
	// Dir is the absolute working directory. Empty means the directory in
	// which the kit was made.
	Dir string
	// Env is the complete environment of the child, KEY=VALUE; of repeated
	// keys the last counts. See [BaseEnv].
	Env []string
	// Secrets are values that are removed from stderr before it is kept.
	// Values shorter than six bytes are not looked for.
	Secrets []string
	// StartTimeout bounds the time from spawn until Connect has returned.
	// Zero means 30 s.
	StartTimeout time.Duration
	Restart      RestartPolicy
	Stop         StopPolicy
	// Disabled keeps the server listed but down.
	Disabled bool
	// Sandbox confines the process and its descendants. Nil does not. Where it cannot
	// be had, the start fails. Profiles are not changed once given.
	Sandbox *sandbox.Profile
}

// RestartPolicy says what follows a crash. The zero value restarts with the
// defaults.
type RestartPolicy struct {
	Never       bool          // a crash is final
	Max         int           // restarts in a row; the crash after them is final. Zero means 3. What passes, such as a network that is down, does not count at an Endpoint
	Base        time.Duration // delay before the first restart, doubled for each further one. Zero means 500 ms
	Cap         time.Duration // upper bound of the delay. Zero means 10 s
	StableAfter time.Duration // this long ready, and the count starts anew. Zero means 60 s
}

// StopPolicy bounds the steps of the stop sequence. After both waits the
// group is killed.
type StopPolicy struct {
	CloseWait time.Duration // after stdin is closed. Zero means 2 s
	TermWait  time.Duration // after SIGTERM. Zero means 3 s
	// Drain bounds how long calls in flight may take to finish before a server whose
	// spec has changed is stopped, where its session is a [Drainer]. Zero means 30 s,
	// a negative value that they are not waited for.
	Drain time.Duration
}

// Equal reports whether s and o describe the same process, or the same endpoint, and
// the same sessions with it.
func (s Spec) Equal(o Spec) bool {
	return s.Name == o.Name && s.Endpoint == o.Endpoint && s.Revision == o.Revision && s.Dir == o.Dir && s.Disabled == o.Disabled &&
		s.Sandbox.Equal(o.Sandbox) && slices.Equal(s.Command, o.Command) && slices.Equal(s.Env, o.Env)
}

// same reports whether s and o are also the same in what takes effect in place.
func (s Spec) same(o Spec) bool {
	return s.Equal(o) && s.StartTimeout == o.StartTimeout && s.Restart == o.Restart && s.Stop == o.Stop && slices.Equal(s.Secrets, o.Secrets)
}

// withDefaults returns a deep copy of s in which no duration is zero.
func (s Spec) withDefaults() Spec {
	s.Command, s.Env, s.Secrets = slices.Clone(s.Command), slices.Clone(s.Env), slices.Clone(s.Secrets)
	orDefault(&s.StartTimeout, 30*time.Second)
	orDefault(&s.Restart.Max, 3)
	orDefault(&s.Restart.Base, 500*time.Millisecond)
	orDefault(&s.Restart.Cap, 10*time.Second)
	orDefault(&s.Restart.StableAfter, time.Minute)
	orDefault(&s.Stop.CloseWait, 2*time.Second)
	orDefault(&s.Stop.TermWait, 3*time.Second)
	if s.Stop.Drain == 0 {
		s.Stop.Drain = 30 * time.Second
	}
	return s
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// getenv returns the value that the last KEY=VALUE in env gives to key.
func getenv(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// Instance is one start of a server.
type Instance struct {
	Name    string
	Number  int // counts the starts of this server, from 1
	PID     int
	Crashes int // consecutive crashes before this start
	// Probe is false once Connect has returned ErrRespawn for this spec: the
	// server does not survive being asked for a newer protocol.
	Probe bool
}

// Pipes are the parent's ends of a child's stdin and stdout. Read and write
// deadlines work on both. The session reads and writes them; the kit closes
// both when the instance has ended, and closing them twice is harmless.
// At an Endpoint both are nil.
type Pipes struct{ Stdin, Stdout *os.File }

// Connect makes a session over fresh pipes, or opens the connection to an
// Endpoint, and returns once it is ready. It must return soon after ctx is done or the pipes are closed, and then must no
// longer use the pipes unless it returned a session. An error is a failed start
// and counts as a crash, except one that wraps [ErrRespawn].
type Connect func(ctx context.Context, in Instance, p Pipes) (Session, error)

// Session is what runs over a server's pipes.
type Session interface {
	// Done is closed when the session can no longer be used: the end of
	// stdout, a broken protocol, a hung server.
	Done() <-chan struct{}
	// Err says why, after Done. If it wraps ErrHung, the process is killed at
	// once.
	Err() error
	// Close fails what is in flight with cause, a *fault.Error, and closes
	// stdin. It is idempotent and takes bounded time. What reads stdout goes
	// on reading until its end.
	Close(cause error)
	// Info describes the session. It may change while the session lives.
	Info() SessionInfo
}

// Drainer is a Session that can take no further calls and wait for those in flight.
type Drainer interface {
	// Drain returns when no call is in flight, the session has ended, or ctx is done.
	Drain(ctx context.Context)
}

// Releaser is a Session that holds back what its server says of its own accord
// until Release is called: once the sink has taken that the server has started,
// or when it is known that it will not. Release must not wait.
type Releaser interface{ Release() }

// SessionInfo is what a session tells of its server.
type SessionInfo struct {
	ProtocolVersion string `json:"protocol_version,omitempty"`
	ServerName      string `json:"server_name,omitempty"`
	ServerVersion   string `json:"server_version,omitempty"`
	Tools           int    `json:"tools"`
}

var (
	// ErrRespawn, wrapped by an error of Connect, asks for one more process at
	// once, without counting a crash: the server died of being asked for a
	// protocol that it does not know.
	ErrRespawn = errors.New("the server must be spawned once more")
	// ErrHung, wrapped by Session.Err, says that the server no longer answers.
	ErrHung = errors.New("the server hangs")
	// ErrUnknownServer says that no server of that name was applied.
	ErrUnknownServer = errors.New("unknown server")
	// ErrDisabled says that a server cannot be started until an Apply enables it.
	ErrDisabled = errors.New("the server is disabled")
	// ErrClosed says that the kit has been shut down.
	ErrClosed = errors.New("the server kit is shut down")
	// ErrSuperseded says that another request, or an Apply, came before the
	// outcome of this one was known.
	ErrSuperseded = errors.New("another request came in between")
)

// Phase is where a server stands.
type Phase string

const (
	Starting   Phase = "starting"   // waiting for its turn, spawned, or not yet ready
	Connecting Phase = "connecting" // the same of a server at an Endpoint
	Ready      Phase = "ready"      // the session is usable
	Stopping   Phase = "stopping"   // on its way down, told to or not
	Stopped    Phase = "stopped"    // told to stop
	Backoff    Phase = "backoff"    // crashed; waits for its next start
	NeedsAuth  Phase = "needs_auth" // an Endpoint wants an authorization; Start tries again
	Failed     Phase = "failed"     // crashed for good; a person or a new spec starts it
	Disabled   Phase = "disabled"   // listed, not run
)

// Status is what is known of one server.
type Status struct {
	Name     string        `json:"name"`
	Phase    Phase         `json:"phase"`
	Since    time.Time     `json:"since"`             // of the phase
	PID      int           `json:"pid,omitempty"`     // of the running process
	Uptime   time.Duration `json:"uptime,omitempty"`  // nanoseconds since the running process was spawned
	Starts   int           `json:"starts"`            // processes spawned, or tried to
	Restarts int           `json:"restarts"`          // starts that followed a crash
	Crashes  int           `json:"crashes"`           // in a row; zero again once it is stable
	Waiting  string        `json:"waiting,omitempty"` // why a starting server has no process yet
	LastExit *Exit         `json:"last_exit,omitempty"`
	Session  SessionInfo   `json:"session"`
	Endpoint string        `json:"endpoint,omitempty"` // without its query
	Command  []string      `json:"command"`            // Command[0] as resolved once it has run; secrets removed
	Dir      string        `json:"dir"`
	LogPath  string        `json:"log_path,omitempty"`
}

// Exit is how an instance ended. Cause is one of the words that
// signal.Lifecycle lists.
type Exit struct {
	Cause  string        `json:"cause"`
	Reason string        `json:"reason"`           // the cause as a sentence, a failed start with the end of stderr
	Code   *int          `json:"code,omitempty"`   // nil where a signal ended it or it never ran
	Signal string        `json:"signal,omitempty"` // such as SIGKILL
	Stderr []string      `json:"stderr,omitempty"` // the last lines, secrets removed
	Time   time.Time     `json:"time"`
	Uptime time.Duration `json:"uptime,omitempty"` // nanoseconds from spawn to end
}

// Words for Exit.Cause and signal.Lifecycle.Cause.
const (
	causeExit         = "exit"
	causeSignal       = "signal"
	causeLimit        = "limit"
	causeStartTimeout = "start_timeout"
	causeHung         = "hung"
	causeSpawnFailed  = "spawn_failed"
	causeProtocol     = "protocol"
	causeConnect      = "connect_failed" // of an Endpoint, as the next three
	causeLost         = "disconnected"
	causeExpired      = "session_expired"
	causeNeedsAuth    = "needs_auth"
	causeRequested    = "requested"
	causeRestart      = "restart"
	causeChanged      = "changed"
	causeDisabled     = "disabled"
	causeRemoved      = "removed"
	causeShutdown     = "shutdown"
)

// asked says as a sentence why a server was told to end.
var asked = map[string]string{
	causeRequested: "stopped by request",
	causeRestart:   "restarted by request",
	causeChanged:   "its definition changed",
	causeDisabled:  "it was disabled",
	causeRemoved:   "its definition was removed",
	causeShutdown:  "the platform shuts down",
}
