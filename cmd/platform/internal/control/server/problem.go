package server

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

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// statusError is a failure that is HTTP's own matter.
type statusError struct {
	status int
	fault  *fault.Error
}

func (e *statusError) Error() string { return e.fault.Error() }

func refuse(status int, code, format string, args ...any) error {
	return &statusError{status, fault.New(code, format, args...)}
}

// bad is a request that cannot be read.
func bad(format string, args ...any) error {
	return refuse(http.StatusBadRequest, control.InvalidRequest, format, args...)
}

// status maps failures to HTTP. What a server did is a bad gateway's.
func status(f *fault.Error) int {
	switch f.Code {
	case fault.ToolNotFound, control.ServerNotFound, control.ApprovalNotFound, control.PromptNotFound, control.InputNotFound:
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
	case fault.ServerNotReady, fault.NotRecorded, fault.Interrupted, control.ShuttingDown:
		return http.StatusServiceUnavailable
	case fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}

// problem is an error as it goes over the wire.
func problem(err error) control.Problem {
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

func fail(w http.ResponseWriter, err error) {
	p := problem(err)
	body, err := json.Marshal(p)
	if err != nil { // data that is no JSON
		p.Data = nil
		body, _ = json.Marshal(p)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

func reply(w http.ResponseWriter, v any) { replyStatus(w, http.StatusOK, v) }

func replyStatus(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // results stay as their servers wrote them
	if err := enc.Encode(v); err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body.Bytes())
}

// decode reads a request's body, one JSON object without unknown or repeated members.
func (a *api) decode(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.limits.body))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, control.RequestTooLarge, "a request may have %d bytes", a.limits.body)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, control.RequestTimeout, "the request's body did not come within %s", a.limits.stall)
	}
	if err != nil {
		return bad("the request's body did not come whole: %v", err)
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // from here on a read only tells that the client left
	if err := strict.Object(body, into); err != nil {
		return bad("the request's body cannot be read: %v", err)
	}
	return nil
}

// flag is a parameter that is true or false; without it, it is false.
func flag(q url.Values, name string) (bool, error) {
	switch v := q.Get(name); v {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	default:
		return false, bad("%s is true or false, not %q", name, v)
	}
}

// number is a parameter from 0 to highest; without it, it is otherwise.
func number(q url.Values, name string, otherwise, highest int) (int, error) {
	if !q.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 || n > highest {
		return 0, bad("%s is a number from 0 to %d, not %q", name, highest, q.Get(name))
	}
	return n, nil
}

func respond(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, v)
}
