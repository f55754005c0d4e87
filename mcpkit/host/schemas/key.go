package schemas

import (
	"bytes"
	"encoding/json"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// WithKey is args with a call's idempotency key in them, where the tool's input
// schema has an argument for one that the caller left out: idempotency_key or
// idempotencyKey, which may be any text.
func WithKey(args, schema json.RawMessage, key string) json.RawMessage {
	var s struct {
		Properties map[string]map[string]json.RawMessage `json:"properties"`
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || json.Unmarshal(args, &given) != nil {
		return args
	}
	for _, name := range []string{"idempotency_key", "idempotencyKey"} {
		p, offered := s.Properties[name]
		if _, set := given[name]; !offered || set || string(p["type"]) != `"string"` {
			continue
		}
		free := true
		for word := range p {
			free = free && (word == "type" || word == "title" || word == "description")
		}
		if !free { // the key may not fit
			continue
		}
		i := bytes.IndexByte(args, '{') // where the object begins
		out := append(args[:i+1:i+1], '"')
		out = jsontext.AppendQuote(append(append(out, name...), `":`...), key)
		if len(given) > 0 {
			out = append(out, ',')
		}
		return append(out, args[i+1:]...)
	}
	return args
}
