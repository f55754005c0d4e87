package session

import (
	"context"
	"fmt"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// alive notes that the server gave a sign of life.
func (s *Session) alive() { s.life.Store(time.Now().UnixNano()) }

// CheckAlive ends the session of a server that has been silent for too long and does
// not answer either. It returns when to look again. Silence is no fault while
// the server works on a call, or while nobody reads what it says.
func (s *Session) CheckAlive(ctx context.Context) time.Duration {
	silent := time.Since(time.Unix(0, s.life.Load()))
	if silent < s.cfg.PingInterval {
		return s.cfg.PingInterval - silent
	}
	busy := s.InFlight() > 0 && silent < s.cfg.MaxCallTime
	if busy || s.closing.Load() || s.signals.Held(time.Now()) {
		return s.cfg.PingInterval
	}
	before, began := s.life.Load(), time.Now()
	m := rpc.Request{Method: "ping", Timeout: s.cfg.PingTimeout, Asker: s.agreed.Metadata.Members()}
	if s.Stateless() {
		m.Method = "server/discover" // there is no ping (2026-07-28)
	}
	// Any answer proves life, a refusal too.
	_, err := s.conn.Do(ctx, m)
	if err != nil && (err.Code == fault.Unreachable || err.Code == fault.ConnectionLost) && !s.closing.Load() {
		s.fail(fmt.Errorf("asking server %s for a sign of life: %w", s.server, err))
		s.wire.Close()
		return s.cfg.PingInterval
	}
	mute := err != nil && err.Code == fault.Timeout && s.life.Load() == before
	if mute && !s.signals.Held(began) && !s.closing.Load() {
		s.fail(fmt.Errorf("%w: no sign of life for %v", ErrHung, (silent + s.cfg.PingTimeout).Round(time.Millisecond)))
		s.wire.Close()
	}
	return s.cfg.PingInterval
}
