package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// receive deals with what arrived. It runs on the read loop: nothing in it
// waits, except for room for a signal.
func (s *Session) receive(l Line) {
	if l.Failed != nil {
		s.failed(l.ID, fault.From(l.Failed))
		return
	}
	if l.Skipped > 0 {
		s.receiveTooLong(l)
		return
	}
	line := bytes.TrimSpace(bytes.TrimPrefix(l.Data, []byte("\uFEFF")))
	if len(line) == 0 {
		return
	}
	line = jsonline.Clean(line)
	if line[0] == '[' { // a batch (2025-03-26, basic: batching)
		var parts [][]byte
		if jsonline.Elements(line, func(v []byte) { parts = append(parts, v) }) && len(parts) > 0 {
			for _, part := range parts {
				s.receiveMessage(part, false, l.For)
			}
			return
		}
	}
	s.receiveMessage(line, l.Owned, l.For)
}

func (s *Session) receiveMessage(line []byte, owned bool, in []byte) {
	m, ok := jsonline.Scan(line)
	switch {
	case !ok:
		s.receiveJunk(line)
	case m.Method != nil:
		// A log line may have a method too: the version tells them apart. An
		// answer is known by its id, so it may do without.
		var method string
		if string(m.Version) != `"2.0"` || json.Unmarshal(m.Method, &method) != nil {
			s.report(problemJunk, "a JSON object that is no JSON-RPC message", line)
			return
		}
		if m.ID == nil || string(m.ID) == "null" {
			s.notified(method, m.Params, owned)
		} else {
			s.asked(method, m, in)
		}
	case m.ID != nil && (m.Result != nil || m.Error != nil):
		s.answered(line, m, owned)
	default:
		s.report(problemJunk, "a JSON object that is no JSON-RPC message", line)
	}
}

// receiveJunk reports what is no message. An answer that is no valid JSON will
// not come again: where its id can be read, its request fails at once.
func (s *Session) receiveJunk(line []byte) {
	s.report(problemJunk, "a line that is no JSON-RPC message", line)
	if line[0] != '{' {
		return
	}
	id, method := jsonline.Head(line)
	n, ok := integer(id)
	if !ok || method != nil {
		return
	}
	if p, _ := s.requests.take(n); p != nil {
		p.answer <- answer{err: fault.New(fault.Protocol, "server %s sent an answer that is no valid JSON", s.server).Unknown()}
		return
	}
	s.link.answered(n, jsonline.Message{Error: []byte(`{"code":-32700,"message":"the answer is no valid JSON"}`)})
}

// failed ends a request of which the wire knows that no answer comes.
func (s *Session) failed(id []byte, why *fault.Error) {
	n, ok := integer(id)
	if !ok {
		return
	}
	if p, _ := s.requests.take(n); p != nil {
		p.answer <- answer{err: why}
		return
	}
	s.link.failed(n, why)
}

func (s *Session) receiveTooLong(l Line) {
	what := fmt.Sprintf("a message of %d bytes, the limit is %d", l.Skipped, s.cfg.MaxLine)
	s.report(problemTooLong, what, bytes.Join([][]byte{l.ID, l.Method}, []byte(" ")))
	if l.Method != nil {
		if l.ID != nil && jsonline.Valid(l.ID) {
			s.reply(l.ID, `"error":{"code":-32600,"message":`+quote(what)+`}`)
		}
		return
	}
	n, ok := integer(l.ID)
	if !ok {
		return
	}
	if p, _ := s.requests.take(n); p != nil {
		p.answer <- answer{err: fault.New(fault.ResultTooLarge,
			"the answer of server %s has %d bytes, the limit is %d", s.server, l.Skipped, s.cfg.MaxLine).Unknown()}
		return
	}
	s.link.answered(n, jsonline.Message{Error: []byte(`{"code":-32603,"message":` + quote(what) + `}`)})
}

// answered gives an answer to the request that waits for it.
func (s *Session) answered(line []byte, m jsonline.Message, owned bool) {
	id, ok := integer(m.ID)
	if ok && id < firstID && s.link.answered(id, m) {
		return
	}
	if ok && id >= firstID {
		p, late := s.requests.take(id)
		if p != nil {
			a := answer{result: m.Result, problem: m.Error}
			if !owned {
				a = answer{result: bytes.Clone(m.Result), problem: bytes.Clone(m.Error)}
			}
			if a.problem != nil && string(a.problem) == "null" && a.result != nil {
				a.problem = nil // some servers send both, one of them null
			}
			p.answer <- a
			return
		}
		if late || s.closing.Load() { // nobody waits for anything any more
			s.count(countLate)
			s.log.Debug("an answer came after its request was given up", "id", id)
			return
		}
	}
	s.report(problemUnmatched, "an answer to no open request", line)
}

// reply answers a request of the server. The answer is dropped when the server
// does not read while megabytes wait.
func (s *Session) reply(id []byte, outcome string) {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), oneLine(id)...)
	s.wire.TrySend(append(append(append(b, ','), outcome...), '}'))
}

// quote is v as a JSON string.
func quote(v string) string {
	b, _ := json.Marshal(v) // a string always marshals
	return string(b)
}
