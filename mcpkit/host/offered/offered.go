// Package offered keeps the catalogue that calls are made from: the current tools by
// name, reviewed before any of them can be called, and those that left it with their
// servers.
//
//	c := offered.New(offered.Options{Tools: manager.Tools, Review: gate.Review, Prefix: "mcp"})
//	tool, err := c.Find("im.polaris.weather.get_current", catalog.ID{})
package offered

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// Options say where the catalogue comes from. Review and Down may be nil.
type Options struct {
	// Tools are the current tools of all servers.
	Tools func() *client.Snapshot
	// Review looks through a new table.
	Review func(ctx context.Context, table *catalog.Table) (*review.Report, error)
	// Down says why a server takes no calls just now, or nil.
	Down   func(server string) *fault.Error
	Prefix string // of exported names
	Logger *slog.Logger
}

// Catalogue is the catalogue by name. It is safe for concurrent use.
type Catalogue struct {
	o Options

	mu       sync.Mutex
	snap     *client.Snapshot // what table was made of
	table    *catalog.Table
	reviewed time.Time      // when table was, or done
	gone     *catalog.Table // tools that were in the catalogue and are not now
}

// New makes a Catalogue.
func New(o Options) *Catalogue { return &Catalogue{o: o} }

// Table is the current catalogue by name.
func (c *Catalogue) Table() *catalog.Table {
	snap := c.o.Tools()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snap != snap {
		c.remember(snap.Tools)
		c.snap, c.table = snap, catalog.NewTable(c.o.Prefix, snap.Tools)
		c.reviewed = time.Time{}
	}
	if c.reviewed != done && time.Since(c.reviewed) > reviewRetry {
		c.review(c.table)
	}
	return c.table
}

// Reconsider has the catalogue reviewed once more before its next use: other rules
// may trust a server that was seen before, and approve it at first sight.
func (c *Catalogue) Reconsider() {
	c.mu.Lock()
	c.reviewed = time.Time{}
	c.mu.Unlock()
}

// reviewRetry is the pause after a review that failed, as on a full disk.
const reviewRetry = time.Second

// done stands for a review that succeeded.
var done = time.Unix(1<<40, 0)

// reviewTimeout bounds the review of a catalogue; past it tools that were not
// reviewed are asked about.
const reviewTimeout = 10 * time.Second

// review has a new catalogue looked through before any of it can be called.
func (c *Catalogue) review(table *catalog.Table) {
	if c.o.Review == nil {
		c.reviewed = done
		return
	}
	c.reviewed = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), reviewTimeout)
	defer cancel()
	report, err := c.o.Review(ctx, table)
	if err != nil {
		c.o.Logger.Error("reviewing the catalogue failed; its new tools are asked about until it is tried again", "error", err)
	} else {
		c.reviewed = done
	}
	if report == nil {
		return
	}
	for _, s := range report.Servers {
		for _, t := range s.Tools {
			if t.State == review.Changed || t.State == review.Added || len(t.Findings) > 0 {
				c.o.Logger.Warn("tool wants a review", "server", s.Server, "tool", t.Tool, "state", t.State, "findings", len(t.Findings))
			}
		}
	}
}

// maxGone bounds the tools that are remembered after they left the catalogue.
const maxGone = 5000

// remember keeps the tools that are about to leave the catalogue.
func (c *Catalogue) remember(next []*catalog.Tool) {
	if c.table == nil || c.o.Down == nil {
		return
	}
	now := make(map[catalog.ID]bool, len(next))
	for _, t := range next {
		now[t.ID()] = true
	}
	var gone []*catalog.Tool
	for _, t := range c.table.Tools() {
		if !now[t.ID()] {
			now[t.ID()] = true
			gone = append(gone, t)
		}
	}
	if c.gone != nil {
		for _, t := range c.gone.Tools() {
			if !now[t.ID()] && len(gone) < maxGone {
				gone = append(gone, t)
			}
		}
	}
	c.gone = catalog.NewTable(c.o.Prefix, gone)
}

// Find finds the tool that a name means, or that an id does where that is set. A tool whose server is down is told
// apart from one that does not exist.
func (c *Catalogue) Find(name string, id catalog.ID) (*catalog.Tool, error) {
	table := c.Table()
	tool, err := find(table, name, id)
	if now, former := table.Renamed(name); former && err == nil && id == (catalog.ID{}) {
		c.o.Logger.Info("a tool was called by a former name", "name", redact.Show(name), "now", now)
	}
	if err == nil || fault.From(err).Code != fault.ToolNotFound {
		return tool, err
	}
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone == nil {
		return nil, err
	}
	if was, e := find(gone, name, id); e == nil {
		if down := c.o.Down(was.Source.Server); down != nil {
			return nil, down
		}
	}
	return nil, err
}

// find is Find in one table.
func find(table *catalog.Table, name string, id catalog.ID) (*catalog.Tool, error) {
	if id == (catalog.ID{}) {
		return table.Resolve(name)
	}
	if tool := table.Tool(id); tool != nil {
		return tool, nil
	}
	return nil, fault.New(fault.ToolNotFound, "%s is not offered any more", redact.Show(id.Canonical()))
}
