package streamable

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/httpend"
)

// Bounds of the server beside those of a Handler.
const (
	maxHeader  = 64 << 10
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxConns   = 2048
	graceTime  = 2 * time.Second // for answers on their way when the end comes
)

// Serve answers clients on a listener until ctx ends, then ends the handler and
// the connections. It closes the listener.
func Serve(ctx context.Context, l net.Listener, h *Handler) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(h.o.Logger.Handler(), slog.LevelDebug),
	}
	unused := httpend.Track(srv)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(&limited{l, make(chan struct{}, maxConns)}) }()
	var failed error
	select {
	case err := <-ended:
		failed = fmt.Errorf("serving the gateway: %w", err)
		ended <- err
	case <-ctx.Done():
	}
	closed := make(chan struct{})
	go func() { defer close(closed); h.Close() }()
	unused.Close()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		srv.Close()
	}
	<-ended
	<-closed
	return failed
}

// limited closes connections beyond a number at once: others are served.
type limited struct {
	net.Listener
	room chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			return &counted{Conn: c, room: l.room}, nil
		default:
			c.Close()
		}
	}
}

type counted struct {
	net.Conn
	room chan struct{}
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { <-c.room })
	return c.Conn.Close()
}
