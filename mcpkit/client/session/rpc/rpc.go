// Package rpc carries JSON-RPC requests to one server and their answers back: it
// counts ids, writes requests, finds the request that an answer belongs to, keeps
// deadlines, grants time for progress, and cancels what is given up. It survives
// servers that send what is no message. It knows no method but those of
// cancellation and progress, and neither starts a connection nor agrees on a
// version of the protocol.
//
//	c := rpc.New(wire, rpc.Options{Server: "weather", Peer: peer, Timeout: time.Minute, MaxTime: time.Hour})
//	go c.Run()
//	result, err := c.Do(ctx, rpc.Request{Method: "resources/list"})
package rpc

import (
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// Codes of what a server does wrong, for [Peer].Report.
const (
	ProblemJunk      = "stdout_junk"
	ProblemUnmatched = "unmatched_response"
	ProblemTooLong   = "line_too_long"
)

// MethodCancelled tells the other side that nobody waits for an answer any more
// (2025-11-25, basic/utilities/cancellation).
const MethodCancelled = "notifications/cancelled"

// Peer hears what arrives beside the answers to requests of this package. Its
// methods are called by the goroutine of [Conn.Run], one at a time and in the
// order of arrival, except Quiet, which is called by those of [Conn.Do].
type Peer interface {
	// Alive is told that something arrived.
	Alive()
	// Notified is told of a notification. params is valid until the method
	// returns, and for good if owned.
	Notified(method string, params []byte, owned bool)
	// Asked is told of a request of the server. origin is [Request].Origin of the
	// request in whose answer it came; nil where that is not known.
	Asked(method string, m jsonline.Message, origin any)
	// Answered is told of an answer to an id that this package does not use. It
	// reports false where nobody else has used that id either.
	Answered(id int64, m jsonline.Message) bool
	// Failed is told that the request with such an id failed on its way.
	Failed(id int64, why *fault.Error)
	// Late is told of an answer to a request that was given up.
	Late(id int64)
	// Report is told what the server does wrong: a code, what it is in words, and
	// the beginning of what it sent.
	Report(code, detail string, sample []byte)
	// Quiet is for how long the server has not waited for an answer to a request
	// of its own. That time alone counts towards a request's timeout.
	Quiet() time.Duration
}

// Options configure a Conn. All fields are required.
type Options struct {
	Server  string // its name, for messages
	Peer    Peer
	Timeout time.Duration // for a request, counted anew with each progress
	MaxTime time.Duration // for a request in all, however much it progresses
	MaxLine int           // bytes of a message from the server, for messages
	Ended   string        // code of the fault where the server takes no more requests
}

// Conn is the requests over one wire. It is safe for concurrent use.
type Conn struct {
	o        Options
	wire     Wire
	requests requests
}

// New makes a Conn over a wire, whose messages nobody else receives.
func New(w Wire, o Options) *Conn { return &Conn{o: o, wire: w} }

// Run reads until the wire ends, and returns why.
func (c *Conn) Run() error {
	for {
		l, err := c.wire.Receive()
		if err != nil {
			return err
		}
		if l.Failed == nil {
			c.o.Peer.Alive()
		}
		c.receive(l)
	}
}

// Close fails all requests, those to come too. With tell the server is told of
// each that it had not answered.
func (c *Conn) Close(cause *fault.Error, tell bool) {
	for _, id := range c.requests.close(cause) {
		if tell {
			c.Cancel(id, cause.Message)
		}
	}
}

// Cancel tells the server that nobody waits for the answer to a request any more
// (2025-11-25, basic/utilities/cancellation).
func (c *Conn) Cancel(id int64, reason string) { c.wire.TrySend(cancelled(id, reason)) }

// Reply answers a request of the server that has a raw id; outcome is the member
// result or error. The answer is dropped when the server does not read while
// megabytes wait.
func (c *Conn) Reply(id []byte, outcome string) {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), OneLine(id)...)
	c.wire.TrySend(append(append(append(b, ','), outcome...), '}'))
}
