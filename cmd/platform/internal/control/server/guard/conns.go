package guard

import (
	"net"
	"sync"
)

// Limit accepts at most n connections at once; the next waits for one to end.
func Limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, room: make(chan struct{}, n), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	room   chan struct{} // has one for each connection
	close  sync.Once
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &counted{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *limited) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite lets the last answer arrive before the connection ends.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
