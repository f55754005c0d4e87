package streamable

import (
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway"
)

// holder is who came with a token, and what it showed then. Without one there is
// nothing that could be taken back.
type holder struct {
	token string
	view  *gateway.View
}

// guest is something that goes on for a holder: a session, or a request.
type guest struct {
	holder
	end func()
}

// welcome has end called when the token is not good for the same view any more.
// The function it returns says that this is not needed any more.
func (h *Handler) welcome(who holder, end func()) (leave func()) {
	if who.token == "" {
		return func() {}
	}
	g := &guest{who, end}
	h.mu.Lock()
	h.guests[g] = true
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		delete(h.guests, g)
		h.mu.Unlock()
	}
}

// usher looks at the tokens of guests until the handler is closed.
func (h *Handler) usher() {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		h.mu.Lock()
		all := make([]*guest, 0, len(h.guests))
		for g := range h.guests {
			all = append(all, g)
		}
		h.mu.Unlock()
		good := map[holder]bool{}
		for _, g := range all {
			if _, looked := good[g.holder]; !looked {
				good[g.holder] = h.o.Tokens(g.token) == g.view
			}
			if !good[g.holder] {
				g.end()
			}
		}
	}
}
