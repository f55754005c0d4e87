package session

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	wrapUpTime   = 300 * time.Millisecond // for the server to end a stream that is about to be opened anew
	firstPause   = time.Second            // before a broken stream is opened again; it doubles
	longestPause = time.Minute
	agreeTime    = 10 * time.Second // for the server to agree to a subscription
)

// stream is the subscriptions/listen request of a session, by which a server of
// the stateless protocol tells of changes (2026-07-28, subscriptions/listen). It
// says once what is wanted, so it is opened anew where that changes.
type stream struct {
	again chan struct{} // capacity 1: what is wanted has changed

	mu      sync.Mutex
	changed chan struct{} // closed with each change of what follows; nil: nobody waits
	uris    []string      // agreed on
	refused *fault.Error  // of the last attempt
	tries   int
}

func (l *stream) poke() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// set notes how an attempt went.
func (l *stream) set(uris []string, refused *fault.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uris, l.refused = uris, refused
	l.tries++
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// subscribe opens the stream anew and waits until the server has agreed to tell
// of uri.
func (l *stream) subscribe(ctx context.Context, s *Session, uri string) error {
	timer := time.NewTimer(agreeTime)
	defer timer.Stop()
	asked := false
	for first := -1; ; {
		l.mu.Lock()
		agreed, refused, tries := slices.Contains(l.uris, uri), l.refused, l.tries
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		if first < 0 {
			first = tries
		}
		switch {
		case agreed:
			return nil
		case refused != nil && tries > first:
			return refused
		case !asked:
			asked = true
			l.poke()
		}
		select {
		case <-changed:
		case <-timer.C:
			return fault.New(fault.Timeout, "server %s did not agree to tell of %s within %v", s.server, uri, agreeTime)
		case <-ctx.Done():
			return rpc.GaveUp(ctx, "subscriptions/listen")
		case <-s.ended:
			return fault.New(s.crashCode, "server %s ended", s.server).Retry()
		}
	}
}

// acknowledged notes what the server agreed to tell of.
func (l *stream) acknowledged(params []byte) {
	var p struct {
		Notifications struct {
			URIs []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	if json.Unmarshal(jsontext.Clean(params), &p) == nil {
		l.set(p.Notifications.URIs, nil)
	}
}

// wanted is the params of subscriptions/listen; empty where there is nothing to
// listen for.
func (s *Session) wanted() (params []byte, uris []string) {
	var ask []string
	for _, l := range []struct {
		name string
		on   bool
	}{
		{"tools", s.agreed.Capabilities.Tools != nil && s.agreed.Capabilities.Tools.ListChanged},
		{"resources", s.agreed.Capabilities.Resources != nil && s.agreed.Capabilities.Resources.ListChanged},
		{"prompts", s.agreed.Capabilities.Prompts != nil && s.agreed.Capabilities.Prompts.ListChanged},
	} {
		if l.on {
			ask = append(ask, `"`+l.name+`ListChanged":true`)
		}
	}
	if uris = s.owner.Watched(); len(uris) > 0 {
		list, _ := json.Marshal(uris) // strings always marshal
		ask = append(ask, `"resourceSubscriptions":`+string(list))
	}
	if len(ask) == 0 {
		return nil, nil
	}
	return []byte(`"notifications":{` + strings.Join(ask, ",") + "}"), uris
}

// listen keeps the stream open, and opens it again when it breaks.
func (s *Session) listen() {
	pause := firstPause
	for {
		params, uris := s.wanted()
		if params == nil {
			select {
			case <-s.ended:
				return
			case <-s.stream.again:
				continue
			}
		}
		opened := time.Now()
		err, broken := s.listenOnce(params)
		s.stream.set(nil, err)
		if err != nil && rpc.IsMethodMissing(err) {
			return
		}
		if broken {
			if time.Since(opened) > longestPause {
				pause = firstPause
			}
			wait := time.NewTimer(pause + rand.N(pause/4))
			select {
			case <-s.ended:
				wait.Stop()
				return
			case <-s.stream.again: // somebody waits for it
				wait.Stop()
			case <-wait.C:
			}
			pause = min(2*pause, longestPause)
		}
		select {
		case <-s.ended:
			return
		default:
		}
		s.cache.drop("") // changes may have been missed
		s.owner.ListsStale()
		for _, uri := range uris {
			if slices.Contains(s.owner.Watched(), uri) {
				s.perhapsUpdated(uri)
			}
		}
	}
}

// listenOnce has the stream open until it ends, or is to be another. It reports
// false in the latter case.
func (s *Session) listenOnce(params []byte) (err *fault.Error, broken bool) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	sent, done := make(chan int64, 1), make(chan *fault.Error, 1)
	go func() {
		_, err := s.conn.Do(ctx, rpc.Request{Method: "subscriptions/listen", Params: params, Asker: s.agreed.Metadata.Members(), Forever: true, Sent: sent})
		done <- err
	}()
	select {
	case err := <-done:
		return err, true
	case <-s.stream.again:
	}
	select { // let the server end it: one stream that ends late may take the next one's subscriptions with it
	case id := <-sent:
		s.conn.Cancel(id, "it is opened anew")
		wait := time.NewTimer(wrapUpTime)
		defer wait.Stop()
		select {
		case <-done:
			return nil, false
		case <-wait.C:
		}
	default:
	}
	cancel()
	<-done
	return nil, false
}
