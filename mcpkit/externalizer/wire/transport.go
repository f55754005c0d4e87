// Package wire carries requests to an OpenAI-compatible endpoint for the client
// library, reads of the answers what the library does not pass on, and says what an
// error of the library means.
//
//	t := wire.New(nil, extras)
//	defer t.Close()
//	config.HTTPClient = t.Client()
//	…
//	f := wire.Explain(err, model, key) // f.Passing: asking again may help
//
// It asks for nothing itself and never asks again.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// DefaultBaseURL is the address of OpenAI's own API.
const DefaultBaseURL = "https://api.openai.com/v1"

const (
	maxAnswer    = 64 << 20 // bytes of one answer of the endpoint
	maxErrorBody = 64 << 10 // bytes of one that is a failure
	maxSSELine   = 16 << 20
)

// Transport reads what the client library does not pass on, and keeps from it
// what it cannot take: answers without end, and the comments with which some
// endpoints keep a stream alive. It carries one request at a time.
type Transport struct {
	base  http.RoundTripper
	close func()
	after time.Duration // Retry-After of the last answer; less than zero for none
	kind  string        // media type of the last answer that is no failure

	content bool // messages of calls get an empty content
	learned bool // the last answer told that they need it

	extras map[string]json.RawMessage // that go back with calls, by their ids
	extra  *extra                     // of the last answer
}

// New makes a Transport; base is what carries its requests, nil one of its own.
// extras are members that go back with calls in later requests, by the calls' ids;
// the map is read with each request.
func New(base http.RoundTripper, extras map[string]json.RawMessage) *Transport {
	t := &Transport{base: base, close: func() {}, after: -1, extras: extras, extra: &extra{}}
	if base == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		t.base, t.close = own, own.CloseIdleConnections
	}
	return t
}

// Close ends the connections that New made.
func (t *Transport) Close() { t.close() }

// Client is an HTTP client that uses t and follows no redirects.
func (t *Transport) Client() *http.Client {
	return &http.Client{Transport: t, CheckRedirect: refuseRedirect}
}

// After is how long the last answer asks to wait, or less than zero.
func (t *Transport) After() time.Duration { return t.after }

// Kind is the media type of the last answer that is no failure.
func (t *Transport) Kind() string { return t.kind }

// Done reports whether the last answer was a stream that said that it is whole.
func (t *Transport) Done() bool { return t.extra.done }

// Learned reports whether the last answer was a failure that the next request, the same
// one otherwise, avoids.
func (t *Transport) Learned() bool { return t.learned }

// Refused is the error that the last answer, where it was no stream, has in place
// of what was asked for or beside it, or nil.
func (t *Transport) Refused() error { return refused(t.extra.whole.Bytes()) }

// Extras are the members beyond the API that came with each of n calls of the last
// answer, and with the message that the calls are in; nil where there was nothing.
func (t *Transport) Extras(n int) (calls []json.RawMessage, message json.RawMessage) {
	return t.extra.of(n)
}

// refuseRedirect keeps a conversation from going where nobody sent it.
func refuseRedirect(req *http.Request, _ []*http.Request) error {
	return fmt.Errorf("%w to %s, which is not followed", errRedirect, req.URL.Redacted())
}

var (
	errRedirect = errors.New("the endpoint redirects")
	errPage     = errors.New("a web page answers there, no model; the base URL of most endpoints ends in /v1")
)

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.after, t.extra = -1, &extra{}
	t.learned = false
	if (len(t.extras) > 0 || t.content) && req.Body != nil {
		var err error
		if req, err = restore(req, t.extras, t.content); err != nil {
			return nil, err
		}
	}
	res, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		t.after = retryAfter(res.Header, time.Now())
		said, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		res.Body = body{&whole{rest: bytes.NewReader(said), err: err}, res.Body}
		t.learn(res.StatusCode, said)
		return res, nil
	}
	limited := &capped{r: res.Body, left: maxAnswer}
	switch t.kind, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type")); t.kind {
	case "text/html":
		res.Body.Close()
		return nil, errPage
	case "text/event-stream":
		res.Body = body{newDataLines(limited, t.extra.line), res.Body}
	default:
		res.Body = body{&whole{from: limited, see: &t.extra.whole}, res.Body}
	}
	return res, nil
}

