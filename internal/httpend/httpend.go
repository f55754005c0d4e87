// Package httpend lets an HTTP server end at once where nothing is in flight.
// Clients open connections in advance, and http.Server.Shutdown waits seconds
// for those on which no request has begun, as one could be on its way. The
// package closes such connections, and leaves those with a request to Shutdown.
package httpend

import (
	"net"
	"net/http"
	"sync"
)

// Unused are the connections of a server on which no request has begun.
type Unused struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	ended bool
}

// Track has srv tell of its connections, by its ConnState. It is for a server
// that does not serve yet.
func Track(srv *http.Server) *Unused {
	u := &Unused{conns: map[net.Conn]bool{}}
	srv.ConnState = u.track
	return u
}

func (u *Unused) track(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, c)
	case u.ended:
		c.Close()
	default:
		u.conns[c] = true
	}
}

// Close closes them and any that are opened later. It is for the moment before
// Shutdown.
func (u *Unused) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	for c := range u.conns {
		c.Close()
	}
}
