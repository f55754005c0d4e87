// Package outcome says what became of a request whose answer over HTTP is no
// success, or never came: a *fault.Error with its code, whether the request surely
// had no effect or nobody knows, and words for a person.
//
//	f := outcome.Server("search").Status(resp, body, "tools/call")
//
// It judges one answer. What to do then, such as to open a new session or to ask
// again, is the affair of the wire.
package outcome

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/headers"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

const maxQuote = 160 // characters of an answer in a message

// Server is the name of the server that answers.
type Server string

// Status is the fault of a status that is no success, with what the body says.
func (s Server) Status(resp *http.Response, body []byte, method string) *fault.Error {
	said := fmt.Sprintf("server %s answered %s with status %d %s", s, method, resp.StatusCode, http.StatusText(resp.StatusCode))
	if q := Quote(body); q != "" {
		said += ": " + q
	}
	html := MediaType(resp) == "text/html"
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fault.New(fault.NeedsAuth, "%s", said)
	case code == http.StatusTooManyRequests:
		if d := RetryAfter(resp); d > 0 {
			said += fmt.Sprintf("; it asks to wait for %v", d)
		}
		return fault.New(fault.RateLimited, "%s", said).Retry()
	case code >= 500:
		return fault.New(fault.Unavailable, "%s", said).Unknown()
	case code >= 300 && code < 400:
		if to, err := resp.Location(); err == nil {
			to.User, to.RawQuery, to.Fragment = nil, "", ""
			return fault.New(fault.HTTPStatus, "server %s redirects %s to %s, which is not followed; if it is right, make it the url", s, method, to)
		}
		return fault.New(fault.HTTPStatus, "%s", said)
	case html:
		return fault.New(fault.NotMCP, "%s", said)
	}
	return fault.New(fault.HTTPStatus, "%s", said)
}

// RetryAfter is how long the server asks to wait, or 0 (RFC 9110, section
// 10.2.3).
func RetryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at).Round(time.Second))
	}
	return 0
}

// ErrLate is the cause of a request that was given up before its answer began.
var ErrLate = errors.New("no answer began in time")

// Failed is the fault of a request that got no answer at all. Sent says that
// something of it may have been.
func (s Server) Failed(err error, sent bool, method string) *fault.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL may hold secrets
	}
	switch {
	case errors.Is(err, ErrLate) && sent:
		return fault.New(fault.Timeout, "server %s did not begin to answer %s in time", s, method).Unknown()
	case sent:
		return fault.New(fault.ConnectionLost, "the connection to server %s broke before %s was answered: %s", s, method, Cause(err)).Unknown()
	}
	f := fault.New(fault.Unreachable, "server %s cannot be reached: %s", s, Cause(err))
	var wrong *tls.CertificateVerificationError
	var name x509.HostnameError
	if !errors.As(err, &wrong) && !errors.As(err, &name) { // it will be no better the next time
		f.Retry()
	}
	return f
}

// Cut is the fault of an answer that began and did not end.
func (s Server) Cut(err error, method string) *fault.Error {
	return fault.New(fault.ConnectionLost, "the connection to server %s broke in the answer to %s: %s", s, method, Cause(err)).Unknown()
}

// Cause says in words why a connection broke.
func Cause(err error) string {
	switch {
	case errors.Is(err, ErrLate), errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it was closed"
	}
	return err.Error()
}

// MediaType is what an answer says that it is, without parameters, or "".
func MediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// Quote is the start of a body for a message: of HTML only the text, on one
// line, without what cannot be printed.
func Quote(body []byte) string {
	if m, ok := jsonline.Scan(bytes.TrimSpace(body)); ok {
		if said := jsontext.String(jsontext.Get(m.Error, "message")); said != "" {
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

// Forgotten reports whether the answer says that there is no such session. The
// protocol has 404 for it (2025-11-25, basic/transports: session management);
// some servers send 400 and say it in words.
func Forgotten(resp *http.Response, m jsonline.Message, isMessage bool) bool {
	if resp.Request.Header.Get(headers.Session) == "" {
		return false
	}
	if resp.StatusCode == http.StatusBadRequest && isMessage && (m.ID == nil || string(m.ID) == "null") {
		return strings.Contains(strings.ToLower(jsontext.String(jsontext.Get(m.Error, "message"))), "session")
	}
	return resp.StatusCode == http.StatusNotFound
}
