// Package httpjson reads requests in JSON and writes answers in JSON, and failures
// as application/problem+json (RFC 9457). It knows which status a failure has, and
// nothing of what is asked for. For example:
//
//	var in control.Answer
//	if err := httpjson.Decode(w, r, httpjson.Bounds{Bytes: 1 << 20, Wait: time.Minute}, &in); err != nil {
//		httpjson.Fail(w, err)
//		return
//	}
//	httpjson.Reply(w, out)
package httpjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Defect is the failure of a request that met a panic.
var Defect = fault.New(fault.Internal, "the platform met a defect of its own; its log says more")

// statusError is a failure that is HTTP's own matter.
type statusError struct {
	status int
	fault  *fault.Error
}

func (e *statusError) Error() string { return e.fault.Error() }

// Refuse is a failure with a status of its own, where none follows from its code.
func Refuse(status int, code, format string, args ...any) error {
	return WithStatus(status, fault.New(code, format, args...))
}

// WithStatus is a failure with a status of its own.
func WithStatus(status int, f *fault.Error) error { return &statusError{status, f} }

// Bad is the failure of a request that cannot be read.
func Bad(format string, args ...any) error {
	return Refuse(http.StatusBadRequest, control.InvalidRequest, format, args...)
}

// status maps failures to HTTP. What a server did is a bad gateway's.
func status(f *fault.Error) int {
	switch f.Code {
	case fault.ToolNotFound, control.ServerNotFound, control.ApprovalNotFound, control.PromptNotFound, control.InputNotFound, history.CallNotFound:
		return http.StatusNotFound
	case fault.AmbiguousCall, fault.InvalidArguments, control.UnknownProfile:
		return http.StatusBadRequest
	case fault.Denied, fault.ApprovalRequired:
		return http.StatusForbidden
	case fault.Cancelled, fault.DuplicateCall, control.ApprovalDecided, review.CatalogChanged:
		return http.StatusConflict
	case fault.Timeout:
		return http.StatusGatewayTimeout
	case fault.Busy, fault.RateLimited:
		return http.StatusTooManyRequests
	case fault.ServerNotReady, fault.NotRecorded, fault.Interrupted, control.ShuttingDown, history.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}

// Problem is an error as it goes over the wire.
func Problem(err error) control.Problem {
	f := fault.From(err)
	var code int
	if se, ok := errors.AsType[*statusError](err); ok {
		f, code = se.fault, se.status
	} else {
		code = status(f)
	}
	return control.Problem{
		Title: http.StatusText(code), Status: code, Detail: f.Message,
		Code: f.Code, Message: f.Message, Retryable: f.Retryable, Outcome: string(f.Outcome),
		Candidates: f.Candidates, Data: f.Data, Replayed: f.Replayed,
	}
}

// Fail answers with a failure.
func Fail(w http.ResponseWriter, err error) {
	p := Problem(err)
	body, err := json.Marshal(p)
	if err != nil { // data that is no JSON
		p.Data = nil
		body, _ = json.Marshal(p)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// Reply answers with a value and status 200.
func Reply(w http.ResponseWriter, v any) { ReplyStatus(w, http.StatusOK, v) }

// ReplyStatus answers with a value.
func ReplyStatus(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // results stay as their servers wrote them
	if err := enc.Encode(v); err != nil {
		Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body.Bytes())
}

// Bounds are those of a request's body.
type Bounds struct {
	Bytes int64         // how long the body may be
	Wait  time.Duration // how long it may take to come; [Decode] only names it, whoever reads the header sets it
}

// Decode reads a request's body, one JSON object without unknown or repeated members.
func Decode(w http.ResponseWriter, r *http.Request, b Bounds, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.Bytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Refuse(http.StatusRequestEntityTooLarge, control.RequestTooLarge, "a request may have %d bytes", b.Bytes)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Refuse(http.StatusRequestTimeout, control.RequestTimeout, "the request's body did not come within %s", b.Wait)
	}
	if err != nil {
		return Bad("the request's body did not come whole: %v", err)
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // from here on a read only tells that the client left
	if err := strict.Object(body, into); err != nil {
		return Bad("the request's body cannot be read: %v", err)
	}
	return nil
}

// Flag is a parameter that is true or false; without the parameter it is false.
func Flag(q url.Values, name string) (bool, error) {
	switch v := q.Get(name); v {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	default:
		return false, Bad("%s is true or false, not %q", name, v)
	}
}

// Number is a parameter from 0 to highest; without the parameter it is otherwise.
func Number(q url.Values, name string, otherwise, highest int) (int, error) {
	if !q.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 || n > highest {
		return 0, Bad("%s is a number from 0 to %d, not %q", name, highest, q.Get(name))
	}
	return n, nil
}

// Respond answers with a value or, if err is one, with a failure.
func Respond(w http.ResponseWriter, v any, err error) {
	if err != nil {
		Fail(w, err)
		return
	}
	Reply(w, v)
}
