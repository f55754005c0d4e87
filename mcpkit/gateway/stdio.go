package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// maxLine is how many bytes one message over a pipe may have.
const maxLine = 16 << 20

// ServeStdio serves one client over a pair of pipes, one message a line, until
// in ends or ctx does (2025-11-25, basic/transports: stdio). Both eras may be
// spoken on it. Requests that were read before in ended are answered before
// ServeStdio returns, each within its own deadline; streams that only listen end
// with in, and so do questions to the client, which cannot answer any more.
// Where ctx ends first, a Read of in that does not return keeps one goroutine.
func (g *Gateway) ServeStdio(ctx context.Context, v *View, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newPipe(out, cancel)
	c := g.Conn(v, w)
	defer w.close()
	defer c.Close()

	lines := make(chan jsonline.Line)
	failed := make(chan error, 1)
	go func() {
		r := jsonline.NewReader(in, maxLine, nil)
		for {
			l, err := r.Next()
			if err != nil {
				failed <- err
				return
			}
			if !l.Owned {
				l.Data = append([]byte(nil), l.Data...)
			}
			select {
			case lines <- l:
			case <-ctx.Done():
				return
			}
		}
	}()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	for {
		select {
		case l := <-lines:
			c.line(ctx, l, w, &work)
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				c.endInput()
				work.Wait()
				return w.failure()
			}
			return fmt.Errorf("reading from the client: %w", err)
		case <-ctx.Done():
			return w.failure()
		}
	}
}

// line deals with one line of a pipe.
func (c *Conn) line(ctx context.Context, l jsonline.Line, w *pipe, work *sync.WaitGroup) {
	if l.Skipped > 0 {
		e := &Error{Code: codeInvalidRequest, Message: fmt.Sprintf("a message of %d bytes; the limit is %d", l.Skipped, maxLine)}
		if l.ID != nil && l.Method != nil && jsonline.Valid(l.ID) && validID(l.ID) {
			e.id = l.ID
		}
		w.Send(e.Reply())
		return
	}
	data := l.Data
	for len(data) > 0 && (data[0] == ' ' || data[0] == '\t') {
		data = data[1:]
	}
	if len(data) == 0 {
		return
	}
	m, bad := Parse(data)
	switch {
	case bad != nil:
		w.Send(bad.Reply())
	case !m.IsRequest():
		c.Notify(m)
	default:
		ctx, end, err := c.begin(ctx, m) // before a later line can cancel it
		if err != nil {
			w.Send(err.For(m).Reply())
			return
		}
		serve := func() {
			defer end()
			reply, err := c.serve(ctx, m, w)
			if err != nil {
				reply = err.Reply()
			}
			if reply != nil {
				w.Send(reply)
			}
		}
		if m.name == "initialize" { // nothing may overtake it
			serve()
			return
		}
		work.Go(serve)
	}
}

// Bounds of what waits for a client that does not read its pipe.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 64 << 20
)

// pipe writes messages to a client in order, from one goroutine. A client that
// lets too much wait is given up.
type pipe struct {
	mu     sync.Mutex
	wake   chan struct{} // capacity 1
	queue  [][]byte
	size   int
	shut   bool
	err    error
	give   context.CancelFunc
	closed chan struct{}
}

func newPipe(out io.Writer, give context.CancelFunc) *pipe {
	p := &pipe{wake: make(chan struct{}, 1), give: give, closed: make(chan struct{})}
	go p.write(bufio.NewWriterSize(out, 64<<10))
	return p
}

// Send implements [Stream].
func (p *pipe) Send(msg []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || p.err != nil {
		return false
	}
	if len(p.queue) >= maxWaiting || len(p.queue) > 0 && p.size+len(msg) > maxWaitingBytes {
		p.err = errors.New("the client does not read what it is sent")
		p.give()
		return false
	}
	msg = OneLine(msg)
	p.queue, p.size = append(p.queue, msg), p.size+len(msg)
	p.poke()
	return true
}

func (p *pipe) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pipe) write(out *bufio.Writer) {
	defer close(p.closed)
	for range p.wake {
		for {
			p.mu.Lock()
			queue, shut, err := p.queue, p.shut, p.err
			p.queue, p.size = nil, 0
			p.mu.Unlock()
			if err != nil {
				return
			}
			if len(queue) == 0 {
				if shut {
					return
				}
				break
			}
			for _, msg := range queue {
				out.Write(msg)
				out.WriteByte('\n')
			}
			if err := out.Flush(); err != nil {
				p.mu.Lock()
				p.err = fmt.Errorf("writing to the client: %w", err)
				p.mu.Unlock()
				p.give()
				return
			}
		}
	}
}

// close writes what waits and ends. A client that was given up is not waited for.
func (p *pipe) close() {
	p.mu.Lock()
	p.shut = true
	lost := p.err != nil
	p.mu.Unlock()
	p.poke()
	if lost {
		return
	}
	t := time.NewTimer(flushTime)
	defer t.Stop()
	select {
	case <-p.closed:
	case <-t.C:
	}
}

// flushTime is how long a client may take to read what waits when its pipe closes.
const flushTime = 2 * time.Second

func (p *pipe) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
