package entry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const (
	maxSummary = 300     // bytes of a summary that an entry has
	maxText    = 8 << 10 // bytes of text by which an entry is found
	maxOpen    = 2_000   // calls that are open at once; of the others each record is an entry
)

// Folder makes entries of records. It is not safe for concurrent use.
type Folder struct {
	open  map[string]*Draft // calls without an end, by id
	dirty []*Draft
}

// NewFolder is a Folder without open calls.
func NewFolder() *Folder { return &Folder{open: make(map[string]*Draft)} }

// Add adds the events of a record. What the journal holds and is no envelope is an
// error, and nothing of the record from there on is added.
func (f *Folder) Add(rec *segment.Record) error {
	part := 0
	for line := range rec.Before() {
		if err := f.event(rec, part, line); err != nil {
			return err
		}
		part++
	}
	return f.event(rec, part, rec.Event())
}

// Restore makes an entry that is stored the draft of a call that goes on, with the
// words of its records. Those that are no longer there are left out.
func (f *Folder) Restore(e Entry, records []segment.Record) {
	f.dirty = nil
	delete(f.open, e.CallID)
	for i := range records {
		if err := f.Add(&records[i]); err != nil {
			break
		}
	}
	d := f.open[e.CallID]
	for _, other := range f.dirty {
		other.dirty = false
	}
	f.dirty = nil
	if d == nil {
		d = &Draft{}
		f.open[e.CallID] = d
	}
	d.Entry, d.Stored, d.dirty = e, e.ID, false
}

// Take returns what was added or changed since the last Take, by ID, and takes it as
// stored.
func (f *Folder) Take() []Draft {
	out := make([]Draft, len(f.dirty))
	for i, d := range f.dirty {
		out[i] = *d
		d.Stored, d.dirty = d.ID, false
		if !d.Open && f.open[d.CallID] == d {
			delete(f.open, d.CallID)
		}
	}
	f.dirty = nil
	slices.SortFunc(out, func(a, b Draft) int { return int(int64(a.ID) - int64(b.ID)) })
	return out
}

// Pending is how many entries the next Take returns.
func (f *Folder) Pending() int { return len(f.dirty) }

