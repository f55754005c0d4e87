package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/words"
)

// Filter chooses entries: those that are all it says. Zero values choose all.
type Filter struct {
	Kind     string // one of entry.Kinds; or approval: a person was asked; or question: a server asked
	Type     string // of the last event; or the first words of one followed by .*
	Server   string
	Tool     string
	Caller   string
	Session  string
	Outcome  string
	Approval string
	Text     string    // has all of these words
	Since    time.Time // from then on
	Until    time.Time // before
}

// Kinds beyond those of package entry.
const (
	KindApproval = "approval"
	KindQuestion = "question"
)

// Page says which of the entries that a filter chooses to return. Those with the
// highest IDs come first, except with After.
type Page struct {
	Limit  int    // at most so many
	Before uint64 // only IDs below; 0: all
	After  uint64 // only IDs above, the lowest first; 0: all
}

// A word of the index that stands for a value has one of these characters of Unicode's
// private use in front. No word of a text has one.
const (
	valueKind     = "\ue000"
	valueType     = "\ue001"
	valueServer   = "\ue002"
	valueTool     = "\ue003"
	valueCaller   = "\ue004"
	valueSession  = "\ue005"
	valueOutcome  = "\ue006"
	valueApproval = "\ue007"
)

// value is the word for a value; it has no upper case and nothing that ends a word.
func value(of, v string) string {
	sum := sha256.Sum256([]byte(v))
	return of + hex.EncodeToString(sum[:6])
}

// tokens are the words of an entry, with a blank between.
func tokens(d *entry.Draft) string {
	var b strings.Builder
	add := func(of, v string) {
		if v != "" {
			b.WriteString(value(of, v))
			b.WriteByte(' ')
		}
	}
	add(valueKind, string(d.Kind))
	if d.Asked {
		add(valueKind, KindApproval)
	}
	if d.Question {
		add(valueKind, KindQuestion)
	}
	add(valueType, d.Type)
	for i, c := range d.Type {
		if c == '.' {
			add(valueType, d.Type[:i+1]+"*")
		}
	}
	add(valueServer, d.Server)
	add(valueTool, d.Tool)
	add(valueCaller, d.Caller)
	add(valueSession, d.Session)
	add(valueOutcome, string(d.Outcome))
	add(valueApproval, d.Approval)
	for _, w := range d.Text.Words() {
		b.WriteString(w)
		b.WriteByte(' ')
	}
	return b.String()
}

// match is the filter as an expression of FTS5; ok is false where nothing can match.
func (f *Filter) match() (expr string, ok bool) {
	var all []string
	for _, v := range []struct{ of, v string }{
		{valueApproval, f.Approval}, {valueSession, f.Session}, {valueTool, f.Tool}, {valueType, f.Type}, {valueServer, f.Server},
		{valueOutcome, f.Outcome}, {valueCaller, f.Caller}, {valueKind, f.Kind},
	} {
		if v.v != "" {
			all = append(all, `"`+value(v.of, v.v)+`"`)
		}
	}
	terms := words.Query(f.Text)
	if f.Text != "" && len(terms) == 0 {
		return "", false
	}
	for _, t := range terms {
		w := `"` + t.Word + `"`
		if t.Prefix {
			w += "*"
		}
		all = append(all, w)
	}
	return strings.Join(all, " AND "), true
}

const columns = `e.id, e.time, e.started, e.kind, e.type, e.server, e.tool, e.caller, e.session, e.outcome, e.call_id, e.summary, e.risk, e.decision,
	e.actor, e.approval, e.error_code, e.duration, e.waited, e.size, e.marks, e.records`

// List returns entries that a filter chooses.
func (s *Store) List(ctx context.Context, f Filter, p Page) ([]entry.Entry, error) {
	expr, ok := f.match()
	if !ok {
		return nil, nil
	}
	lo, hi, err := s.bounds(ctx, f, p)
	if err != nil || lo > hi {
		return nil, err
	}
	order := "DESC"
	if p.After > 0 {
		order = "ASC"
	}
	query, args := "SELECT "+columns+" FROM entries e WHERE e.id BETWEEN ? AND ? ORDER BY e.id "+order+" LIMIT ?", []any{lo, hi, p.Limit}
	if expr != "" {
		query = "SELECT " + columns + " FROM (SELECT rowid AS id FROM found WHERE found MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid " + order + " LIMIT ?) f" +
			" CROSS JOIN entries e ON e.id = f.id ORDER BY e.id " + order
		args = []any{expr, lo, hi, p.Limit}
	}
	return s.entries(ctx, query, args...)
}

