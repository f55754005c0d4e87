package httpwire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

const (
	maxRefusal = 64 << 10 // bytes of an answer that is no success
	maxQuote   = 160      // characters of it in a message
)

// refused makes what it can of an answer that is no success: a line, where it
// holds a JSON-RPC error, or a fault.
func (w *Wire) refused(resp *http.Response, x *exchange) *fault.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is of it
	m, isMessage := jsonline.Scan(bytes.TrimSpace(body))
	isMessage = isMessage && m.Error != nil
	if x.method != "initialize" && w.forgotten(resp, m, isMessage) {
		return fault.New(fault.SessionExpired, "server %s has forgotten the session; %s was not carried out, and a new session is opened", w.o.Name, x.method).Retry()
	}
	ours := isMessage && sameID(m.ID, x.id)
	anonymous := isMessage && (m.ID == nil || string(m.ID) == "null")
	code := resp.StatusCode
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusTooManyRequests:
	case ours, anonymous && code >= 400 && code < 500:
		// The error itself, in an answer to this request.
		b := append([]byte(`{"jsonrpc":"2.0","id":`), x.id...)
		b = append(append(append(b, `,"error":`...), m.Error...), '}')
		w.deliver(client.Line{Data: b, Owned: true})
		return nil
	}
	f := w.statusFault(resp, body, x.method)
	if isMessage {
		f.Data = bytes.Clone(m.Error)
	}
	if code == http.StatusTooManyRequests {
		f.Data, _ = json.Marshal(map[string]int64{"retry_after_ms": retryAfter(resp).Milliseconds()}) // a number marshals
	}
	return f
}

// forgotten reports whether the answer says that there is no such session. The
// protocol has 404 for it (2025-11-25, basic/transports: session management);
// some servers send 400 and say it in words.
func (w *Wire) forgotten(resp *http.Response, m jsonline.Message, isMessage bool) bool {
	if resp.Request.Header.Get(headerSession) == "" {
		return false
	}
	if resp.StatusCode == http.StatusBadRequest && isMessage && (m.ID == nil || string(m.ID) == "null") {
		return strings.Contains(strings.ToLower(text(jsonline.Get(m.Error, "message"))), "session")
	}
	return resp.StatusCode == http.StatusNotFound
}

// statusFault is the fault of a status that is no success.
func (w *Wire) statusFault(resp *http.Response, body []byte, method string) *fault.Error {
	said := fmt.Sprintf("server %s answered %s with status %d %s", w.o.Name, method, resp.StatusCode, http.StatusText(resp.StatusCode))
	if q := quote(body); q != "" {
		said += ": " + q
	}
	html := mediaType(resp) == "text/html"
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fault.New(fault.NeedsAuth, "%s", said)
	case code == http.StatusTooManyRequests:
		if d := retryAfter(resp); d > 0 {
			said += fmt.Sprintf("; it asks to wait for %v", d)
		}
		return fault.New(fault.RateLimited, "%s", said).Retry()
	case code >= 500:
		return fault.New(fault.Unavailable, "%s", said).Unknown()
	case code >= 300 && code < 400:
		if to, err := resp.Location(); err == nil {
			to.User, to.RawQuery, to.Fragment = nil, "", ""
			return fault.New(fault.HTTPStatus, "server %s redirects %s to %s, which is not followed; if it is right, make it the url", w.o.Name, method, to)
		}
		return fault.New(fault.HTTPStatus, "%s", said)
	case html:
		return fault.New(fault.NotMCP, "%s", said)
	}
	return fault.New(fault.HTTPStatus, "%s", said)
}

// retryAfter is how long the server asks to wait, or 0 (RFC 9110, section
// 10.2.3).
func retryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at).Round(time.Second))
	}
	return 0
}

var errHeaderTime = errors.New("no answer began in time")

// failed is the fault of a request that got no answer at all. Sent says that
// something of it may have been.
func (w *Wire) failed(err error, sent bool, method string) *fault.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL may hold secrets
	}
	switch {
	case errors.Is(err, errHeaderTime) && sent:
		return fault.New(fault.Timeout, "server %s did not begin to answer %s in time", w.o.Name, method).Unknown()
	case sent:
		return fault.New(fault.ConnectionLost, "the connection to server %s broke before %s was answered: %s", w.o.Name, method, cause(err)).Unknown()
	}
	f := fault.New(fault.Unreachable, "server %s cannot be reached: %s", w.o.Name, cause(err))
	var wrong *tls.CertificateVerificationError
	var name x509.HostnameError
	if !errors.As(err, &wrong) && !errors.As(err, &name) { // it will be no better the next time
		f.Retry()
	}
	return f
}

// cut is the fault of an answer that began and did not end.
func (w *Wire) cut(err error, method string) *fault.Error {
	return fault.New(fault.ConnectionLost, "the connection to server %s broke in the answer to %s: %s", w.o.Name, method, cause(err)).Unknown()
}

func cause(err error) string {
	switch {
	case errors.Is(err, errHeaderTime), errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it was closed"
	}
	return err.Error()
}

func mediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// quote is the start of a body for a message: of HTML only the text, on one
// line, without what cannot be printed.
func quote(body []byte) string {
	if m, ok := jsonline.Scan(bytes.TrimSpace(body)); ok {
		if said := text(jsonline.Get(m.Error, "message")); said != "" {
			body = []byte(said)
		}
	}
	var b strings.Builder
	var hidden []byte // the element whose content is no text
	blank, n := false, 0
	for i := 0; i < len(body) && n < maxQuote; {
		if hidden != nil {
			end := bytes.Index(bytes.ToLower(body[i:]), append([]byte("</"), hidden...))
			if end < 0 {
				break
			}
			i, hidden = i+end, nil
		}
		if tag := htmlTag(body[i:]); tag > 0 {
			name := bytes.ToLower(bytes.TrimFunc(body[i+1:min(i+8, i+tag)], func(r rune) bool { return !unicode.IsLetter(r) }))
			for _, h := range []string{"style", "script"} {
				if bytes.HasPrefix(name, []byte(h)) && body[i+1] != '/' {
					hidden = []byte(h)
				}
			}
			i, blank = i+tag, true
			continue
		}
		r, size := rune(body[i]), 1
		if r >= 0x80 {
			r, size = utf8.DecodeRune(body[i:])
		}
		i += size
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			blank = true
			continue
		}
		if blank && n > 0 {
			b.WriteByte(' ')
			n++
		}
		b.WriteRune(r)
		blank, n = false, n+1
	}
	s := b.String()
	if n >= maxQuote {
		s += "…"
	}
	return s
}

// htmlTag is the length of the tag or comment that b begins with, or 0.
func htmlTag(b []byte) int {
	if len(b) < 2 || b[0] != '<' || b[1] != '/' && b[1] != '!' && !unicode.IsLetter(rune(b[1])) {
		return 0
	}
	return bytes.IndexByte(b, '>') + 1
}
