package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// receive deals with what arrived. It runs on the read loop: nothing in it may
// wait, except the peer for room for a signal.
func (c *Conn) receive(l Line) {
	if l.Failed != nil {
		c.failed(l.ID, fault.From(l.Failed))
		return
	}
	if l.Skipped > 0 {
		c.receiveTooLong(l)
		return
	}
	line := bytes.TrimSpace(bytes.TrimPrefix(l.Data, []byte("\uFEFF")))
	if len(line) == 0 {
		return
	}
	line = jsontext.Clean(line)
	if line[0] == '[' { // a batch (2025-03-26, basic: batching)
		var parts [][]byte
		if jsontext.Elements(line, func(v []byte) bool { parts = append(parts, v); return true }) && len(parts) > 0 {
			for _, part := range parts {
				c.receiveMessage(part, false, l.For)
			}
			return
		}
	}
	c.receiveMessage(line, l.Owned, l.For)
}

func (c *Conn) receiveMessage(line []byte, owned bool, in []byte) {
	m, ok := jsonline.Scan(line)
	switch {
	case !ok:
		c.receiveJunk(line)
	case m.Method != nil:
		// A log line may have a method too: the version tells them apart. An
		// answer is known by its id, so it may do without.
		var method string
		if string(m.Version) != `"2.0"` || json.Unmarshal(m.Method, &method) != nil {
			c.o.Peer.Report(ProblemJunk, "a JSON object that is no JSON-RPC message", line)
			return
		}
		if m.ID == nil || string(m.ID) == "null" {
			if method == methodProgress {
				c.progressed(m.Params)
				return
			}
			c.o.Peer.Notified(method, m.Params, owned)
		} else {
			c.o.Peer.Asked(method, m, c.origin(in))
		}
	case m.ID != nil && (m.Result != nil || m.Error != nil):
		c.answered(line, m, owned)
	default:
		c.o.Peer.Report(ProblemJunk, "a JSON object that is no JSON-RPC message", line)
	}
}

// receiveJunk reports what is no message. An answer that is no valid JSON will
// not come again: where its id can be read, its request fails at once.
func (c *Conn) receiveJunk(line []byte) {
	c.o.Peer.Report(ProblemJunk, "a line that is no JSON-RPC message", line)
	if line[0] != '{' {
		return
	}
	id, method := jsonline.Head(line)
	n, ok := Integer(id)
	if !ok || method != nil {
		return
	}
	if p, _ := c.requests.take(n); p != nil {
		p.answer <- answer{err: fault.New(fault.Protocol, "server %s sent an answer that is no valid JSON", c.o.Server).Unknown()}
		return
	}
	c.o.Peer.Answered(n, jsonline.Message{Error: []byte(`{"code":-32700,"message":"the answer is no valid JSON"}`)})
}

// failed ends a request of which the wire knows that no answer comes.
func (c *Conn) failed(id []byte, why *fault.Error) {
	n, ok := Integer(id)
	if !ok {
		return
	}
	if p, _ := c.requests.take(n); p != nil {
		p.answer <- answer{err: why}
		return
	}
	c.o.Peer.Failed(n, why)
}

func (c *Conn) receiveTooLong(l Line) {
	what := fmt.Sprintf("a message of %d bytes, the limit is %d", l.Skipped, c.o.MaxLine)
	c.o.Peer.Report(ProblemTooLong, what, bytes.Join([][]byte{l.ID, l.Method}, []byte(" ")))
	if l.Method != nil {
		if l.ID != nil && jsontext.Valid(l.ID) {
			c.Reply(l.ID, `"error":{"code":-32600,"message":`+Quote(what)+`}`)
		}
		return
	}
	n, ok := Integer(l.ID)
	if !ok {
		return
	}
	if p, _ := c.requests.take(n); p != nil {
		p.answer <- answer{err: fault.New(fault.ResultTooLarge,
			"the answer of server %s has %d bytes, the limit is %d", c.o.Server, l.Skipped, c.o.MaxLine).Unknown()}
		return
	}
	c.o.Peer.Answered(n, jsonline.Message{Error: []byte(`{"code":-32603,"message":` + Quote(what) + `}`)})
}

// answered gives an answer to the request that waits for it.
func (c *Conn) answered(line []byte, m jsonline.Message, owned bool) {
	id, ok := Integer(m.ID)
	if ok && id < FirstID && c.o.Peer.Answered(id, m) {
		return
	}
	if ok && id >= FirstID {
		p, late := c.requests.take(id)
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
		if late || c.requests.over() { // nobody waits for anything any more
			c.o.Peer.Late(id)
			return
		}
	}
	c.o.Peer.Report(ProblemUnmatched, "an answer to no open request", line)
}

// origin is the origin of the request with a raw id; nil where there is none.
func (c *Conn) origin(in []byte) any {
	if id, ok := Integer(in); ok {
		if p := c.requests.get(id); p != nil {
			return p.origin
		}
	}
	return nil
}

const methodProgress = "notifications/progress"

// progressed hands progress to its request; the latest replaces one that was
// not looked at yet.
func (c *Conn) progressed(params []byte) {
	id, ok := Integer(jsontext.Get(params, "progressToken"))
	if !ok {
		return
	}
	p := c.requests.get(id)
	if p == nil || p.progress == nil {
		return
	}
	latest := bytes.Clone(params)
	for {
		select {
		case p.progress <- latest:
			return
		default:
		}
		select {
		case <-p.progress:
		default:
		}
	}
}
