// Package stream is the connection to NATS and the JetStream stream over it: one
// message or an atomic batch of them is published, and single messages are read.
//
// It decides nothing about what is sent and when; package natsbus does.
package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var errNotConnected = errors.New("NATS is not connected")

// Link is the connection, for ever retried by the client library. What is done
// over it is done in a session, a context that ends when the connection is lost.
type Link struct {
	opt  Options
	conn *nats.Conn
	js   jetstream.JetStream
	down func(error) // told why, each time the connection is lost or cannot be made

	// refusal is why the server is about to close the connection, of which the
	// end alone would be told. Only callbacks use it, which come one by one.
	refusal error

	mu      sync.Mutex
	session context.Context // nil while there is none
	end     context.CancelCauseFunc
	up      chan struct{} // closed while there is a session
}

// Connect makes the link, and tells down why each time that the connection is lost
// or cannot be made. That a server is away is no error. The link is never nil.
func Connect(opt Options, down func(error)) (*Link, error) {
	l := &Link{opt: opt, down: down, up: make(chan struct{})}
	failed := func(_ *nats.Conn, err error) {
		if err == nil {
			err = errors.New("closed by the server")
		}
		err = cmp.Or(l.refusal, err)
		l.refusal = nil
		l.lost(fmt.Errorf("%w: %w", errNotConnected, opt.explain(err)))
	}
	list := append(opt.natsOptions(),
		nats.ConnectHandler(func(*nats.Conn) { l.made() }),
		nats.ReconnectHandler(func(*nats.Conn) { l.made() }),
		nats.DisconnectErrHandler(failed),
		nats.ReconnectErrHandler(failed),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if refused(err) {
				l.refusal = err
			}
			opt.Logger.Warn("nats bus", "error", err)
		}))
	conn, err := nats.Connect(strings.Join(opt.URLs, ","), list...)
	if err != nil {
		return l, fmt.Errorf("connecting: %w", err)
	}
	l.conn = conn
	if opt.Domain != "" {
		l.js, err = jetstream.NewWithDomain(conn, opt.Domain, jetstream.WithDefaultTimeout(opt.AckTimeout))
	} else {
		l.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(opt.AckTimeout))
	}
	return l, err
}

// made begins a session.
func (l *Link) made() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		l.session, l.end = context.WithCancelCause(context.Background())
		close(l.up)
	}
}

// lost ends the session.
func (l *Link) lost(cause error) {
	l.mu.Lock()
	if l.session != nil {
		l.end(cause)
		l.session, l.up = nil, make(chan struct{})
	}
	l.mu.Unlock()
	l.down(cause)
}

// Wait waits for a session and returns a context that ends with it or with ctx.
func (l *Link) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for {
		l.mu.Lock()
		session, up := l.session, l.up
		l.mu.Unlock()
		if session != nil {
			joined, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(session, func() { cancel(context.Cause(session)) })
			return joined, func() { stop(); cancel(nil) }, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// Server is the URL of the server connected to, without secrets.
func (l *Link) Server() string { return l.conn.ConnectedUrlRedacted() }

// Close ends the connection, and the session with the error cause.
func (l *Link) Close(cause error) {
	if l.conn != nil {
		l.conn.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.end(cause)
		l.session = nil
	}
}
