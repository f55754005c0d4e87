package session

import (
	"bytes"
	"encoding/json"

	"golang.org/x/time/rate"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const (
	methodEvent   = "aurora/event" // also the logger of events that come as log messages
	methodAck     = "aurora/ack"
	methodMessage = "notifications/message"
)

// notified deals with a notification, on the read loop.
func (s *Session) notified(method string, params []byte, owned bool) {
	switch method {
	case methodEvent:
		s.appEvent(params, owned)
	case methodMessage:
		if jsontext.String(jsontext.Get(params, "logger")) == methodEvent {
			s.appEvent(tunnelled(params), owned)
			return
		}
		if !s.logs.allow() {
			s.Report(problemLogFlood, "log messages beyond the rate were not passed on", nil)
			return
		}
		s.passOn(method, params, owned)
	case rpc.MethodCancelled:
		s.asking.Cancel(string(jsontext.Get(params, "requestId")))
	case methodUpdated:
		s.updated(params, owned)
	case "notifications/subscriptions/acknowledged":
		s.stream.Acknowledged(params)
	case "notifications/elicitation/complete", "notifications/initialized":
	default:
		// list_changed of what the server offers leads to capability.changed if
		// there is a change; of anything else it is a word like any other.
		if !s.owner.ListChanged(method) {
			s.passOn(method, params, owned)
			return
		}
		s.Client.ListChanged(method)
	}
}

func (s *Session) passOn(method string, params []byte, owned bool) {
	if !owned {
		params = bytes.Clone(params)
	}
	s.Emit(signal.Signal{Kind: signal.Notification, Method: method, Params: params})
}

// appEvent passes an app's event on as it came; the bridge judges it.
func (s *Session) appEvent(params []byte, owned bool) {
	if !owned {
		params = bytes.Clone(params)
	}
	sig := signal.Signal{Kind: signal.AppEvent, Method: methodEvent, Params: params}
	if s.acks.Load() {
		sig.Ack = s.ack
	}
	s.Emit(sig)
}

// tunnelled is the event in the params of a log message: its data, or the
// object that its data holds as text.
func tunnelled(params []byte) []byte {
	data := jsontext.Get(params, "data")
	if inside := []byte(jsontext.String(data)); jsontext.IsObject(inside) {
		return jsontext.Clean(inside)
	}
	return data
}

// ack tells the app what became of its event. It does not wait: where the app
// does not read, acknowledgements are dropped, and it asks again by resending.
func (s *Session) ack(a signal.Ack) {
	b, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", methodAck, struct {
		ID     string `json:"message_id"`
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{a.ID, a.Status, a.Reason}})
	if err == nil && !s.wire.TrySend(b) {
		s.log.Debug("an acknowledgement was dropped", "id", a.ID)
	}
}

// Codes of reports, in signal.Fault, beside those of package rpc.
const (
	problemLogFlood    = "log_flood"
	problemUpdateFlood = "update_flood"
	ProblemTool        = "tool_dropped"
)

// logLimit is how many log messages of one server are passed on.
type logLimit struct{ l *rate.Limiter }

func newLogLimit() logLimit { return logLimit{rate.NewLimiter(20, 100)} }

func (l logLimit) allow() bool { return l.l.Allow() }
