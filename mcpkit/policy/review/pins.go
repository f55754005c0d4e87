package review

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// State is what is known of a tool's definition.
type State string

const (
	Unpinned State = "unpinned" // nobody has approved anything of its server
	Approved State = "approved" // it is what was approved
	Changed  State = "changed"  // another definition was approved
	Added    State = "added"    // its server was approved without it
	Removed  State = "removed"  // it was approved and its server lists it no more
)

// CatalogChanged is the code of an approval that came too late: its tools are
// others by now.
const CatalogChanged = "catalog_changed"

// Options say how Pins work.
type Options struct {
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil is the real clock
}

// Pins are the approved definitions, and the catalogue that was last reviewed.
// They are safe for concurrent use.
type Pins struct {
	db  *sql.DB
	log *slog.Logger
	now func() time.Time

	write sync.Mutex // one change at a time; held over I/O, never with mu

	mu      sync.RWMutex
	pins    map[catalog.ID]pin
	servers map[string]bool
	current map[catalog.ID]*seen
}

type pin struct {
	hash       string
	definition json.RawMessage
}

// seen is a tool of the catalogue that was last reviewed.
type seen struct {
	hash       string
	definition json.RawMessage
	findings   []Finding
}

// Open reads the pins from a database of package policy.
func Open(ctx context.Context, db *sql.DB, o Options) (*Pins, error) {
	p := &Pins{
		db: db, log: o.Logger, now: o.Now,
		pins: map[catalog.ID]pin{}, servers: map[string]bool{}, current: map[catalog.ID]*seen{},
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.now == nil {
		p.now = time.Now
	}
	if err := p.load(ctx); err != nil {
		return nil, fmt.Errorf("reading the approved tools: %w", err)
	}
	return p, nil
}

func (p *Pins) load(ctx context.Context) error {
	rows, err := p.db.QueryContext(ctx, "SELECT server, tool, hash, definition FROM pins")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id catalog.ID
		var one pin
		if err := rows.Scan(&id.Server, &id.Tool, &one.hash, &one.definition); err != nil {
			return err
		}
		p.pins[id] = one
	}
	if err := rows.Err(); err != nil {
		return err
	}
	servers, err := p.db.QueryContext(ctx, "SELECT server FROM pinned")
	if err != nil {
		return err
	}
	defer servers.Close()
	for servers.Next() {
		var name string
		if err := servers.Scan(&name); err != nil {
			return err
		}
		p.servers[name] = true
	}
	return servers.Err()
}

// State is what is known of a tool with that hash. It reads memory alone.
func (p *Pins) State(id catalog.ID, hash string) State {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.state(id, hash)
}

func (p *Pins) state(id catalog.ID, hash string) State {
	one, ok := p.pins[id]
	switch {
	case ok && one.hash == hash:
		return Approved
	case ok:
		return Changed
	case p.servers[id.Server]:
		return Added
	}
	return Unpinned
}

// Seen is what the last review had of a tool: the hash of its definition and the
// findings. ok is false where the tool was not listed.
func (p *Pins) Seen(id catalog.ID) (hash string, findings []Finding, ok bool) {
	p.mu.RLock()
	s, ok := p.current[id]
	p.mu.RUnlock()
	if !ok {
		return "", nil, false
	}
	return s.hash, s.findings, true
}

// Report is the review of a catalogue, by server.
type Report struct {
	Servers []ServerReport `json:"servers"`
}

// ServerReport is the review of one server's tools. Fingerprint stands for the
// tools as they were reviewed.
type ServerReport struct {
	Server      string       `json:"server"`
	Pinned      bool         `json:"pinned"`
	Fingerprint string       `json:"fingerprint,omitempty"`
	Tools       []ToolReport `json:"tools"`
}

