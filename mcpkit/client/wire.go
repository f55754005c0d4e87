package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/internal/jsonline"
)

// Line is a message as it arrived, whole or skipped for its length.
type Line = jsonline.Line

// Wire carries JSON-RPC messages to and from one server. Receive is called by
// one goroutine; the rest is safe for concurrent use. Every message of a session
// passes through its wire, which may look into them for what it needs itself,
// such as the protocol version that was agreed on.
type Wire interface {
	// Send queues msg, one message without a line end in it, and does not keep
	// it. It waits for room until ctx is done. After an error nothing of msg was
	// or will be sent; after none, nobody knows.
	Send(ctx context.Context, msg []byte) error
	// TrySend is Send where there is room at once. It never waits.
	TrySend(msg []byte) bool
	// Receive waits for the next message. Its error ends the session: io.EOF
	// where the server closed the wire, else why the wire broke; one that wraps
	// ErrHung where the server took nothing for too long.
	Receive() (Line, error)
	// CloseSend sends what is queued, for no longer than timeout, and tells the
	// server that nothing more comes.
	CloseSend(timeout time.Duration)
	// Close gives up the wire in both directions: Receive returns.
	Close() error
}

const (
	queueLimit = 256 << 10 // bytes after which senders wait
	tryLimit   = 1 << 20   // bytes after which TrySend refuses
	keepQueue  = 64 << 10  // a larger buffer is not kept
	smallQueue = 4 << 10   // the most that is kept while nothing is sent
	eofGrace   = 2 * time.Second
)

var errSendClosed = errors.New("the server's stdin is closed")

// pipes is the Wire over a process's stdin and stdout: messages are lines
// (2025-11-25, basic/transports: stdio). One goroutine writes, and it writes
// all that has gathered since its last write at once.
type pipes struct {
	stdin  io.WriteCloser
	stdout io.ReadCloser
	lines  *jsonline.Reader
	stall  time.Duration

	mu      sync.Mutex
	queue   []byte        // whole lines
	room    chan struct{} // closed when the queue is taken; nil while nobody waits
	closing bool          // no more sends
	broken  error         // why the wire broke; Receive's error then

	wake    chan struct{} // capacity 1: the queue is not empty, or closing
	written chan struct{} // closed when the writer has ended
	done    chan struct{} // closed by Close
	once    sync.Once
}

func newPipes(stdin io.WriteCloser, stdout io.ReadCloser, maxLine int, stall time.Duration, onRead func()) *pipes {
	p := &pipes{
		stdin: stdin, stdout: stdout,
		lines:   jsonline.NewReader(stdout, maxLine, onRead),
		stall:   stall,
		wake:    make(chan struct{}, 1),
		written: make(chan struct{}),
		done:    make(chan struct{}),
	}
	go p.write()
	return p
}

func (p *pipes) Send(ctx context.Context, msg []byte) error {
	for {
		p.mu.Lock()
		if p.closing {
			p.mu.Unlock()
			return errSendClosed
		}
		if len(p.queue) == 0 || len(p.queue)+len(msg) < queueLimit {
			p.append(msg)
			p.mu.Unlock()
			return nil
		}
		if p.room == nil {
			p.room = make(chan struct{})
		}
		room := p.room
		p.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pipes) TrySend(msg []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.queue)+len(msg) >= tryLimit {
		return false
	}
	p.append(msg)
	return true
}

// append needs p.mu.
func (p *pipes) append(msg []byte) {
	first := len(p.queue) == 0
	p.queue = append(append(p.queue, msg...), '\n')
	if first {
		p.poke()
	}
}

func (p *pipes) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stop makes every send fail from now on. The writer ends once the queue is empty.
func (p *pipes) stop() {
	p.mu.Lock()
	p.closing = true
	p.freeRoom()
	p.mu.Unlock()
	p.poke()
}

// freeRoom needs p.mu.
func (p *pipes) freeRoom() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}

func (p *pipes) write() {
	defer close(p.written)
	var spare []byte
	for range p.wake {
		for {
			p.mu.Lock()
			batch, closing := p.queue, p.closing
			if len(batch) == 0 {
				spare = nil
				if cap(p.queue) > smallQueue { // idle: keep little
					p.queue = nil
				}
				p.mu.Unlock()
				if closing {
					return
				}
				break
			}
			p.queue = spare[:0]
			p.freeRoom()
			p.mu.Unlock()
			if err := p.writeAll(batch); err != nil {
				p.writeFailed(err)
				return
			}
			if spare = batch[:0]; cap(spare) > keepQueue {
				spare = nil
			}
		}
	}
}

// writeAll writes b; it fails when the server takes nothing for the stall time.
func (p *pipes) writeAll(b []byte) error {
	d, ok := p.stdin.(interface{ SetWriteDeadline(time.Time) error })
	if ok {
		ok = d.SetWriteDeadline(time.Now().Add(p.stall)) == nil
	}
	if !ok {
		hung := time.AfterFunc(p.stall, func() { p.fail(p.stalled()) })
		defer hung.Stop()
		_, err := p.stdin.Write(b)
		return err
	}
	for {
		n, err := p.stdin.Write(b)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case n == 0:
			return p.stalled()
		}
		b = b[n:]
		if err := d.SetWriteDeadline(time.Now().Add(p.stall)); err != nil {
			return err
		}
	}
}

func (p *pipes) stalled() error {
	return fmt.Errorf("%w: it has read nothing from its stdin for %v", ErrHung, p.stall)
}

// writeFailed ends the writer. A server that has gone may have answered before:
// what it wrote is read to its end first, unless that end does not come.
func (p *pipes) writeFailed(err error) {
	p.stop()
	if errors.Is(err, ErrHung) {
		p.fail(err)
		return
	}
	select {
	case <-p.done:
	case <-time.After(eofGrace):
		p.fail(fmt.Errorf("writing to the server's stdin: %w", err))
	}
}

func (p *pipes) fail(err error) {
	p.mu.Lock()
	if p.broken == nil {
		p.broken = err
	}
	p.mu.Unlock()
	p.shut()
}

func (p *pipes) Receive() (Line, error) {
	l, err := p.lines.Next()
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.broken != nil:
			err = p.broken
		case errors.Is(err, os.ErrClosed), errors.Is(err, io.ErrClosedPipe):
			err = io.EOF
		}
	}
	return l, err
}

func (p *pipes) CloseSend(timeout time.Duration) {
	p.stop()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-p.written:
	case <-p.done:
	case <-t.C:
	}
	p.stdin.Close()
}

// Close also waits for the writer, though not for one that is stuck in a write
// to something that cannot be interrupted.
func (p *pipes) Close() error {
	p.shut()
	t := time.NewTimer(eofGrace)
	defer t.Stop()
	select {
	case <-p.written:
	case <-t.C:
	}
	return nil
}

func (p *pipes) shut() {
	p.once.Do(func() {
		close(p.done)
		p.stop()
		p.stdin.Close()
		p.stdout.Close()
	})
}
