// Package historyapi reads the API's requests for what happened, and answers them.
// What happened is the [Backend]'s to know.
package historyapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

// Backend is what happened, by the index of the journal.
type Backend interface {
	History(ctx context.Context, f store.Filter, p store.Page) (history.Page, error)
	HistoryStats(ctx context.Context, by string, f store.Filter) ([]store.Stat, error)
	// HistoryCall is the latest call with that id, with its events.
	HistoryCall(ctx context.Context, id string) (*history.Chain, error)
	// RebuildHistory has the index made again, and returns when that has begun.
	RebuildHistory(ctx context.Context) error
}

// Answers are what answers GET of each path.
func Answers(b Backend) map[string]func(*http.Request) (any, error) {
	return map[string]func(*http.Request) (any, error){
		"/v1/history": func(r *http.Request) (any, error) {
			q := r.URL.Query()
			f, err := filter(q)
			if err != nil {
				return nil, err
			}
			var p store.Page
			if p.Limit, err = httpjson.Number(q, "limit", 50, 1000); err != nil {
				return nil, err
			}
			for name, into := range map[string]*uint64{"before": &p.Before, "after": &p.After} {
				if v := q.Get(name); v != "" {
					if *into, err = strconv.ParseUint(v, 10, 63); err != nil {
						return nil, httpjson.Bad("%s is the id of an entry, not %.40q", name, v)
					}
				}
			}
			return b.History(r.Context(), f, p)
		},
		"/v1/history/stats": func(r *http.Request) (any, error) {
			q := r.URL.Query()
			by := q.Get("by")
			if !slices.Contains(store.Groups, by) {
				return nil, httpjson.Bad("by is one of %s, not %.40q", strings.Join(store.Groups, ", "), by)
			}
			f, err := filter(q)
			if err != nil {
				return nil, err
			}
			stats, err := b.HistoryStats(r.Context(), by, f)
			if stats == nil {
				stats = []store.Stat{}
			}
			return map[string]any{"stats": stats}, err
		},
		"/v1/history/calls/{id}": func(r *http.Request) (any, error) {
			return b.HistoryCall(r.Context(), r.PathValue("id"))
		},
	}
}

// filter reads the parameters that choose entries.
func filter(q url.Values) (store.Filter, error) {
	f := store.Filter{
		Kind: q.Get("kind"), Type: q.Get("type"), Server: q.Get("server"), Tool: q.Get("tool"), Caller: q.Get("caller"),
		Session: q.Get("session"), Outcome: q.Get("outcome"), Approval: q.Get("approval"), Text: q.Get("text"),
	}
	for name, into := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if v := q.Get(name); v != "" {
			t, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return f, httpjson.Bad("%s is a time such as 2026-06-17T14:30:00+08:00, not %.40q", name, v)
			}
			*into = t
		}
	}
	if err := f.Check(); err != nil {
		return f, httpjson.Bad("%v", err)
	}
	return f, nil
}
