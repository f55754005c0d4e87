package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
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
	w := rpc.NewPipe(out, cancel)
	c := g.Conn(v, w)
	defer w.Close()
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
				return w.Err()
			}
			return fmt.Errorf("reading from the client: %w", err)
		case <-ctx.Done():
			return w.Err()
		}
	}
}

// line deals with one line of a pipe.
func (c *Conn) line(ctx context.Context, l jsonline.Line, w *rpc.Pipe, work *sync.WaitGroup) {
	if l.Skipped > 0 {
		e := &rpc.Error{Code: rpc.CodeInvalidRequest, Message: fmt.Sprintf("a message of %d bytes; the limit is %d", l.Skipped, maxLine)}
		if l.ID != nil && l.Method != nil && jsontext.Valid(l.ID) && rpc.ValidID(l.ID) {
			e = e.For(&rpc.Message{ID: l.ID})
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
	m, bad := rpc.Parse(data)
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
		if m.Name() == "initialize" { // nothing may overtake it
			serve()
			return
		}
		work.Go(serve)
	}
}