// ToolReport is the review of one tool.
type ToolReport struct {
	Tool     string    `json:"tool"`
	State    State     `json:"state"`
	Hash     string    `json:"hash,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// Review looks through a whole catalogue and keeps it as the current one. A
// server that is seen for the first time is pinned as it is where trusted says
// so, unless one of its tools has a finding of Danger. The report is complete
// also where the pins could not be written.
func (p *Pins) Review(ctx context.Context, tools []*catalog.Tool, trusted func(server string) bool) (*Report, error) {
	p.write.Lock()
	defer p.write.Unlock()
	scan := newScanner(tools)
	current := make(map[catalog.ID]*seen, len(tools))
	fresh := map[string]bool{} // servers to pin
	p.mu.RLock()
	old := p.current
	for _, t := range tools {
		if server := t.Source.Server; !p.servers[server] && trusted != nil && trusted(server) {
			fresh[server] = true
		}
	}
	for id := range p.pins { // approved tool by tool: the rest is for a person, too
		delete(fresh, id.Server)
	}
	p.mu.RUnlock()
	for _, t := range tools {
		id := t.ID()
		s := &seen{definition: Definition(t), findings: scan.scan(t)}
		s.hash = hashOf(s.definition)
		current[id] = s
		bad := Worst(s.findings, Danger)
		if bad == nil {
			continue
		}
		delete(fresh, id.Server)
		if was := old[id]; was == nil || was.hash != s.hash {
			p.log.Warn("a tool's definition looks poisoned", "server", id.Server, "tool", bad.Tool, "code", bad.Code, "at", bad.Pointer)
		}
	}
	took := map[catalog.ID]pin{}
	for id, s := range current {
		if fresh[id.Server] {
			took[id] = pin{s.hash, s.definition}
		}
	}
	servers := slices.Sorted(maps.Keys(fresh))
	err := p.store(ctx, servers, took, "policy")
	p.mu.Lock()
	p.current = current
	if err == nil {
		p.hold(servers, took)
	}
	p.mu.Unlock()
	return p.Report(), err
}

// Report is the last review as it stands now, sorted by server and tool.
func (p *Pins) Report() *Report {
	p.mu.RLock()
	defer p.mu.RUnlock()
	tools := map[string][]ToolReport{}
	for id, s := range p.current {
		tools[id.Server] = append(tools[id.Server], ToolReport{id.Tool, p.state(id, s.hash), s.hash, s.findings})
	}
	for id := range p.pins {
		if _, listed := p.current[id]; !listed && tools[id.Server] != nil {
			tools[id.Server] = append(tools[id.Server], ToolReport{Tool: id.Tool, State: Removed})
		}
	}
	r := &Report{Servers: []ServerReport{}}
	for _, server := range slices.Sorted(maps.Keys(tools)) {
		list := tools[server]
		slices.SortFunc(list, func(a, b ToolReport) int { return strings.Compare(a.Tool, b.Tool) })
		r.Servers = append(r.Servers, ServerReport{server, p.servers[server], p.fingerprint(server), list})
	}
	return r
}

// fingerprint is one hash over the tools of a server as they were reviewed.
func (p *Pins) fingerprint(server string) string {
	var lines []string
	for id, s := range p.current {
		if id.Server == server {
			lines = append(lines, fmt.Sprintf("%q %s\n", id.Tool, s.hash))
		}
	}
	slices.Sort(lines)
	return hashOf([]byte(strings.Join(lines, "")))
}

// Approval is a person's word that the tools of a server, or one of them, are as
// they should be.
type Approval struct {
	Server string
	Tool   string // the server's own name; empty is all its tools
	// Hash is that of the tool, or the server's fingerprint, as the person saw
	// it. If the tools have become others since, nothing is approved. Empty takes
	// them as they are.
	Hash  string
	Actor string
}

// Approve pins what was reviewed. Approving a server forgets pins of tools that
// it lists no more.
func (p *Pins) Approve(ctx context.Context, a Approval) error {
	p.write.Lock()
	defer p.write.Unlock()
	p.mu.RLock()
	current := p.current // replaced, never changed
	hash := p.fingerprint(a.Server)
	p.mu.RUnlock()
	listed := slices.ContainsFunc(slices.Collect(maps.Keys(current)), func(id catalog.ID) bool { return id.Server == a.Server })
	if a.Tool != "" {
		var s *seen
		if s, listed = current[catalog.ID{Server: a.Server, Tool: a.Tool}]; listed {
			hash = s.hash
		}
	}
	switch {
	case !listed:
		return fault.New(fault.ToolNotFound, "%s lists no such tool now; it must be running to be approved", a.Server)
	case a.Hash != "" && a.Hash != hash:
		return fault.New(CatalogChanged, "the tools of %s are not those that were shown any more; look at them again", a.Server)
	}
	took := map[catalog.ID]pin{}
	var servers []string
	for id, s := range current {
		if id.Server == a.Server && (a.Tool == "" || id.Tool == a.Tool) {
			took[id] = pin{s.hash, s.definition}
		}
	}
	if a.Tool == "" {
		servers = []string{a.Server}
	}
	if err := p.store(ctx, servers, took, cmp.Or(a.Actor, "somebody")); err != nil {
		return err
	}
	p.mu.Lock()
	p.hold(servers, took)
	p.mu.Unlock()
	return nil
}

// store writes pins: of the given servers in place of all they had, and of
// single tools beside them. The caller holds write.
func (p *Pins) store(ctx context.Context, servers []string, took map[catalog.ID]pin, actor string) error {
	if len(servers)+len(took) == 0 {
		return nil
	}
	at := p.now().UnixMilli()
	err := p.transact(ctx, func(tx *sql.Tx) error {
		for _, server := range servers {
			if _, err := tx.Exec("DELETE FROM pins WHERE server = ?", server); err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT OR REPLACE INTO pinned (server, actor, at) VALUES (?, ?, ?)", server, actor, at); err != nil {
				return err
			}
		}
		for id, one := range took {
			if _, err := tx.Exec("INSERT OR REPLACE INTO pins (server, tool, hash, definition, actor, at) VALUES (?, ?, ?, ?, ?, ?)",
				id.Server, id.Tool, one.hash, []byte(one.definition), actor, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("approving %d tools: %w", len(took), err)
	}
	p.log.Info("tools were approved", "servers", servers, "tools", len(took), "actor", actor)
	return nil
}

// hold lets what store wrote be in force. The caller holds mu.
func (p *Pins) hold(servers []string, took map[catalog.ID]pin) {
	maps.DeleteFunc(p.pins, func(id catalog.ID, _ pin) bool { return slices.Contains(servers, id.Server) })
	for _, server := range servers {
		p.servers[server] = true
	}
	maps.Copy(p.pins, took)
}

// Forget takes back every approval of a server's tools.
func (p *Pins) Forget(ctx context.Context, server string) error {
	p.write.Lock()
	defer p.write.Unlock()
	err := p.transact(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"pins", "pinned"} {
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE server = ?", server); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forgetting the tools of %s: %w", server, err)
	}
	p.mu.Lock()
	maps.DeleteFunc(p.pins, func(id catalog.ID, _ pin) bool { return id.Server == server })
	delete(p.servers, server)
	p.mu.Unlock()
	return nil
}

// transact commits what do does, whole, whether or not the caller still waits.
func (p *Pins) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := p.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// ToolDiff is how one tool differs from what was approved.
type ToolDiff struct {
	Tool    string   `json:"tool"`
	State   State    `json:"state"`
	Changes []Change `json:"changes,omitempty"` // of a changed tool; of an added one the whole definition
}

// Diff lists how the tools of a server differ from what was approved, in the
// order of their names. A server that lists nothing now has no differences.
func (p *Pins) Diff(server string) []ToolDiff {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var out []ToolDiff
	running := false
	for id, s := range p.current {
		if id.Server != server {
			continue
		}
		running = true
		if state := p.state(id, s.hash); state != Approved {
			out = append(out, ToolDiff{id.Tool, state, Compare(p.pins[id].definition, s.definition)})
		}
	}
	for id := range p.pins {
		if _, listed := p.current[id]; running && id.Server == server && !listed {
			out = append(out, ToolDiff{Tool: id.Tool, State: Removed})
		}
	}
	slices.SortFunc(out, func(a, b ToolDiff) int { return strings.Compare(a.Tool, b.Tool) })
	return out
}

// Worst is the first finding of at least the given severity, or nil.
func Worst(findings []Finding, least Severity) *Finding {
	rank := []Severity{Note, Warning, Danger}
	for i := range findings {
		if slices.Index(rank, findings[i].Severity) >= slices.Index(rank, least) {
			return &findings[i]
		}
	}
	return nil
}