// Calls returns the entries with a call's id, the latest first.
func (s *Store) Calls(ctx context.Context, id string) ([]entry.Entry, error) {
	return s.entries(ctx, "SELECT "+columns+" FROM entries e WHERE e.call_id = ? AND e.call_id <> '' ORDER BY e.id DESC LIMIT 100", id)
}

// Open returns the calls without an end, the latest first, at most so many.
func (s *Store) Open(ctx context.Context, most int) ([]entry.Entry, error) {
	return s.entries(ctx, "SELECT "+columns+" FROM entries e WHERE e.marks & 8 <> 0 ORDER BY e.id DESC LIMIT ?", most)
}

func (s *Store) entries(ctx context.Context, query string, args ...any) (out []entry.Entry, err error) {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entry.Entry
		var id, at, started int64
		var bits int
		var records []byte
		if err := rows.Scan(&id, &at, &started, &e.Kind, &e.Type, &e.Server, &e.Tool, &e.Caller, &e.Session, &e.Outcome, &e.CallID, &e.Summary, &e.Risk, &e.Decision,
			&e.Actor, &e.Approval, &e.ErrorCode, &e.DurationMS, &e.WaitedMS, &e.Size, &bits, &records); err != nil {
			return nil, explain(err)
		}
		e.ID, e.Time, e.Started, e.Records = uint64(id), time.Unix(0, at), time.Unix(0, started), unpacked(records)
		e.Asked, e.Granted, e.Question, e.Open = bits&markAsked != 0, bits&markGranted != 0, bits&markQuestion != 0, bits&markOpen != 0
		out = append(out, e)
	}
	return out, explain(rows.Err())
}

// bounds are the lowest and the highest ID that a filter's times and a page allow. IDs
// rise with the time, so that the ones for a time are found by halving.
func (s *Store) bounds(ctx context.Context, f Filter, p Page) (lo, hi int64, err error) {
	lo, hi = 0, math.MaxInt64
	if !f.Since.IsZero() {
		if lo, err = s.firstAt(ctx, f.Since); err != nil {
			return 0, 0, err
		}
	}
	if !f.Until.IsZero() {
		if hi, err = s.firstAt(ctx, f.Until); err != nil {
			return 0, 0, err
		}
		hi--
	}
	if p.Before > 0 {
		hi = min(hi, int64(min(p.Before, math.MaxInt64))-1)
	}
	if p.After > 0 {
		lo = max(lo, int64(min(p.After, math.MaxInt64-1))+1)
	}
	return lo, hi, nil
}

// firstAt is the lowest ID of an entry at t or later.
func (s *Store) firstAt(ctx context.Context, t time.Time) (int64, error) {
	var lo, hi int64
	if err := s.read.QueryRowContext(ctx, "SELECT coalesce((SELECT id FROM entries ORDER BY id LIMIT 1), 0), coalesce((SELECT id FROM entries ORDER BY id DESC LIMIT 1), 0) + 1").Scan(&lo, &hi); err != nil {
		return 0, explain(err)
	}
	next, err := s.read.PrepareContext(ctx, "SELECT id, time FROM entries WHERE id >= ? ORDER BY id LIMIT 1")
	if err != nil {
		return 0, explain(err)
	}
	defer next.Close()
	for lo < hi { // the one that is sought is in lo..hi
		mid := lo + (hi-lo)/2
		var id, at int64
		switch err := next.QueryRowContext(ctx, mid).Scan(&id, &at); {
		case errors.Is(err, sql.ErrNoRows):
			hi = mid
		case err != nil:
			return 0, explain(err)
		case at >= t.UnixNano():
			hi = mid
		default:
			lo = id + 1
		}
	}
	return lo, nil
}

