package rpc

import (
	"bytes"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// Form says how the result of one request is written.
type Form struct {
	ID        []byte // of the request
	Stateless bool   // the result says of itself what 2026-07-28 wants
	Server    []byte // serverInfo
	// Cacheable results say for how long they are good (2026-07-28,
	// server/utilities/caching). These are good for no time: clients are told of changes.
	Cacheable bool
}

const cacheTerms = `"ttlMs":0,"cacheScope":"private"`

// Own is the answer with a result of the gateway's own, which is given by its
// members.
func (f Form) Own(members []byte) []byte {
	b := make([]byte, 0, 256+len(members))
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), f.ID...), `,"result":{`...)
	if f.Stateless {
		b = append(b, `"resultType":"complete",`...)
		if f.Cacheable {
			b = append(b, cacheTerms+`,`...)
		}
		b = append(append(append(b, `"_meta":{"`+KeyServer+`":`...), f.Server...), '}')
		if len(members) > 0 {
			b = append(b, ',')
		}
	}
	return append(append(b, members...), "}}"...)
}

var ownKeys = []byte(`"io.modelcontextprotocol/`)

// Pass is the answer with a server's result. The result is passed on byte for byte,
// except for the members in which, under the stateless protocol, each hop speaks of
// itself.
func (f Form) Pass(raw []byte) []byte {
	if !f.Stateless && !bytes.Contains(raw, ownKeys) {
		return Result(f.ID, raw)
	}
	b := make([]byte, 0, 256+len(raw))
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), f.ID...), `,"result":{`...)
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
			if signed = f.Stateless; signed {
				value = With(value, KeyServer, f.Server)
			} else if value = With(value, "", nil, KeyServer); len(value) == len("{}") {
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
	if f.Stateless && !typed {
		add(`"resultType":"complete"`)
	}
	if f.Stateless && !signed {
		add(`"_meta":{"` + KeyServer + `":`)
		b = append(append(b, f.Server...), '}')
	}
	if f.Stateless && f.Cacheable && !ttl {
		add(`"ttlMs":0`)
	}
	if f.Stateless && f.Cacheable && !scope {
		add(`"cacheScope":"private"`)
	}
	return append(b, "}}"...)
}
