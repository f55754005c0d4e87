// Package jsonline reads JSON-RPC messages, one a line, from a stream that may
// hold anything: it finds the parts of a message without decoding them, so
// that what is passed on is byte for byte what was sent.
//
//	m, ok := jsonline.Scan([]byte(`{"jsonrpc":"2.0","id":7,"result":{"n":1.0}}`))
//	// ok, m.ID is `7`, m.Result is `{"n":1.0}`
//
// It leaves the meaning of a message to others, and the rest of JSON to jsontext.
package jsonline

import "github.com/aurorabot-dev/platform/internal/jsontext"

// Message is the top level of a JSON-RPC message. Its parts are raw JSON values
// that share the line's storage; nil means absent. As with encoding/json the
// last of several members with one name counts.
type Message struct {
	Version, ID, Method, Params, Result, Error []byte
}

// Scan finds the parts of line, and reports whether it is one valid JSON object.
func Scan(line []byte) (m Message, ok bool) {
	ok = jsontext.Members(line, func(name, value []byte) bool {
		switch string(name) {
		case "jsonrpc":
			m.Version = value
		case "id":
			m.ID = value
		case "method":
			m.Method = value
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Error = value
		}
		return true
	})
	if !ok {
		return Message{}, false
	}
	return m, true
}
