// Package entry makes the entries of the history of the records of a journal: one
// for each call, with what became of it, and one for each other event.
//
//	f := entry.NewFolder()
//	err := f.Add(&record)
//	for _, d := range f.Take() {
//		// d replaces the entry d.Stored, if that is not 0
//	}
//
// A call's steps may lie in several records, between which the call is open. The
// package keeps open calls in memory; what is stored, and where, is the caller's.
package entry

import (
	"time"

	"github.com/aurorabot-dev/platform/bridge/history/words"
)

// Entry is one line of the history: a call, or another event.
type Entry struct {
	ID       uint64    `json:"id"`      // rises with the time; changes while a call goes on
	Time     time.Time `json:"time"`    // of the last event, as the journal has it
	Started  time.Time `json:"started"` // of the first event of a call
	Kind     Kind      `json:"kind"`
	Type     string    `json:"type"` // of the last event
	Server   string    `json:"server,omitempty"`
	Tool     string    `json:"tool,omitempty"`   // of a call; the URI of a resource, the name of a prompt
	Caller   string    `json:"caller,omitempty"` // where a call came from
	Session  string    `json:"session,omitempty"`
	Outcome  Outcome   `json:"outcome,omitempty"`
	CallID   string    `json:"call_id,omitempty"`
	Summary  string    `json:"summary"`
	Risk     string    `json:"risk,omitempty"`
	Decision string    `json:"decision,omitempty"` // what the policy or a person decided at last
	Actor    string    `json:"actor,omitempty"`    // who decided
	Approval string    `json:"approval,omitempty"` // of the question to a person
	Asked    bool      `json:"asked,omitempty"`    // a person was asked
	Granted  bool      `json:"granted,omitempty"`  // and allowed the call
	Question bool      `json:"question,omitempty"` // the server asked something in the middle of the call

	DurationMS int64  `json:"duration_ms,omitempty"` // without WaitedMS
	WaitedMS   int64  `json:"waited_ms,omitempty"`   // for a person's answer
	Size       int64  `json:"size,omitempty"`        // of the result, bytes
	ErrorCode  string `json:"error_code,omitempty"`

	Open bool `json:"open,omitempty"` // no end of the call is recorded
	// Records are the positions of the journal's records that the entry is made of.
	Records []uint64 `json:"records"`
}

// Kind is what an entry is about.
type Kind string

const (
	Call         Kind = "call"
	Resource     Kind = "resource"
	Prompt       Kind = "prompt"
	Event        Kind = "event" // of an app
	Lifecycle    Kind = "lifecycle"
	Capability   Kind = "capability"
	Notification Kind = "notification"
	Problem      Kind = "problem"
)

// Kinds are all of them.
var Kinds = []Kind{Call, Resource, Prompt, Event, Lifecycle, Capability, Notification, Problem}

// Outcome is how something ended; of what has no outcome it is empty.
type Outcome string

const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Denied  Outcome = "denied"
	Unknown Outcome = "unknown" // the call was sent, and no answer came
	Asked   Outcome = "asked"   // a person was asked, and had not answered at the last event
	Running Outcome = "running" // no end is recorded
)

// Outcomes are all of them.
var Outcomes = []Outcome{OK, Failed, Denied, Unknown, Asked, Running}

// Draft is an entry with what it is found by.
type Draft struct {
	Entry
	Text   words.Set
	Stored uint64 // the ID under which it was last taken; 0 if it was not
	read   int    // bytes of text that were added to Text
	dirty  bool
}

// PartBits is how many of an ID's lower bits count the events inside a record. The
// others are the record's position.
const PartBits = 10

// ID is that of the event with the number part, from 0, of the record at pos.
func ID(pos uint64, part int) uint64 { return pos<<PartBits | uint64(min(part, 1<<PartBits-1)) }

// Position is that of the record with the last event of the entry with that ID.
func Position(id uint64) uint64 { return id >> PartBits }
