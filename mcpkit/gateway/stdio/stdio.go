// Package stdio serves a client of the gateway over a pair of pipes, one message a
// line (2025-11-25, basic/transports: stdio). Both eras of the protocol may be
// spoken on the same pipes.
//
//	err := stdio.Serve(ctx, g, &view.View{}, os.Stdin, os.Stdout)
//
// What a message means and what is answered is the gateway's.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// maxLine is how many bytes one message may have.
const maxLine = 16 << 20

// lastAnswers is how long a server may take for what it works on when the client's
// input ends. A script that writes its requests and ends has its answers by then; for a
// client that has left no server works any longer.
const lastAnswers = 2 * time.Second

// Serve serves one client until in ends or ctx does. Requests that were read before
// in ended are answered before Serve returns, and what a server works on for more than
// two seconds from then on is cancelled; streams
// that only listen end with in, and so do questions to the client, which cannot
// answer any more. Where ctx ends first, a Read of in that does not return keeps one
// goroutine.
func Serve(ctx context.Context, g *gateway.Gateway, v *view.View, in io.Reader, out io.Writer) error {
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
	calls, leave := context.WithCancel(ctx)
	defer leave()
	for {
		select {
		case l := <-lines:
			line(ctx, calls, c, l, w, &work)
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				c.EndInput()
				late := time.AfterFunc(lastAnswers, leave)
				defer late.Stop()
				work.Wait()
				return w.failure()
			}
			return fmt.Errorf("reading from the client: %w", err)
		case <-ctx.Done():
			return w.failure()
		}
	}
}

// line deals with one line of the client. What a server works on ends with calls,
// everything else with ctx.
func line(ctx, calls context.Context, c *gateway.Conn, l jsonline.Line, w *pipe, work *sync.WaitGroup) {
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
		switch m.Name() {
		case "tools/call", "prompts/get", "resources/read", "completion/complete":
			ctx = calls
		}
		serve, err := c.Begin(ctx, m) // before a later line can cancel it
		if err != nil {
			w.Send(err.For(m).Reply())
			return
		}
		answer := func() {
			reply, err := serve(w)
			if err != nil {
				reply = err.Reply()
			}
			if reply != nil {
				w.Send(reply)
			}
		}
		if m.Name() == "initialize" { // no later request may overtake this one
			answer()
			return
		}
		work.Go(answer)
	}
}
