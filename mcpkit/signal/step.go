package signal

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// AppendJSON appends the step as encoding/json writes it, but with <, > and & as they
// are, since people read the files. Every call writes six steps, and the arguments and
// the result in them can be large: they are looked through once here. The error names
// a raw value that is no JSON.
func (s *Step) AppendJSON(b []byte) ([]byte, error) {
	b = jsontext.AppendQuote(append(b, `{"call_id":`...), s.CallID)
	b = text(b, "server", s.Server)
	b = jsontext.AppendQuote(append(b, `,"tool":`...), s.Tool)
	b = text(b, "entrance", s.Entrance)
	b = text(b, "risk", s.Risk)
	b = text(b, "decision", s.Decision)
	b = text(b, "approval", s.Approval)
	b = text(b, "actor", s.Actor)
	b, err := value(b, "arguments", s.Arguments)
	if err != nil {
		return nil, err
	}
	b = text(b, "preview", s.Preview)
	b = number(b, "size", s.Size)
	b = number(b, "duration_ms", s.DurationMS)
	b = number(b, "waited_ms", s.WaitedMS)
	b = truth(b, "is_error", s.IsError)
	b = text(b, "error_code", s.ErrorCode)
	b = text(b, "reason", s.Reason)
	b = text(b, "outcome", s.Outcome)
	b = truth(b, "retryable", s.Retryable)
	b = texts(b, "candidates", s.Candidates)
	if b, err = value(b, "artifact", s.Artifact); err != nil {
		return nil, err
	}
	if b, err = value(b, "result", s.Result); err != nil {
		return nil, err
	}
	b = texts(b, "flags", s.Flags)
	b = truth(b, "replayed", s.Replayed)
	return append(b, '}'), nil
}

// name appends the beginning of a member that is not the first one.
func name(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}

func text(b []byte, member, s string) []byte {
	if s == "" {
		return b
	}
	return jsontext.AppendQuote(name(b, member), s)
}

func texts(b []byte, member string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = name(b, member)
	for i, s := range list {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		b = jsontext.AppendQuote(append(b, sep), s)
	}
	return append(b, ']')
}

func number(b []byte, member string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(name(b, member), n, 10)
}

func truth(b []byte, member string, is bool) []byte {
	if !is {
		return b
	}
	return append(name(b, member), "true"...)
}

func value(b []byte, member string, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return b, nil
	}
	b, err := jsontext.AppendCompact(name(b, member), raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return b, nil
}
