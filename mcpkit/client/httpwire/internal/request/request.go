// Package request sends one HTTP request to a server: over connections of its own,
// with what every request of the server carries, authorized, and again after a
// challenge that the authorizer answers. It follows no redirection that leads
// elsewhere, and nothing else is sent twice. What the body means is for others.
//
//	c := request.New(request.Options{Server: "search", UserAgent: "a", Authorizer: request.Bearer(token), DialTimeout: time.Second})
//	resp, err := c.Do(ctx, request.Request{Verb: http.MethodGet, To: url}, time.Minute)
package request

import (
	"bytes"
	"context"
	"crypto/tls"
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

	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/outcome"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	idleTime  = time.Minute      // an unused connection is kept
	probeTime = 15 * time.Second // between signs of life on one that is used
	maxSteps  = 3                // of redirection
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

// maxRefusal is how many bytes of an answer are read for who explains it.
const maxRefusal = 64 << 10

// Options configure a Client. All fields but Header, Proxy and TLS are required.
type Options struct {
	Server      string // its name, for messages
	Header      http.Header
	UserAgent   string
	Authorizer  Authorizer
	DialTimeout time.Duration
	Proxy       func(*http.Request) (*url.URL, error)
	TLS         *tls.Config
}

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client
}

// New makes a client that shares no connections, keeps no cookies, and takes no
// proxy but the one it is given.
func New(o Options) *Client {
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
	return &Client{o, &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		// To the same server and as the same request, or not at all: another host
		// must not see credentials, and a GET is no call.
		first := via[0]
		if len(via) > maxSteps || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host || r.Method != first.Method {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

// CloseIdle closes the connections that carry no request.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Request is one HTTP request in the making.
type Request struct {
	Verb string
	To   *url.URL
	Body []byte
	Set  func(http.Header) // what it needs beside the usual; called for each attempt
	What string            // the message's method, for faults; the verb

	Denied *bool // set where it fails because of who asks; may be nil
}

// Do sends a request, and again after a challenge that the authorizer answers. It
// returns any answer that began within limit, or for which there is no limit; the
// error is a *fault.Error. Closing the body ends everything.
func (c *Client) Do(ctx context.Context, r Request, limit time.Duration) (*http.Response, error) {
	if r.What == "" {
		r.What = r.Verb
	}
	if r.Denied == nil {
		r.Denied = new(bool)
	}
	for tries := 0; ; tries++ {
		resp, err := c.once(ctx, r, limit)
		if err != nil {
			return nil, err
		}
		*r.Denied = resp.StatusCode == http.StatusUnauthorized
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden || tries == maxChallenges {
			return resp, nil
		}
		// Who answers the challenge may read the body, and so may who explains it.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		again, err := c.o.Authorizer.Challenge(ctx, resp)
		if err != nil {
			return nil, c.unauthorized(err)
		}
		if !again {
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return resp, nil
		}
	}
}

func (c *Client) unauthorized(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	return fault.New(fault.NeedsAuth, "server %s wants an authorization: %v", c.o.Server, err)
}

func (c *Client) once(ctx context.Context, r Request, limit time.Duration) (*http.Response, error) {
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
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	q, err := http.NewRequestWithContext(ctx, r.Verb, r.To.String(), body)
	if err != nil {
		cancel(nil)
		return nil, fault.New(fault.Internal, "making a request for server %s failed", c.o.Server)
	}
	for name, values := range c.o.Header {
		q.Header[http.CanonicalHeaderKey(name)] = values
	}
	q.Header.Set("User-Agent", c.o.UserAgent)
	if r.Body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if r.Set != nil {
		r.Set(q.Header)
	}
	if err := c.o.Authorizer.Authorize(ctx, q); err != nil {
		cancel(nil)
		*r.Denied = true
		return nil, c.unauthorized(err)
	}
	resp, err := c.http.Do(q)
	if err != nil {
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		cancel(nil)
		return nil, outcome.Server(c.o.Server).Failed(err, sent.Load(), r.What)
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
