package httpwire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/headers"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/outcome"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// CheckURL is the URL of a server that may be spoken to: absolute, and with https
// unless the server is on this machine, so that neither tokens nor results can be
// read on the way.
func CheckURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("not an absolute http or https URL") // unquoted: it may hold a token
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		return nil, errors.New("a server beyond this machine needs https")
	}
	u.Fragment = ""
	return u, nil
}

// Loopback reports whether a host's name or address is this machine by itself.
func Loopback(host string) bool {
	if host = strings.ToLower(strings.TrimSuffix(host, ".")); host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

const (
	idleTime  = time.Minute      // an unused connection is kept
	probeTime = 15 * time.Second // between signs of life on one that is used
	maxSteps  = 3                // of redirection
)

// newClient is an HTTP client of the wire's own: it shares no connections, keeps
// no cookies, and takes no proxy but the one it is given.
func newClient(o Options) *http.Client {
	dialer := &net.Dialer{
		Timeout: o.DialTimeout, Control: noticeDeath,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeTime, Interval: probeTime / 3, Count: 4},
	}
	t := &http.Transport{
		Proxy:                  o.Proxy,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    o.DialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: 256 << 10,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: probeTime, PingTimeout: probeTime},
	}
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		// To the same server and as the same request, or not at all: another host
		// must not see credentials, and a GET is no call.
		first := via[0]
		if len(via) > maxSteps || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host || r.Method != first.Method {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// request is one HTTP request in the making.
type request struct {
	verb string
	to   *url.URL
	body []byte
	set  func(http.Header) // what it needs beside the usual
	what string            // the message's method, for faults

	denied *bool // set where it fails because of who asks; may be nil
}

// do sends a request, and again after a challenge that the authorizer answers. It
// returns any answer that began within limit, or for which there is no limit; the
// error is a *fault.Error. Closing the body ends everything.
func (w *Wire) do(ctx context.Context, r request, limit time.Duration) (*http.Response, error) {
	if r.what == "" {
		r.what = r.verb
	}
	if r.denied == nil {
		r.denied = new(bool)
	}
	for tries := 0; ; tries++ {
		resp, err := w.once(ctx, r, limit)
		if err != nil {
			return nil, err
		}
		*r.denied = resp.StatusCode == http.StatusUnauthorized
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden || tries == maxChallenges {
			return resp, nil
		}
		// Who answers the challenge may read the body, and so may who explains it.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		again, err := w.o.Authorizer.Challenge(ctx, resp)
		if err != nil {
			return nil, w.unauthorized(err)
		}
		if !again {
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return resp, nil
		}
	}
}

func (w *Wire) unauthorized(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	return fault.New(fault.NeedsAuth, "server %s wants an authorization: %v", w.o.Name, err)
}

func (w *Wire) once(ctx context.Context, r request, limit time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if limit > 0 {
		late := time.AfterFunc(limit, func() { cancel(outcome.ErrLate) })
		defer late.Stop()
	}
	var sent atomic.Bool // something of the request may have been
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { sent.Store(true) },
		WroteRequest:     func(httptrace.WroteRequestInfo) { sent.Store(true) },
	})
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	q, err := http.NewRequestWithContext(ctx, r.verb, r.to.String(), body)
	if err != nil {
		cancel(nil)
		return nil, fault.New(fault.Internal, "making a request for server %s failed", w.o.Name)
	}
	for name, values := range w.o.Header {
		q.Header[http.CanonicalHeaderKey(name)] = values
	}
	q.Header.Set("User-Agent", w.o.UserAgent)
	if r.body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	w.mu.Lock()
	if w.version != "" {
		q.Header.Set(headers.Version, w.version)
	}
	if w.session != "" {
		q.Header.Set(headers.Session, w.session)
	}
	w.mu.Unlock()
	if r.set != nil {
		r.set(q.Header)
	}
	if err := w.o.Authorizer.Authorize(ctx, q); err != nil {
		cancel(nil)
		*r.denied = true
		return nil, w.unauthorized(err)
	}
	resp, err := w.http.Do(q)
	if err != nil {
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		cancel(nil)
		return nil, w.server.Failed(err, sent.Load(), r.what)
	}
	resp.Body = &answerBody{resp.Body, func() { cancel(nil) }}
	return resp, nil
}

// answerBody ends the request's context with the body.
type answerBody struct {
	io.ReadCloser
	end func()
}

func (b *answerBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
