package stdio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// Bounds of what waits for a client that does not read its pipe.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 64 << 20
)

// pipe writes messages to a client in order, one a line, from one goroutine. A
// client that lets too much wait is given up.
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

// newPipe begins to write to out. It calls give when the client is given up.
func newPipe(out io.Writer, give context.CancelFunc) *pipe {
	p := &pipe{wake: make(chan struct{}, 1), give: give, closed: make(chan struct{})}
	go p.write(bufio.NewWriterSize(out, 64<<10))
	return p
}

// Send implements [rpc.Stream].
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
	msg = rpc.OneLine(msg)
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

// failure says why the client was given up. It is nil for one that was not.
func (p *pipe) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
