package rpc

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Codes of JSON-RPC and of the protocol.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeNoMethod       = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeBusy           = -32000
	CodeHeaderMismatch = -32020 // 2026-07-28: a header contradicts the body
	CodeNoCapability   = -32021
	CodeVersion        = -32022
)

// Error is a JSON-RPC error.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
	id      []byte // of the request that is answered; nil: unknown
}

func (e *Error) Error() string { return e.Message }

// Reply is the whole answer.
func (e *Error) Reply() []byte {
	id := e.id
	if id == nil {
		id = []byte("null")
	}
	b := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"error":{"code":`...)
	b = append(strconv.AppendInt(b, int64(e.Code), 10), `,"message":`...)
	b = append(b, Quote(e.Message)...)
	if e.Data != nil {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return append(b, "}}"...)
}

// Status is the HTTP status that the stateless protocol wants with an error
// (2026-07-28, basic/transports).
func (e *Error) Status() int {
	switch e.Code {
	case CodeNoMethod:
		return http.StatusNotFound
	case CodeParse, CodeInvalidRequest, CodeInvalidParams, CodeHeaderMismatch, CodeNoCapability, CodeVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// For is the error as the answer to a message.
func (e *Error) For(m *Message) *Error {
	out := *e
	out.id = m.ID
	return &out
}

// UnsupportedVersion is the answer to a request in a revision that is not taken.
func UnsupportedVersion(version string) *Error {
	data, _ := json.Marshal(map[string]any{"supported": Versions, "requested": version}) // strings always marshal
	return &Error{Code: CodeVersion, Message: "this protocol version is not supported", Data: data}
}

// ErrorOf is an error of the platform or of a server as JSON-RPC. The error with
// which a server answered keeps its code, message and data.
func ErrorOf(err error) *Error {
	f := fault.From(err)
	if f.Code == fault.Protocol {
		if code, err := strconv.Atoi(string(jsontext.Get(f.Data, "code"))); err == nil {
			message, _ := Text(jsontext.Get(f.Data, "message"))
			return &Error{Code: code, Message: message, Data: jsontext.Get(f.Data, "data")}
		}
	}
	out := &Error{Code: CodeInternal, Message: f.Message}
	switch f.Code {
	case fault.ToolNotFound, fault.InvalidArguments, fault.AmbiguousCall:
		out.Code = CodeInvalidParams
	case fault.Busy:
		out.Code = CodeBusy
	}
	out.Data, _ = json.Marshal(f) // a fault always marshals, or there is no data
	return out
}

// MissingVersion is the answer to a request whose header names the stateless
// protocol and whose _meta does not.
var MissingVersion = &Error{Code: CodeInvalidParams, Message: "_meta has no " + KeyVersion}
