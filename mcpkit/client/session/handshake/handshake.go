// Package handshake agrees with one server on a version of the protocol and on
// what each side can do. It has the go-sdk negotiate, which asks for the newest
// protocol first and falls back to initialize, and remembers the servers that do not
// survive that first question. It also writes what each later request says of the
// client under the stateless protocol. It neither reads from the wire nor ends a
// session: the session hands the answers over with [Handshake.Answered].
//
//	h := handshake.New(wire, options)
//	agreed, err := h.Negotiate(ctx)
//	request.Asker = agreed.Metadata.Members()
package handshake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// ErrProbeKilled says that the server ended when it was asked for the newest
// protocol. The next session of that server begins with initialize: start the
// server again at once.
var ErrProbeKilled = errors.New("the server ended on the protocol probe")

// ProtocolVersions are the versions that sessions can speak, oldest first.
var ProtocolVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", newestInitialize, Stateless}

const (
	// Stateless is the version from which on there is no initialize: requests carry
	// who asks, and servers tell what they can do in server/discover.
	Stateless = "2026-07-28"

	newestInitialize = "2025-11-25" // the last version that begins with initialize
	methodDiscover   = "server/discover"
	remoteFactor     = 4 // to a remote server the connection is part of the probe
)

// Options configure a Handshake. All fields are required.
type Options struct {
	Server   string             // its name, for messages and for Probes
	Self     mcp.Implementation // what the client calls itself
	Features Features           // what the client offers to answer
	Relay    Features           // what it offers for clients further away
	Probes   *Probes
	// ProbeTimeout is for an answer to server/discover, four times that if Remote.
	ProbeTimeout time.Duration
	Remote       bool // the server was not started by the client, and may have to wake up

	Ended   <-chan struct{} // closed when no answer can come any more
	Err     func() error    // why; called after Ended is closed
	Closing func() bool     // the client itself is ending the session
}

// Agreement is what both sides agreed on, and what the server says of itself.
type Agreement struct {
	Version      string // of the protocol
	Capabilities mcp.ServerCapabilities
	Metadata     *Metadata // of the requests that follow

	ServerName, ServerVersion string // what the server calls itself
	Instructions              string // the server's words: data, never orders
}

// Stateless reports whether the version is one without initialize.
func (a *Agreement) Stateless() bool { return a.Version >= Stateless }

// Handshake is the negotiation over one wire.
type Handshake struct {
	o    Options
	link *link
	sdk  *mcp.ClientSession // nil before Negotiate has succeeded
}

// New makes a Handshake that sends over wire.
func New(wire rpc.Wire, o Options) *Handshake { return &Handshake{o: o, link: newLink(wire)} }

// Answered takes the answer to a request that the handshake sent. It reports false
// where it has sent none with that id.
func (h *Handshake) Answered(id int64, m jsonline.Message) bool { return h.link.answered(id, m) }

// Failed is told that the wire could not deliver a request of the handshake.
func (h *Handshake) Failed(id int64, why *fault.Error) { h.link.failed(id, why) }

// Close ends the SDK's part, and Negotiate if it is still waiting.
func (h *Handshake) Close() { h.link.Close() }

// Wait waits, after Close, until nothing of the SDK runs any more.
func (h *Handshake) Wait() {
	if h.sdk != nil {
		h.sdk.Wait() // the error is the session's own
	}
}

// Negotiate opens the session in the newest version that the server stands. It is
// called once.
func (h *Handshake) Negotiate(ctx context.Context) (*Agreement, error) {
	c := mcp.NewClient(&h.o.Self, &mcp.ClientOptions{
		Capabilities: h.o.Features.initialize(),
		// An input_required result goes to the caller as it is.
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	probed := false
	c.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == methodDiscover {
				probed = true
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, h.probeTime())
				defer cancel()
			}
			return next(ctx, method, req)
		}
	})
	known := h.o.Probes.era(h.o.Server)
	var so mcp.ClientSessionOptions
	if known == EraInitialize {
		so.ProtocolVersion = newestInitialize
	}
	cs, err := c.Connect(ctx, h.link, &so)
	h.link.open.Store(true)
	if err != nil {
		return nil, h.failure(ctx, err, known, probed)
	}
	h.sdk = cs
	res := cs.InitializeResult()
	a := &Agreement{Version: res.ProtocolVersion, Instructions: res.Instructions}
	if res.Capabilities != nil {
		a.Capabilities = *res.Capabilities
	}
	if res.ServerInfo != nil {
		a.ServerName, a.ServerVersion = res.ServerInfo.Name, res.ServerInfo.Version
	}
	a.Metadata = newMetadata(a.Version, h.o)
	if !a.Stateless() && (probed && !h.link.probeAnswered.Load() && !h.o.Remote || h.o.Probes.suspected(h.o.Server)) {
		// The server is mute on the probe, or dies of it. A remote one may just be slow today.
		h.o.Probes.learn(h.o.Server, EraInitialize)
	}
	return a, nil
}

// failure is why the negotiation failed with err. It notes what that says of how
// the next session of the server should begin.
func (h *Handshake) failure(ctx context.Context, err error, known string, probed bool) error {
	if h.link.broken.Load() { // the server's last words may still be on their way
		select {
		case <-h.o.Ended:
		case <-ctx.Done():
		}
	}
	select {
	case <-h.o.Ended:
		if probed && !h.link.probeAnswered.Load() && ctx.Err() == nil && !h.o.Closing() {
			h.o.Probes.suspect(h.o.Server)
			return fmt.Errorf("%w (%v)", ErrProbeKilled, h.o.Err())
		}
		return h.o.Err()
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no answer to the greeting: %w", ctx.Err())
	}
	if f := h.link.why.Load(); f != nil {
		return f
	}
	if known == EraInitialize {
		h.o.Probes.learn(h.o.Server, "") // perhaps the server speaks a newer version by now
	}
	if strings.Contains(err.Error(), "unsupported protocol version") {
		return fmt.Errorf("%w; this client speaks %s", err, strings.Join(ProtocolVersions, ", "))
	}
	return err
}

// probeTime is how long the probe may take.
func (h *Handshake) probeTime() time.Duration {
	if h.o.Remote {
		return remoteFactor * h.o.ProbeTimeout
	}
	return h.o.ProbeTimeout
}
