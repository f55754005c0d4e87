package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// parked is a call of a stateless client at a server of an older era, which asks
// in the middle of it: the call goes on here while the client, whose request has
// been answered with the question, makes it again with the answer.
type parked struct {
	ctx    context.Context // of the call; ends when nobody has answered in time
	cancel context.CancelFunc
	asked  chan signal.Input
	answer chan host.Replies // capacity 1
	ended  chan ended        // capacity 1
	open   signal.Input      // what the client was asked last
	view   *View
}

type ended struct {
	res *host.Result
	err error
}

// parks reports whether a call may have to be parked.
func (r *request) parks(server string) bool {
	if !r.modern || !can(r.caps, methodElicit, nil) && !can(r.caps, methodSampling, nil) || r.c.g.o.Servers == nil {
		return false
	}
	for _, s := range r.c.g.o.Servers() {
		if s.Name == server {
			return s.Version < rpc.Stateless
		}
	}
	return false
}

// park makes a call that may ask.
func (r *request) park(ctx context.Context, tool *catalog.Tool, c *host.Call) ([]byte, *rpc.Error) {
	g := r.c.g
	p := &parked{view: r.c.view, asked: make(chan signal.Input), answer: make(chan host.Replies, 1), ended: make(chan ended, 1)}
	p.ctx, p.cancel = context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	c.Input = func(ctx context.Context, in signal.Input) (host.Replies, error) {
		if err := r.answers(in); err != nil {
			return nil, err
		}
		select {
		case p.asked <- in:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case a := <-p.answer:
			return a, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !g.begin(p) {
		p.cancel()
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway is closing"}
	}
	go func() {
		defer g.end(p)
		res, err := g.o.Host.Call(p.ctx, *c)
		p.ended <- ended{res, err}
	}()
	return r.follow(ctx, tool, c, p)
}

// follow answers a request with what a call that is under way comes to next.
func (r *request) follow(ctx context.Context, tool *catalog.Tool, c *host.Call, p *parked) ([]byte, *rpc.Error) {
	select {
	case e := <-p.ended:
		if e.err == nil {
			return r.pass(r.rename(tool.Source.Server, e.res.Raw), 0), nil
		}
		_, reply, err := r.refused(ctx, tool, c, e.err)
		return reply, err
	case in := <-p.asked:
		p.open = in
		id := rand.Text()
		if !r.c.g.keep(id, p) {
			p.cancel()
			return r.failed(fault.New(fault.Busy, "too many calls wait for answers already").Retry()), nil
		}
		b := []byte(`{"resultType":"input_required","inputRequests":{`)
		for i, q := range in.Questions {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, rpc.Quote(q.ID)...), `:{"method":"`+methodOf(q)+`","params":`...), q.Raw...)
			b = append(b, '}')
		}
		b = append(append(b, `},"requestState":`...), r.c.g.seal.seal(r.c.view, r.about(), state{Parked: id})...)
		return r.pass(append(b, '}'), 0), nil
	case <-ctx.Done():
		p.cancel()
		return nil, rpc.ErrorOf(fault.New(fault.Cancelled, "the client went away"))
	}
}

// goOn takes up a parked call with the client's answers.
func (r *request) goOn(ctx context.Context, tool *catalog.Tool, c *host.Call, id string) ([]byte, *rpc.Error) {
	p := r.c.g.take(id)
	if p == nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "that call waits no longer: make the request without the state"}
	}
	replies := host.Replies{}
	for _, q := range p.open.Questions {
		replies[q.ID] = reply(q, jsontext.Get(r.Members.Inputs, q.ID))
	}
	p.answer <- replies
	return r.follow(ctx, tool, c, p)
}

// reply is a client's answer to a question. None at all is nobody's.
func reply(q signal.Question, answer json.RawMessage) host.Reply {
	if answer != nil && q.Kind == host.SamplingQuestion {
		return host.Reply{Action: host.Accept, Content: answer}
	}
	action, _ := rpc.Text(jsontext.Get(answer, "action"))
	switch {
	case answer == nil:
		return host.Reply{Action: host.Cancel}
	case action == host.Accept && q.Kind == host.FormQuestion:
		return host.Reply{Action: action, Content: jsontext.Get(answer, "content")}
	}
	return host.Reply{Action: action}
}

// begin counts a call in that goes on without a request; false: the gateway ends.
func (g *Gateway) begin(p *parked) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.work.Add(1)
	g.alive[p] = true
	return true
}

func (g *Gateway) end(p *parked) {
	p.cancel()
	g.mu.Lock()
	delete(g.alive, p)
	g.mu.Unlock()
	g.work.Done()
}

// keep lets the client find a call again; false: too many wait, of all clients or
// of this one.
func (g *Gateway) keep(id string, p *parked) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := 0
	for old, q := range g.parked {
		if q.ctx.Err() != nil { // nobody has come in time
			delete(g.parked, old)
		} else if q.view == p.view {
			mine++
		}
	}
	if len(g.parked) >= g.o.Limits.Parked || mine >= max(1, g.o.Limits.Parked*3/4) { // so that one does not take what there is from all
		return false
	}
	g.parked[id] = p
	return true
}

func (g *Gateway) take(id string) *parked {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.parked[id]
	delete(g.parked, id)
	return p
}

// close ends the calls that wait for stateless clients.
func (g *Gateway) close() {
	g.mu.Lock()
	g.closed = true
	for p := range g.alive {
		p.cancel()
	}
	g.mu.Unlock()
	g.work.Wait()
}
