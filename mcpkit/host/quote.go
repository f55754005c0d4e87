package host

import (
	"encoding/json"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// maxQuote is how many bytes of a server's words an error's message repeats.
const maxQuote = 2000

// quote is a failure as callers and the ledger get it: it may hold a server's words,
// or values of a result, and those are no better than the result would have been.
// Nil stays nil.
func (h *Host) quote(err error) error {
	f := fault.From(err)
	if f == nil {
		return nil
	}
	out := *f // which others may hold, too
	text, _ := redact.Strip(strings.ToValidUTF8(f.Message, "\uFFFD"))
	if out.Message = h.cleanText(text); len(out.Message) > maxQuote {
		out.Message = out.Message[:cut(out.Message, maxQuote)] + "…"
	}
	if len(f.Data) > 0 {
		if out.Data, _ = h.o.Redact(f.Data); len(out.Data) > h.o.MaxResult {
			out.Data = nil // what can be made sense of is in the message
		}
	}
	return &out
}

// cleanText is text without secrets.
func (h *Host) cleanText(text string) string {
	raw, _ := json.Marshal(text) // a string always marshals
	raw, _ = h.o.Redact(raw)
	_ = json.Unmarshal(raw, &text) // as Redact keeps it JSON
	return text
}

// progress hands a server's progress on without secrets; nil where nobody listens.
func (l *line) progress() func(json.RawMessage) {
	if l.call.Progress == nil {
		return nil
	}
	return func(params json.RawMessage) {
		clean, _ := l.h.o.Redact(params)
		l.call.Progress(clean)
	}
}
