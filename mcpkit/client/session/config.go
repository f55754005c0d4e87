package session

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/internal/pipe"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// ErrHung says that the server gave no sign of life, or took nothing from its
// stdin, for too long.
var ErrHung = pipe.ErrHung

// Options are what the sessions of one manager have in common. All fields are
// required.
type Options struct {
	Sink   signal.Sink // where signals go
	Logger *slog.Logger
	Probes *handshake.Probes // which servers to spare the probe

	Name, Version string        // what the platform calls itself
	ProbeTimeout  time.Duration // for an answer to server/discover; over a Conn.Wire four times that
	QueueSignals  int           // signals waiting per session
	QueueBytes    int           // bytes of notifications waiting per session, or one
}

// Config is what may differ between servers. The zero value of each field
// is a default.
type Config struct {
	CallTimeout time.Duration // for a request, counted anew with each progress; 60 s
	MaxCallTime time.Duration // for a request in all, however much it progresses; 10 min
	MaxInFlight int           // tool calls at once, others wait; 256
	MaxLine     int           // bytes of one message from the server; 16 MiB

	PingInterval time.Duration // silence after which a sign of life is asked for; 30 s
	PingTimeout  time.Duration // for that sign; 10 s
	WriteTimeout time.Duration // for the server to take anything from its stdin; 30 s

	MaxTools     int           // of a server's list; 5000
	MaxPages     int           // of one list; 100
	ListTimeout  time.Duration // for all pages of one list; 30 s
	Debounce     time.Duration // of list_changed: quiet time before a list is read again, five times that at most; 200 ms
	PollInterval time.Duration // between readings of lists nobody said have changed, 10 % more or less; 5 min, negative: never

	// IncludeTools, where it is not empty, are the only tools that there are of the
	// server's; ExcludeTools are none. Both are names as the server lists them, in which
	// * stands for any characters and ? for one, as in path.Match.
	IncludeTools, ExcludeTools []string

	// What the server may ask of the client in the middle of a call; see
	// CallRequest.Ask. What is not offered here is refused with -32601 and reported
	// as a signal.Problem.
	Roots    []*mcp.Root        // listed for the server; none: not offered
	Sampling bool               // answers of a model
	Elicit   bool               // answers of a person, to forms and URLs
	Relay    handshake.Features // what it may ask of clients further away
}

// Keeps reports whether a tool is one of those that there are.
func (c *Config) Keeps(tool string) bool {
	named := func(pattern string) bool {
		fits, err := path.Match(pattern, tool)
		return fits || err != nil && pattern == tool
	}
	return (len(c.IncludeTools) == 0 || slices.ContainsFunc(c.IncludeTools, named)) && !slices.ContainsFunc(c.ExcludeTools, named)
}

// features are what the client offers to answer.
func (c Config) features() handshake.Features {
	return handshake.Features{Roots: len(c.Roots) > 0, Sampling: c.Sampling, Elicitation: c.Elicit}
}

func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"CallTimeout", &c.CallTimeout, time.Minute},
		{"MaxCallTime", &c.MaxCallTime, 10 * time.Minute},
		{"PingInterval", &c.PingInterval, 30 * time.Second},
		{"PingTimeout", &c.PingTimeout, 10 * time.Second},
		{"WriteTimeout", &c.WriteTimeout, 30 * time.Second},
		{"ListTimeout", &c.ListTimeout, 30 * time.Second},
		{"Debounce", &c.Debounce, 200 * time.Millisecond},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("%s is negative: %v", d.name, *d.value)
		}
		*d.value = cmp.Or(*d.value, d.def)
	}
	for _, d := range []struct {
		name  string
		value *int
		def   int
	}{
		{"MaxInFlight", &c.MaxInFlight, 256},
		{"MaxLine", &c.MaxLine, 16 << 20},
		{"MaxTools", &c.MaxTools, 5000},
		{"MaxPages", &c.MaxPages, 100},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("%s is negative: %d", d.name, *d.value)
		}
		*d.value = cmp.Or(*d.value, d.def)
	}
	c.MaxCallTime = max(c.MaxCallTime, c.CallTimeout)
	c.PollInterval = cmp.Or(c.PollInterval, 5*time.Minute)
	return c, nil
}

// Conn is a way to one running server and what is known of it.
type Conn struct {
	Server   string // identity, in the names of tools and in signals
	Alias    string // short form for exported names; may be empty
	Instance string // which process of that server; may be empty
	Crashes  int    // crashes in a row before this start
	// Hold keeps signals from the sink until Session.Release, so that somebody
	// else can say first that the server is up.
	Hold bool

	// The pipes. The session closes both; closing them elsewhere too does no
	// harm, and ends the session. Deadlines are used where they are supported.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	// Wire stands in for the pipes, for servers that are reached otherwise.
	Wire rpc.Wire

	Config Config
}

// Close closes the way to a server to which no session was made.
func (c Conn) Close() {
	if c.Wire != nil {
		c.Wire.Close()
		return
	}
	c.Stdin.Close()
	c.Stdout.Close()
}