// event adds one envelope.
func (f *Folder) event(rec *segment.Record, part int, line []byte) error {
	var env struct {
		Header struct {
			Method        string `json:"method"`
			CorrelationID string `json:"correlation_id"`
			Source        struct {
				App string `json:"app"`
			} `json:"source"`
		} `json:"header"`
		Payload struct {
			Type      string          `json:"type"`
			Summary   string          `json:"summary"`
			SessionID string          `json:"session_id"`
			Data      json.RawMessage `json:"data"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(line, &env); err != nil {
		return fmt.Errorf("record %d of the journal is no envelope: %w", rec.Pos, err)
	}
	h, p := &env.Header, &env.Payload
	kind := kinds[h.Method]
	if kind == "" {
		kind = Event
	}
	var id string // of the call
	if kind == Call || kind == Resource || kind == Prompt {
		if id = jsontext.String(jsontext.Get(p.Data, "call_id")); id == "" {
			id = h.CorrelationID
		}
	}
	d := f.open[id]
	if id == "" || d == nil || !d.Open {
		d = &Draft{Entry: Entry{Started: rec.Time, Kind: kind, Server: h.Source.App, CallID: id, Open: id != ""}}
		if id != "" && (len(f.open) < maxOpen || f.open[id] != nil) {
			f.open[id] = d
		}
	}
	d.ID, d.Time, d.Type = ID(rec.Pos, part), rec.Time, p.Type
	d.Summary = cut(p.Summary, maxSummary)
	if p.SessionID != "" {
		d.Session = p.SessionID
	}
	if n := len(d.Records); n == 0 || d.Records[n-1] != rec.Pos {
		d.Records = append(d.Records, rec.Pos)
	}
	if !d.dirty {
		d.dirty = true
		f.dirty = append(f.dirty, d)
	}
	d.text(p.Summary)
	if id == "" {
		d.strings(p.Data)
		if failures[p.Type] {
			d.Outcome = Failed
		}
		return nil
	}
	return d.step(signal.Kind(p.Type), p.Data)
}

var kinds = map[string]Kind{
	amp.MethodCall: Call, amp.MethodToolResult: Call, amp.MethodResource: Resource, amp.MethodPrompt: Prompt,
	amp.MethodLifecycle: Lifecycle, amp.MethodCapability: Capability, amp.MethodNotification: Notification, amp.MethodError: Problem,
}

// failures are the types of events without a call that tell of a failure.
var failures = map[string]bool{
	string(signal.ServerCrashed): true, string(signal.ServerPermanentlyFailed): true, string(signal.Problem): true,
	string(signal.Problem) + ".event_rejected": true,
}

// step adds one event of a call, or of a reading of a resource or prompt.
func (d *Draft) step(kind signal.Kind, data json.RawMessage) error {
	// Step has the members of the other types of data that matter here, by the same names.
	var s struct {
		signal.Step
		Subject string `json:"subject"`
		URI     string `json:"uri"`
		Prompt  string `json:"prompt"`
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("the data of %s of call %s cannot be read: %w", kind, d.CallID, err)
		}
	}
	keep(&d.Server, s.Server)
	for _, tool := range []string{s.Subject, s.URI, s.Prompt, s.Tool} {
		keep(&d.Tool, tool)
	}
	keep(&d.Caller, s.Entrance)
	keep(&d.Risk, s.Risk)
	keep(&d.ErrorCode, s.ErrorCode)
	keep(&d.Approval, s.Approval)
	for _, text := range []string{s.Preview, s.Reason, s.Actor} {
		d.text(text)
	}
	d.strings(s.Arguments)
	d.strings(jsontext.Get(data, "questions"))
	d.Open, d.Outcome = true, Running
	switch kind {
	case signal.PermissionRequested:
		d.Decision, d.Asked = s.Decision, d.Asked || s.Decision == "ask"
		if d.Asked {
			d.Outcome = Asked
		}
	case signal.PermissionResolved:
		d.Decision, d.Actor = s.Decision, s.Actor
		person := s.Actor != "" && s.Actor != "policy"
		d.Granted = person && s.Decision == "allow"
		d.Asked = d.Asked || person || s.Decision == "open"
	case signal.InputRequired, signal.InputResolved:
		d.Question = true
	case signal.ToolCompleted, signal.ResourceObserved, signal.PromptExpanded:
		d.Open, d.Outcome = false, OK
	case signal.ToolFailed, signal.AmbiguousCall, signal.ResourceFailed, signal.PromptFailed:
		d.Open, d.Outcome = false, Failed
		switch {
		case s.ErrorCode == fault.Denied:
			d.Outcome = Denied
		case s.ErrorCode == fault.ApprovalRequired:
			d.Outcome = Asked
		case s.Outcome == string(fault.OutcomeUnknown):
			d.Outcome = Unknown
		}
	}
	if !d.Open {
		d.DurationMS, d.WaitedMS, d.Size = s.DurationMS, s.WaitedMS, s.Size
	}
	return nil
}

// keep sets a member that an event says.
func keep(into *string, said string) {
	if said != "" {
		*into = said
	}
}

// text adds a text by which the entry is found, as far as there is room.
func (d *Draft) text(s string) {
	if room := maxText - d.read; room < len(s) {
		s = cut(s, room)
	}
	d.read += len(s)
	d.Text.Add(s)
}

// strings adds the strings and numbers of a JSON text.
func (d *Draft) strings(raw json.RawMessage) {
	if len(raw) == 0 || d.read >= maxText {
		return
	}
	switch raw[0] {
	case '{':
		jsontext.Members(raw, func(name, value []byte) bool { d.strings(value); return d.read < maxText })
	case '[':
		jsontext.Elements(raw, func(value []byte) bool { d.strings(value); return d.read < maxText })
	case '"':
		d.text(jsontext.String(raw))
	case 't', 'f', 'n':
	default:
		d.text(string(raw))
	}
}

// cut is the beginning of s, of at most n bytes and whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
