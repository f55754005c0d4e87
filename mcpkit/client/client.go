// Package client keeps one session to each running MCP server (the
// MCPClientManager of the source documents) and their tools as one catalogue: it
// opens sessions, reads the servers' lists and reads them again when they change,
// and passes calls to the session of their server. It neither starts nor ends
// processes and knows no policy.
//
//	m, err := client.New(client.Options{Sink: sink, Logger: log})
//	s, err := m.Connect(ctx, session.Conn{Server: "im.polaris.weather", Stdin: in, Stdout: out})
//	res, err := m.Call(ctx, features.CallRequest{
//		Server: "im.polaris.weather", Tool: "get_weather",
//		Arguments: json.RawMessage(`{"city":"Oslo"}`),
//	})
//
// # Layers
//
// An [rpc.Wire] carries whole messages: package pipe over the pipes of a process,
// package httpwire over HTTP. Package session/rpc matches requests and answers over
// a wire, package session speaks the protocol with one server, and a [Manager]
// knows the sessions by server. The go-sdk negotiates; everything else (lists,
// calls, resources, prompts, liveness) goes past its decoding, so that results
// reach the caller byte for byte and cheaply.
//
// # Order
//
// Per session, signals reach the sink one at a time in the order in which the
// server sent what they tell of. A call returns as soon as its answer was read:
// an event that the server sent before the answer is then already in the
// session's queue, so it reaches the sink before any later event, but perhaps
// after the call has returned. What a server says while Connect still reads its
// tools may reach the sink before Connect has returned, unless [session.Conn].Hold is set.
//
// The first reading of a list is no signal: that the server is up says it
// already. Later differences are [signal.CapabilityChanged], which comes after
// the new catalogue was published, and only where the content differs.
//
// # Back-pressure
//
// Signals wait in one bounded queue per session. While it is full, nothing more
// is read from that server, its answers included: the pipe holds the server
// back, and nothing is dropped. Other servers do not notice. Only reports about
// bad behaviour ([signal.Problem]) and log messages beyond the rate are dropped,
// and those are counted.
package client

import (
	"log/slog"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Options configure a Manager. The zero value of each is a default.
type Options struct {
	Sink   signal.Sink    // where signals go; nil: nowhere
	Logger *slog.Logger   // nil: nothing is logged
	Eras   handshake.Eras // which servers to spare the probe; nil: remembered in memory

	Name, Version string        // what the platform calls itself; "aurora-platform", "0"
	ProbeTimeout  time.Duration // for an answer to server/discover; 1.5 s, over a Conn.Wire four times that
	QueueSignals  int           // signals waiting per session; 256
	QueueBytes    int           // bytes of notifications waiting per session; 8 MiB, or one
}
