package control

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/store"
)

// History asks for entries of the history.
func (c *Client) History(ctx context.Context, f store.Filter, p store.Page) (v history.Page, err error) {
	q := filterQuery(f)
	q.Set("limit", strconv.Itoa(p.Limit))
	for name, id := range map[string]uint64{"before": p.Before, "after": p.After} {
		if id > 0 {
			q.Set(name, strconv.FormatUint(id, 10))
		}
	}
	return v, c.get(ctx, "/v1/history?"+q.Encode(), &v)
}

// HistoryStats asks for statistics of the calls that f chooses.
func (c *Client) HistoryStats(ctx context.Context, by string, f store.Filter) ([]store.Stat, error) {
	q := filterQuery(f)
	q.Set("by", by)
	var v struct{ Stats []store.Stat }
	return v.Stats, c.get(ctx, "/v1/history/stats?"+q.Encode(), &v)
}

// HistoryCall asks for one call with its chain.
func (c *Client) HistoryCall(ctx context.Context, id string) (*history.Chain, error) {
	v := new(history.Chain)
	return v, c.get(ctx, "/v1/history/calls/"+url.PathEscape(id), v)
}

// RebuildHistory has the history made again of the journal.
func (c *Client) RebuildHistory(ctx context.Context) error {
	return c.post(ctx, "/v1/history/rebuild", struct{}{}, nil)
}

// filterQuery is a filter as the parameters of a request.
func filterQuery(f store.Filter) url.Values {
	q := url.Values{}
	for name, v := range map[string]string{
		"kind": f.Kind, "type": f.Type, "server": f.Server, "tool": f.Tool, "caller": f.Caller, "session": f.Session,
		"outcome": f.Outcome, "approval": f.Approval, "text": f.Text,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			q.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	return q
}