// Stat is one line of statistics: the calls of one tool, server, caller or hour that
// have ended. Durations are in milliseconds, without what people took.
type Stat struct {
	Key     string `json:"key"`
	Calls   int64  `json:"calls"`
	Errors  int64  `json:"errors"`
	P50MS   int64  `json:"p50_ms"`
	P95MS   int64  `json:"p95_ms"`
	P99MS   int64  `json:"p99_ms"`
	Bytes   int64  `json:"bytes"`   // of results
	Asked   int64  `json:"asked"`   // calls for which a person was asked
	Granted int64  `json:"granted"` // and that a person allowed
}

// keys are the expressions by which statistics are grouped.
var keys = map[string]string{
	"tool": "e.tool", "server": "e.server", "caller": "e.caller",
	"hour": "strftime('%Y-%m-%dT%H:00:00Z', e.time / 1000000000, 'unixepoch')",
}

// Groups are what statistics can be grouped by.
var Groups = []string{"tool", "server", "caller", "hour"}

// Stats counts the calls that a filter chooses, grouped by one of Groups, in the order
// of the keys.
func (s *Store) Stats(ctx context.Context, by string, f Filter) ([]Stat, error) {
	key, ok := keys[by]
	if !ok {
		return nil, fmt.Errorf("statistics by %q: there are %s", by, strings.Join(Groups, ", "))
	}
	expr, ok := f.match()
	if !ok {
		return nil, nil
	}
	lo, hi, err := s.bounds(ctx, f, Page{})
	if err != nil || lo > hi {
		return nil, err
	}
	from, args := "entries e WHERE", []any{}
	if expr != "" {
		from, args = "found JOIN entries e ON e.id = found.rowid WHERE found MATCH ? AND", []any{expr}
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+key+" AS k, e.duration AS d, count(*), sum(e.outcome <> 'ok'), sum(e.size), sum(e.marks & 1), sum(e.marks & 2 <> 0) FROM "+
		from+" e.id BETWEEN ? AND ? AND e.kind = 'call' AND e.marks & 8 = 0 GROUP BY k, d ORDER BY k, d", append(args, lo, hi)...)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	var out []Stat
	var durations []counted // of the last one
	end := func() {
		if n := len(out); n > 0 {
			s := &out[n-1]
			s.P50MS, s.P95MS, s.P99MS = percentile(durations, s.Calls, 50), percentile(durations, s.Calls, 95), percentile(durations, s.Calls, 99)
		}
	}
	for rows.Next() {
		var key string
		var c counted
		var one Stat
		if err := rows.Scan(&key, &c.value, &c.count, &one.Errors, &one.Bytes, &one.Asked, &one.Granted); err != nil {
			return nil, explain(err)
		}
		if n := len(out); n == 0 || out[n-1].Key != key {
			end()
			out, durations = append(out, Stat{Key: key}), nil
		}
		s := &out[len(out)-1]
		s.Calls += c.count
		s.Errors += one.Errors
		s.Bytes += one.Bytes
		s.Asked += one.Asked
		s.Granted += one.Granted
		durations = append(durations, c)
	}
	end()
	return out, explain(rows.Err())
}

// counted is a value with how often it was seen.
type counted struct{ value, count int64 }

// percentile is the lowest value that at least p percent of all do not exceed.
func percentile(sorted []counted, all, p int64) int64 {
	rank := (all*p + 99) / 100
	for _, c := range sorted {
		if rank -= c.count; rank <= 0 {
			return c.value
		}
	}
	return 0
}

// Check says which value of a filter can choose nothing, because there is no such
// kind, outcome or form of a type.
func (f *Filter) Check() error {
	kinds, outcomes := []string{KindApproval, KindQuestion}, []string{}
	for _, k := range entry.Kinds {
		kinds = append(kinds, string(k))
	}
	for _, o := range entry.Outcomes {
		outcomes = append(outcomes, string(o))
	}
	switch {
	case f.Kind != "" && !slices.Contains(kinds, f.Kind):
		return fmt.Errorf("kind %.40q is not known: there are %s", f.Kind, strings.Join(kinds, ", "))
	case f.Outcome != "" && !slices.Contains(outcomes, f.Outcome):
		return fmt.Errorf("outcome %.40q is not known: there are %s", f.Outcome, strings.Join(outcomes, ", "))
	case strings.Contains(strings.TrimSuffix(f.Type, ".*"), "*"):
		return fmt.Errorf("type %.40q is neither a type nor its first words followed by .*", f.Type)
	}
	return nil
}
