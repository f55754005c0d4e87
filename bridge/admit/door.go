package admit

import (
	"context"
	"sync"
)

// Door counts calls in until it is closed.
type Door struct {
	mu      sync.Mutex
	inside  sync.WaitGroup
	closing chan struct{}
}

// NewDoor is an open door.
func NewDoor() *Door { return &Door{closing: make(chan struct{})} }

// Enter reports whether the door is open. Who came in leaves with [Door.Leave].
func (d *Door) Enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed() {
		return false
	}
	d.inside.Add(1)
	return true
}

func (d *Door) closed() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// Closing is closed with the door, so that nobody inside waits any longer.
func (d *Door) Closing() <-chan struct{} { return d.closing }

// Leave is called once for each call that came in.
func (d *Door) Leave() { d.inside.Done() }

// Close lets nobody in any more. It reports whether the door was open.
func (d *Door) Close() (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first = !d.closed(); first {
		close(d.closing)
	}
	return first
}

// Left returns a channel that is closed when the last of those who came in has
// left, which the caller waits for. The door is closed before.
func (d *Door) Left() <-chan struct{} {
	left := make(chan struct{})
	go func() {
		defer close(left)
		d.inside.Wait()
	}()
	return left
}

// Progress wakes those who wait for something to get on. The zero value is ready.
type Progress struct {
	mu    sync.Mutex
	moved chan struct{}
}

// Announce has everybody who waits look again.
func (p *Progress) Announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// Wait returns true once done does; what that says may change only before an
// Announce. It returns false when stop is closed or ctx ends first.
func (p *Progress) Wait(ctx context.Context, stop <-chan struct{}, done func() bool) bool {
	for {
		moved := p.next()
		if done() {
			return true
		}
		select {
		case <-moved:
		case <-stop:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (p *Progress) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved
}
