package session

import (
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/asking"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/signals"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// openError says that a session could not be opened with a server that wrote what is
// no message of the protocol.
type openError struct {
	error
	junk string // the first of it, fit for a terminal
}

func (e *openError) Unwrap() error { return e.error }

// Evidence says for a person what the server wrote in place of messages.
func (e *openError) Evidence() string {
	what := "its standard output has lines that are no JSON-RPC messages, the first: " + e.junk
	switch {
	case strings.HasPrefix(strings.ToLower(e.junk), "content-length:"):
		what += " (messages are one line each, without headers)"
	case e.junk == "{" || e.junk == "[":
		what += " (a message must be on one line)"
	case strings.Contains(e.junk, `\x00`):
		what += " (the encoding must be UTF-8)"
	}
	return what
}

// peer is a session as its connection sees it.
type peer struct{ s *Session }

func (p peer) Alive() { p.s.alive() }

func (p peer) Notified(method string, params []byte, owned bool) { p.s.notified(method, params, owned) }

func (p peer) Asked(method string, m jsonline.Message, origin any) {
	in, _ := origin.(*asking.Call)
	p.s.asking.Asked(method, m, in)
}

func (p peer) Answered(id int64, m jsonline.Message) bool { return p.s.hands.Answered(id, m) }

func (p peer) Failed(id int64, why *fault.Error) { p.s.hands.Failed(id, why) }

func (p peer) Late(id int64) {
	p.s.signals.Count(signals.CountLate)
	p.s.log.Debug("an answer came after its request was given up", "id", id)
}

func (p peer) Report(code, detail string, sample []byte) {
	if code == rpc.ProblemJunk {
		text := rpc.Printable(sample)
		p.s.junk.CompareAndSwap(nil, &text)
	}
	p.s.Report(code, detail, sample)
}

func (p peer) Quiet() time.Duration { return p.s.asking.Quiet() }
