// Package pipe carries JSON-RPC messages over a process's stdin and stdout. It
// never blocks for longer than it says on a process that does not read, and
// writes what has gathered at once. It does not know what messages mean, nor
// processes.
//
//	p := pipe.New(stdin, stdout, 16<<20, 30*time.Second, nil)
//	err := p.Send(ctx, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
//	line, err := p.Receive()
package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

const (
	queueLimit = 256 << 10 // bytes after which senders wait
	tryLimit   = 1 << 20   // bytes after which TrySend refuses
	keepQueue  = 256 << 10 // a larger buffer is not kept
	smallQueue = 4 << 10   // the most that is kept, twice, while nothing is sent
	eofGrace   = 2 * time.Second
)

// ErrHung says that the server took nothing from its stdin for too long.
var ErrHung = errors.New("the server hangs")

// Pipes are the way over a process's stdin and stdout: messages are lines
// (2025-11-25, basic/transports: stdio). One goroutine writes, and it writes
// all that has gathered since its last write at once.
type Pipes struct {
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

// New starts a writer to stdin, which fails when the server takes nothing for
// the stall time, and reads lines of up to maxLine bytes from stdout. It calls
// onRead, if set, whenever bytes arrived.
func New(stdin io.WriteCloser, stdout io.ReadCloser, maxLine int, stall time.Duration, onRead func()) *Pipes {
	p := &Pipes{
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

// Send queues msg as a line. It waits for room until ctx is done; once the
// server's stdin is closed the error is io.ErrClosedPipe.
func (p *Pipes) Send(ctx context.Context, msg []byte) error {
	for {
		p.mu.Lock()
		if p.closing {
			p.mu.Unlock()
			return io.ErrClosedPipe
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

// TrySend queues msg as a line if there is room at once.
func (p *Pipes) TrySend(msg []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.queue)+len(msg) >= tryLimit {
		return false
	}
	p.append(msg)
	return true
}

// buffers are larger ones that pipes lend one another: a busy pipe is idle for a
// moment again and again.
var buffers sync.Pool // of *[]byte

// keepLittle returns b, or nil where b is too large to be kept by one pipe while
// nothing is sent.
func keepLittle(b []byte) []byte {
	if cap(b) <= smallQueue {
		return b
	}
	large := b[:0]
	buffers.Put(&large)
	return nil
}

// append needs p.mu.
func (p *Pipes) append(msg []byte) {
	first := len(p.queue) == 0
	if size := len(p.queue) + len(msg) + 1; size > cap(p.queue) {
		if b, ok := buffers.Get().(*[]byte); ok && size <= cap(*b) {
			p.queue = append(*b, p.queue...)
		}
	}
	p.queue = append(append(p.queue, msg...), '\n')
	if first {
		p.poke()
	}
}

func (p *Pipes) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stop makes every send fail from now on. The writer ends once the queue is empty.
func (p *Pipes) stop() {
	p.mu.Lock()
	p.closing = true
	p.freeRoom()
	p.mu.Unlock()
	p.poke()
}

// freeRoom needs p.mu.
func (p *Pipes) freeRoom() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}

func (p *Pipes) write() {
	defer close(p.written)
	var spare []byte
	for range p.wake {
		for {
			batch, over := p.take(spare)
			if over {
				return
			}
			if len(batch) == 0 {
				spare = keepLittle(spare)
				break
			}
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

// take takes the queue, which goes on in spare. It is over when nothing is left
// and nothing will come.
func (p *Pipes) take(spare []byte) (batch []byte, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue = keepLittle(p.queue)
		return nil, p.closing
	}
	batch, p.queue = p.queue, spare[:0]
	p.freeRoom()
	return batch, false
}

// writeAll writes b; it fails when the server takes nothing for the stall time,
// or, where stdin knows no deadlines, not all of b.
func (p *Pipes) writeAll(b []byte) error {
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

func (p *Pipes) stalled() error {
	return fmt.Errorf("%w: it has read nothing from its stdin for %v", ErrHung, p.stall)
}

// writeFailed ends the writer. A server that has gone may have answered before:
// what it wrote is read to its end first, unless that end does not come.
func (p *Pipes) writeFailed(err error) {
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

func (p *Pipes) fail(err error) {
	p.mu.Lock()
	if p.broken == nil {
		p.broken = err
	}
	p.mu.Unlock()
	p.shut()
}

// Receive waits for the next line. Its error is io.EOF at the end of stdout and
// after Close, or why the server can no longer be written to.
func (p *Pipes) Receive() (jsonline.Line, error) {
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

// CloseSend closes stdin when what is queued is written, or the timeout is over.
func (p *Pipes) CloseSend(timeout time.Duration) {
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

// Close closes both pipes. It waits for the writer, though not for one that is
// stuck in a write to something that cannot be interrupted.
func (p *Pipes) Close() error {
	p.shut()
	t := time.NewTimer(eofGrace)
	defer t.Stop()
	select {
	case <-p.written:
	case <-t.C:
	}
	return nil
}

func (p *Pipes) shut() {
	p.once.Do(func() {
		close(p.done)
		p.stop()
		p.stdin.Close()
		p.stdout.Close()
	})
}
