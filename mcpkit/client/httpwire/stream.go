package httpwire

import (
	"context"
	"net/http"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/headers"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/outcome"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire/internal/request"
	"github.com/aurorabot-dev/platform/mcpkit/client/internal/sse"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

// get opens a stream of events, after the one with the id last if that is not
// empty.
func (w *Wire) get(ctx context.Context, last string) (*http.Response, error) {
	return w.do(ctx, request.Request{Verb: http.MethodGet, To: w.url, What: "the stream of events", Set: func(h http.Header) {
		h.Set("Accept", "text/event-stream")
		if last != "" {
			h.Set(headers.LastEvent, last)
		}
	}}, w.o.AnswerTimeout)
}

// maxUnreached is how often in a row a server that had a stream open may be
// unreachable before it counts as gone.
const maxUnreached = 2

// listen keeps the stream open by which a server with sessions says what no
// request asked for (2025-11-25, basic/transports: listening for messages from
// the server). Where the server has none, that is no fault. It calls listening
// once the first attempt has been answered.
func (w *Wire) listen(listening func()) {
	at := sse.Place{Retry: -1}
	opened := false
	for barren := 0; ; {
		resp, err := w.get(w.ctx, at.ID)
		listening()
		switch {
		case err != nil:
			w.log.Debug("the stream of events cannot be opened", "error", err)
			switch code := fault.From(err).Code; {
			case code == fault.NeedsAuth:
				return // requests will say so
			case code == fault.Unreachable && opened && barren >= maxUnreached:
				w.fail(err) // it has gone, and so has its session, as a rule
				return
			}
		case resp.StatusCode == http.StatusOK && outcome.MediaType(resp) == "text/event-stream":
			opened = true
			began := time.Now()
			n, _, err := w.events(nil, sse.NewReader(resp.Body, w.o.MaxMessage), &at)
			resp.Body.Close()
			w.log.Debug("the stream of events ended", "events", n, "error", err)
			if n > 0 || time.Since(began) > sse.MaxWait {
				barren = 0
			}
		case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
			resp.Body.Close()
			at.Retry = max(at.Retry, outcome.RetryAfter(resp))
		default:
			resp.Body.Close()
			if opened && outcome.Forgotten(resp, jsonline.Message{}, false) {
				w.fail(fault.New(fault.SessionExpired, "server %s has forgotten the session; a new one is opened", w.o.Name).Retry())
			}
			return
		}
		if barren++; !at.Sleep(w.ctx, barren) {
			return
		}
	}
}

// olderEra tries whether the server that refused initialize is one of
// 2024-11-05: a GET then begins a stream whose first event names the address for
// messages (2025-11-25, basic/transports: backwards compatibility). If it is, the
// message goes there.
func (w *Wire) olderEra(ctx context.Context, refusal *http.Response, x *exchange) (bool, *fault.Error) {
	switch refusal.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false, nil
	}
	resp, err := w.get(w.ctx, "") // it outlives this request
	if err != nil {
		return false, nil
	}
	if resp.StatusCode != http.StatusOK || outcome.MediaType(resp) != "text/event-stream" {
		resp.Body.Close()
		return false, nil
	}
	late := time.AfterFunc(w.o.AnswerTimeout, func() { resp.Body.Close() })
	r := sse.NewReader(resp.Body, w.o.MaxMessage)
	e, err := r.Next()
	if !late.Stop() || err != nil || e.Name != "endpoint" {
		resp.Body.Close()
		return false, nil
	}
	to, err := w.url.Parse(string(e.Data))
	if err != nil || to.Scheme != w.url.Scheme || to.Host != w.url.Host {
		resp.Body.Close()
		return true, fault.New(fault.Protocol, "server %s names an address for messages that is not its own", w.o.Name)
	}
	refusal.Body.Close()
	w.log.Info("the server speaks HTTP with SSE (2024-11-05)")
	w.mu.Lock()
	w.old = to
	w.mu.Unlock()
	w.work.Go(func() {
		at := sse.Place{Retry: -1}
		for err = nil; err == nil; {
			_, _, err = w.events(nil, r, &at)
		}
		resp.Body.Close()
		w.fail(fault.New(fault.ConnectionLost, "the stream of server %s ended: %s", w.o.Name, outcome.Cause(err)))
	})
	return true, w.carry(ctx, x)
}
