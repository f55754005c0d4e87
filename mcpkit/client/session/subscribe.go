package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/asking"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const (
	methodUpdated   = "notifications/resources/updated"
	unsubscribeTime = 5 * time.Second // for an answer that nobody waits for long
)

// Subscribe has the server tell of a resource's changes, and returns when it has
// agreed.
func (s *Session) Subscribe(ctx context.Context, uri string) error {
	if s.Stateless() {
		return s.stream.Subscribe(ctx, uri)
	}
	_, err := s.Request(ctx, "resources/subscribe", `"uri":`+rpc.Quote(uri), features.With{})
	return err
}

// Unsubscribe ends what Subscribe began.
func (s *Session) Unsubscribe(uri string) {
	if s.Stateless() {
		s.stream.Reopen()
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, unsubscribeTime)
	defer cancel()
	if _, err := s.Request(ctx, "resources/unsubscribe", `"uri":`+rpc.Quote(uri), features.With{}); err != nil {
		s.log.Debug("a subscription could not be ended", "uri", uri, "error", err)
	}
}

// Resubscribe takes up the watches that an earlier session of the server had.
func (s *Session) Resubscribe(ctx context.Context) {
	for _, uri := range s.owner.Watched() {
		if !s.Stateless() {
			if err := s.Subscribe(ctx, uri); err != nil {
				s.log.Warn("a watched resource cannot be subscribed to any more", "uri", uri, "error", err)
				continue
			}
		}
		s.perhapsUpdated(uri)
	}
}

// updated deals with the news that a resource changed. What nobody asked to hear
// is recorded and goes no further.
func (s *Session) updated(params []byte, owned bool) {
	uri := jsontext.String(jsontext.Get(params, "uri"))
	s.ResourceChanged(uri)
	watched, deliver := s.owner.Updated(uri)
	if !watched {
		s.Report(asking.ProblemUninvited, "news of a resource that nobody subscribed to", []byte(uri))
	}
	if !s.updates.allow() {
		s.Report(problemUpdateFlood, "changes of resources beyond the rate were not recorded", nil)
		return
	}
	if !owned {
		params = append([]byte(nil), params...)
	}
	s.Emit(signal.Signal{Kind: signal.Notification, Method: methodUpdated, Params: params, RecordOnly: !deliver})
}

// changesMissed is told that the stream of changes was broken, and that those of the
// resources uris may have been missed too.
func (s *Session) changesMissed(uris []string) {
	s.ChangesMissed()
	s.owner.ListsStale()
	for _, uri := range uris {
		s.perhapsUpdated(uri)
	}
}

// perhapsUpdated tells of a change that may have been missed.
func (s *Session) perhapsUpdated(uri string) {
	params, _ := json.Marshal(map[string]any{"uri": uri, "_meta": map[string]bool{"aurora/missed": true}}) // always marshals
	s.updated(params, true)
}
