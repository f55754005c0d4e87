package streamable

import (
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// holder is a token that came with a request, and the view that the token opened at
// that time. The token is empty where the request came without one.
type holder struct {
	token string
	view  *view.View
}

// grant is something that goes on for a holder: a session, or a request.
type grant struct {
	holder
	end func()
}

// during has end called when the token does not open the same view any more, until
// the function that it returns is called.
func (h *Handler) during(who holder, end func()) (leave func()) {
	if who.token == "" {
		return func() {}
	}
	g := &grant{who, end}
	h.mu.Lock()
	h.grants[g] = true
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		delete(h.grants, g)
		h.mu.Unlock()
	}
}

// watchTokens looks at the tokens of grants until the handler is closed.
func (h *Handler) watchTokens() {
	tick := time.NewTicker(access.LookAgain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		h.mu.Lock()
		all := make([]*grant, 0, len(h.grants))
		for g := range h.grants {
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