// learn finds out that an endpoint misses the member content in messages of calls, which
// the API leaves out where there is no text, and which other endpoints refuse when it is
// empty.
func (t *Transport) learn(status int, said []byte) {
	if t.content || status != http.StatusBadRequest && status != http.StatusUnprocessableEntity && status != http.StatusInternalServerError {
		return
	}
	text := strings.ToLower(string(said))
	if strings.Contains(text, "content") && anyOf(text, "missing", "required", "keyerror", "must have", "undefined") {
		t.content, t.learned = true, true
	}
}

type body struct {
	io.Reader
	io.Closer
}

// capped is a reader that fails, rather than ends, past its limit.
type capped struct {
	r    io.Reader
	left int
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the endpoint's answer exceeds %d bytes", maxAnswer)
	}
	n, err := c.r.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// dataLines passes on only the data lines of an event stream.
type dataLines struct {
	lines *bufio.Scanner
	see   func(data []byte) // each line's data
	rest  []byte
}

func newDataLines(r io.Reader, see func([]byte)) *dataLines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxSSELine)
	return &dataLines{lines: s, see: see}
}

func (d *dataLines) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		more := d.lines.Scan()
		switch err := d.lines.Err(); { // also beside the piece of a line that came before it
		case errors.Is(err, bufio.ErrTooLong):
			return 0, fmt.Errorf("a line of the endpoint's answer exceeds %d bytes", maxSSELine)
		case err != nil:
			return 0, err
		case !more:
			return 0, io.EOF
		}
		line := d.lines.Bytes()
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = bytes.TrimSpace(data)
			if err := refused(data); err != nil {
				return 0, err
			}
			data = lenient(data, &openai.ChatCompletionStreamResponse{})
			d.see(data)
			d.rest = append(append(append(d.rest[:0], "data: "...), data...), '\n')
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// whole passes on an answer that is no stream, once all of it is there.
type whole struct {
	from io.Reader
	see  *bytes.Buffer // gets the answer
	rest *bytes.Reader // nil until the answer was read
	err  error         // how the answer ended, other than by its end
}

func (w *whole) Read(p []byte) (int, error) {
	if w.rest == nil {
		var data []byte
		if data, w.err = io.ReadAll(w.from); w.err == nil {
			data = lenient(data, &openai.ChatCompletionResponse{})
		}
		w.see.Write(data)
		w.rest = bytes.NewReader(data)
	}
	n, err := w.rest.Read(p)
	if err == io.EOF && w.err != nil {
		err = w.err
	}
	return n, err
}

// refused is the error that an answer has in place of what was asked for, or beside
// it, or nil: once an answer has begun, its status cannot say any more that it
// failed. The error is an object as the API's, or a text.
func refused(answer []byte) error {
	var a struct {
		Error json.RawMessage `json:"error"`
	}
	if !bytes.Contains(answer, []byte(`"error"`)) || json.Unmarshal(answer, &a) != nil {
		return nil
	}
	switch string(a.Error) {
	case "", "null", "false", `""`, "{}":
		return nil
	}
	e := &openai.APIError{}
	if json.Unmarshal(a.Error, e) != nil || e.Message == "" {
		e.Message = string(a.Error)
	}
	return e
}

// retryAfter is how long an answer asks to wait (RFC 9110, section 10.2.3), or
// less than zero when it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return -1
}

// CheckURL refuses what would send a key in the clear to another machine.
func CheckURL(base string, key bool) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the base URL must be an http or https URL, such as " + DefaultBaseURL)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	if u.Scheme == "http" && key && !local {
		return fmt.Errorf("the key would go to %s in the clear: use https", u.Host)
	}
	return nil
}
