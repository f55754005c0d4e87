package gateway

import (
	"bytes"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// cacheable marks results that say for how long they are good (2026-07-28,
// server/utilities/caching). It is for no time: changes are told of.
const cacheable = 1

// reply is an answer of the gateway's own, made of the members of its result.
func (r *request) reply(members []byte, flags int) []byte {
	b := make([]byte, 0, 256+len(members))
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), r.ID...), `,"result":{`...)
	if r.modern {
		b = append(b, `"resultType":"complete",`...)
		if flags&cacheable != 0 {
			b = append(b, `"ttlMs":0,"cacheScope":"private",`...)
		}
		b = append(append(append(b, `"_meta":{"`+rpc.KeyServer+`":`...), r.c.g.self...), '}')
		if len(members) > 0 {
			b = append(b, ',')
		}
	}
	return append(append(b, members...), "}}"...)
}

var ours = []byte(`"io.modelcontextprotocol/`)

// pass is an answer whose result a server gave: as it is, but for what each hop
// says of itself under the stateless protocol.
func (r *request) pass(raw []byte, flags int) []byte {
	if !r.modern && !bytes.Contains(raw, ours) {
		return rpc.Result(r.ID, raw)
	}
	b := make([]byte, 0, 256+len(raw))
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), r.ID...), `,"result":{`...)
	begun := len(b)
	typed, ttl, scope, signed := false, false, false, false
	jsontext.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "resultType":
			typed = true
		case "ttlMs":
			ttl = true
		case "cacheScope":
			scope = true
		case "_meta":
			if signed = r.modern; signed {
				value = rpc.With(value, rpc.KeyServer, r.c.g.self)
			} else if value = rpc.With(value, "", nil, rpc.KeyServer); len(value) == len("{}") {
				return true
			}
		}
		if len(b) > begun {
			b = append(b, ',')
		}
		b = append(append(jsontext.AppendQuote(b, name), ':'), value...)
		return true
	})
	add := func(member string) {
		if len(b) > begun {
			b = append(b, ',')
		}
		b = append(b, member...)
	}
	if r.modern && !typed {
		add(`"resultType":"complete"`)
	}
	if r.modern && !signed {
		add(`"_meta":{"` + rpc.KeyServer + `":` + string(r.c.g.self) + "}")
	}
	if r.modern && flags&cacheable != 0 && !(ttl && scope) {
		if !ttl {
			add(`"ttlMs":0`)
		}
		if !scope {
			add(`"cacheScope":"private"`)
		}
	}
	return append(b, "}}"...)
}
