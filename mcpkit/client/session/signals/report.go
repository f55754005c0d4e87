package signals

import (
	"fmt"
	"maps"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// CountLate is the count of answers that came after their requests were given up,
// in Problems. A late answer is no fault.
const CountLate = "late_response"

// reports counts what a server does wrong, by code.
type reports struct {
	mu    sync.Mutex
	count map[string]int64
}

// Report counts a fault of the server. The first of its code, the tenth, the
// hundredth and so on are logged and announced, so that a flood costs nothing.
func (s *Signals) Report(code, detail string, sample []byte) {
	if n := s.Count(code); powerOfTen(n) {
		s.announce(code, detail, sample, n)
	}
}

// Count adds one to the count of a code, and returns it.
func (s *Signals) Count(code string) int64 {
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	if s.reports.count == nil {
		s.reports.count = map[string]int64{}
	}
	s.reports.count[code]++
	return s.reports.count[code]
}

// Announce counts a fault of the server, logs it and announces it, however many
// there were before.
func (s *Signals) Announce(code, detail string) { s.announce(code, detail, nil, s.Count(code)) }

// announce does not wait: it may be dropped while the queue is full.
func (s *Signals) announce(code, detail string, sample []byte, n int64) {
	text := rpc.Printable(sample)
	s.o.Log.Warn("the server breaks the protocol", "code", code, "detail", detail, "sample", text, "count", n)
	s.queue.offer(signal.Signal{
		Kind: signal.Problem, Server: s.o.Server, Instance: s.o.Instance,
		Summary: fmt.Sprintf("server %s: %s", s.o.Server, detail),
		Data:    &signal.Fault{Code: code, Detail: detail, Sample: text, Count: n},
	})
}

// Problems is how often the server did what, by the codes of signal.Fault, and by
// [CountLate].
func (s *Signals) Problems() map[string]int64 {
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	m := make(map[string]int64, len(s.reports.count))
	maps.Copy(m, s.reports.count)
	return m
}

func powerOfTen(n int64) bool {
	for ; n > 1 && n%10 == 0; n /= 10 {
	}
	return n == 1
}
