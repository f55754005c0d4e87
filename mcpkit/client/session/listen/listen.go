// Package listen keeps the subscriptions/listen request of a session open, by which a
// server of the stateless protocol tells of changes (2026-07-28,
// subscriptions/listen). The request says once what is wanted, so it is made anew
// where that changes, and where it breaks. What the server tells goes another way:
// as notifications, to the session.
//
//	stream := listen.New(options)
//	go stream.Run(ctx)
//	err := stream.Subscribe(ctx, "file:///tmp/x")
package listen

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	methodListen = "subscriptions/listen"

	wrapUpTime   = 300 * time.Millisecond // for the server to end a stream that is about to be opened anew
	firstPause   = time.Second            // before a broken stream is opened again; it doubles
	longestPause = time.Minute
	agreeTime    = 10 * time.Second // for the server to agree to a subscription
)

// Options configure a Stream. All fields are required.
type Options struct {
	Server string // its name, for messages
	Conn   *rpc.Conn
	Agreed *handshake.Agreement // filled before Run
	// Watched is the URIs of the resources whose changes are wanted.
	Watched func() []string
	// Missed is told that changes may have been missed, those of the resources uris
	// among them.
	Missed func(uris []string)
	Ended  <-chan struct{} // closed when the session has ended
	Crash  string          // code of the fault of those who then wait
}

// Stream is the request of one session. It is safe for concurrent use.
type Stream struct {
	o     Options
	again chan struct{} // capacity 1: what is wanted has changed

	mu      sync.Mutex
	changed chan struct{} // closed with each change of what follows; nil: nobody waits
	uris    []string      // agreed on
	refused *fault.Error  // of the last attempt
	tries   int
}

// New makes a Stream that is not open yet.
func New(o Options) *Stream { return &Stream{o: o, again: make(chan struct{}, 1)} }

// Reopen makes the request anew, as what is wanted has changed. It does not wait.
func (l *Stream) Reopen() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// set notes how an attempt went.
func (l *Stream) set(uris []string, refused *fault.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uris, l.refused = uris, refused
	l.tries++
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Subscribe makes the request anew and waits until the server has agreed to tell of
// the resource uri, which is among those of Options.Watched.
func (l *Stream) Subscribe(ctx context.Context, uri string) error {
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
			l.Reopen()
		}
		select {
		case <-changed:
		case <-timer.C:
			return fault.New(fault.Timeout, "server %s did not agree to tell of %s within %v", l.o.Server, uri, agreeTime)
		case <-ctx.Done():
			return rpc.GaveUp(ctx, methodListen)
		case <-l.o.Ended:
			return fault.New(l.o.Crash, "server %s ended", l.o.Server).Retry()
		}
	}
}

// Acknowledged notes what the server agreed to tell of, by the params of
// notifications/subscriptions/acknowledged.
func (l *Stream) Acknowledged(params []byte) {
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
func (l *Stream) wanted() (params []byte, uris []string) {
	var ask []string
	caps := l.o.Agreed.Capabilities
	for _, list := range []struct {
		name string
		on   bool
	}{
		{"tools", caps.Tools != nil && caps.Tools.ListChanged},
		{"resources", caps.Resources != nil && caps.Resources.ListChanged},
		{"prompts", caps.Prompts != nil && caps.Prompts.ListChanged},
	} {
		if list.on {
			ask = append(ask, `"`+list.name+`ListChanged":true`)
		}
	}
	if uris = l.o.Watched(); len(uris) > 0 {
		quoted, _ := json.Marshal(uris) // strings always marshal
		ask = append(ask, `"resourceSubscriptions":`+string(quoted))
	}
	if len(ask) == 0 {
		return nil, nil
	}
	return []byte(`"notifications":{` + strings.Join(ask, ",") + "}"), uris
}

// Run keeps the request open, and makes it again when it breaks, until the session has
// ended or the server does not know the method. ctx is that of the requests.
func (l *Stream) Run(ctx context.Context) {
	pause := firstPause
	for {
		params, uris := l.wanted()
		if params == nil {
			select {
			case <-l.o.Ended:
				return
			case <-l.again:
				continue
			}
		}
		opened := time.Now()
		err, broken := l.listenOnce(ctx, params)
		l.set(nil, err)
		if err != nil && rpc.IsMethodMissing(err) {
			return
		}
		if broken {
			if time.Since(opened) > longestPause {
				pause = firstPause
			}
			wait := time.NewTimer(pause + rand.N(pause/4))
			select {
			case <-l.o.Ended:
				wait.Stop()
				return
			case <-l.again: // somebody waits for it
				wait.Stop()
			case <-wait.C:
			}
			pause = min(2*pause, longestPause)
		}
		select {
		case <-l.o.Ended:
			return
		default:
		}
		var missed []string
		for _, uri := range uris {
			if slices.Contains(l.o.Watched(), uri) {
				missed = append(missed, uri)
			}
		}
		l.o.Missed(missed)
	}
}

// listenOnce has the request open until it ends, or is to be made anew. It reports
// false in the latter case.
func (l *Stream) listenOnce(ctx context.Context, params []byte) (err *fault.Error, broken bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent, done := make(chan int64, 1), make(chan *fault.Error, 1)
	go func() {
		_, err := l.o.Conn.Do(ctx, rpc.Request{Method: methodListen, Params: params, Asker: l.o.Agreed.Metadata.Members(), Forever: true, Sent: sent})
		done <- err
	}()
	select {
	case err := <-done:
		return err, true
	case <-l.again:
	}
	select { // let the server end it: one stream that ends late may take the next one's subscriptions with it
	case id := <-sent:
		l.o.Conn.Cancel(id, "it is opened anew")
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
