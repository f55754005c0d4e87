package session

import (
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/asking"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/signals"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

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

func (p peer) Report(code, detail string, sample []byte) { p.s.Report(code, detail, sample) }

func (p peer) Quiet() time.Duration { return p.s.asking.Quiet() }
