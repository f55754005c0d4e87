// Package egress is what the gate lets out to callers and to the record: values,
// errors and texts without secrets, and within limits. It decides nothing about
// calls.
package egress

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// recordTimeout bounds how long a caller waits for a full sink, or for the ledger at
// the end of a call. Past it the caller goes on and the missing record is logged:
// callers are not held up for ever by a full disk.
const recordTimeout = 5 * time.Second

// maxQuote is how many bytes of a server's words an error's message repeats.
const maxQuote = 2000

// DefaultMaxResult is the size in bytes above which a result is kept in the store
// where nothing else is said.
const DefaultMaxResult = 64 << 10

// Store keeps a large result durably and describes where as a JSON-able value.
type Store interface {
	Put(ctx context.Context, data []byte, mediaType string) (any, error)
}

// Redactor takes secrets out of a JSON value, keeps it JSON, and says which kinds it
// found.
type Redactor func([]byte) (clean []byte, found []string)

// Filter is the way out. All members are required but Store and Redact.
type Filter struct {
	Sink      signal.Sink
	Logger    *slog.Logger
	Redact    Redactor // nil keeps all
	Store     Store    // nil keeps none
	MaxResult int      // bytes above which a result is kept in the store
}

// Clean takes the secrets out of a JSON value; flags has secret_KIND for each kind
// that was found.
func (f *Filter) Clean(raw json.RawMessage) (clean json.RawMessage, flags []string) {
	if f.Redact == nil {
		return raw, nil
	}
	clean, found := f.Redact(raw)
	for _, kind := range found {
		flags = append(flags, "secret_"+kind)
	}
	return clean, flags
}

// Error is a failure as callers and the ledger get it, a *fault.Error: it may hold a
// server's words, or values of a result, and gets the treatment of a result. Nil
// stays nil.
func (f *Filter) Error(err error) error {
	e := fault.From(err)
	if e == nil {
		return nil
	}
	out := *e // which others may hold, too
	text, _ := redact.Strip(strings.ToValidUTF8(e.Message, "\uFFFD"))
	if out.Message = f.Text(text); len(out.Message) > maxQuote {
		out.Message = out.Message[:Cut(out.Message, maxQuote)] + "…"
	}
	if len(e.Data) > 0 {
		if out.Data, _ = f.Clean(e.Data); len(out.Data) > f.MaxResult {
			out.Data = nil // the message tells what can be told
		}
	}
	return &out
}

// Text is text without secrets.
func (f *Filter) Text(text string) string {
	if f.Redact == nil {
		return text
	}
	raw, _ := json.Marshal(text) // a string always marshals
	raw, _ = f.Redact(raw)
	_ = json.Unmarshal(raw, &text) // as Redact keeps it JSON
	return text
}

// Keep puts a result that is larger than MaxResult into the store and says where it
// is. It is nil for a smaller one, without a store, and where storing failed: the
// caller still has the result, and the event that answers a call by file has it whole.
// The event of any other call has only the preview.
func (f *Filter) Keep(ctx context.Context, raw json.RawMessage) any {
	if len(raw) <= f.MaxResult || f.Store == nil {
		return nil
	}
	ref, err := f.Store.Put(ctx, raw, "application/json")
	if err != nil {
		f.Logger.Error("keeping a large result failed", "size", len(raw), "error", err)
		return nil
	}
	return ref
}

// Record hands a signal, and those before it, to the sink, also where ctx has ended
// already. It waits five seconds for the sink; with the answer that somebody waits for
// by its ID as long as ctx and five seconds more. What cannot be recorded is logged.
func (f *Filter) Record(ctx context.Context, s signal.Signal) {
	caller := ctx
	ctx, cancel := Outlive(ctx)
	if s.ID != "" {
		cancel()
		ctx, cancel = context.WithCancel(context.WithoutCancel(caller))
		defer context.AfterFunc(caller, func() { time.AfterFunc(recordTimeout, cancel) })()
	}
	defer cancel()
	if err := f.Sink.Observe(ctx, s); err != nil {
		f.Logger.Error("a step was not recorded", "call", s.CallID, "server", s.Server, "step", s.Kind, "count", len(s.Before)+1, "error", err)
	}
}

// Outlive is a context for what is left to do when a call is over, whether its
// caller is still there or not. It lasts five seconds.
func Outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
}

// Cut is the length of the beginning of s that has at most n bytes and ends between
// characters.
func Cut(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
