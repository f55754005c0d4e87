package bridge

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// step is the data of one step, of which every call has six, as encoding/json
// writes it but without HTML escapes and without secrets, or says why it has none.
func (w *writer) step(s *signal.Step) (json.RawMessage, error) {
	same := w.repeated(s)
	f := fields{b: w.room(256 + len(same) + len(s.Reason) + len(s.Arguments) + len(s.Preview) + len(s.Artifact) + len(s.Result)), w: w}
	f.b = jsontext.AppendQuote(append(f.b, `{"call_id":`...), w.clean(s.CallID))
	f.b = append(f.b, same...)
	f.text(`,"decision":`, s.Decision)
	f.text(`,"approval":`, s.Approval)
	f.text(`,"actor":`, s.Actor)
	f.raw(`,"arguments":`, s.Arguments)
	f.text(`,"preview":`, s.Preview)
	f.number(`,"size":`, s.Size)
	f.number(`,"duration_ms":`, s.DurationMS)
	f.number(`,"waited_ms":`, s.WaitedMS)
	f.yes(`,"is_error":`, s.IsError)
	f.text(`,"error_code":`, s.ErrorCode)
	f.text(`,"reason":`, s.Reason)
	f.text(`,"outcome":`, s.Outcome)
	f.yes(`,"retryable":`, s.Retryable)
	f.list(`,"candidates":`, s.Candidates)
	f.raw(`,"artifact":`, s.Artifact)
	f.raw(`,"result":`, s.Result)
	f.list(`,"flags":`, s.Flags)
	f.yes(`,"replayed":`, s.Replayed)
	if f.err != nil {
		return nil, f.err
	}
	return w.take(append(f.b, '}')), nil
}

// repeated is what the steps of one tool have in common.
func (w *writer) repeated(s *signal.Step) []byte {
	if l := &w.last; len(w.same) == 0 || l.Server != s.Server || l.Tool != s.Tool || l.Entrance != s.Entrance || l.Risk != s.Risk {
		f := fields{b: w.same[:0], w: w}
		f.text(`,"server":`, s.Server)
		f.b = jsontext.AppendQuote(append(f.b, `,"tool":`...), w.clean(s.Tool))
		f.text(`,"entrance":`, s.Entrance)
		f.text(`,"risk":`, s.Risk)
		w.same = f.b
		l.Server, l.Tool, l.Entrance, l.Risk = s.Server, s.Tool, s.Entrance, s.Risk
	}
	return w.same
}

// fields appends the members of a step that are not empty. Their names come with
// what stands around them.
type fields struct {
	b   []byte
	w   *writer
	err error
}

func (f *fields) text(name, s string) {
	if s != "" {
		f.b = jsontext.AppendQuote(append(f.b, name...), f.w.clean(s))
	}
}

func (f *fields) number(name string, n int64) {
	if n != 0 {
		f.b = strconv.AppendInt(append(f.b, name...), n, 10)
	}
}

func (f *fields) yes(name string, is bool) {
	if is {
		f.b = append(append(f.b, name...), "true"...)
	}
}

func (f *fields) list(name string, list []string) {
	if len(list) == 0 {
		return
	}
	f.b = append(append(f.b, name...), '[')
	for i, s := range list {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		f.b = jsontext.AppendQuote(f.b, f.w.clean(s))
	}
	f.b = append(f.b, ']')
}

func (f *fields) raw(name string, raw json.RawMessage) {
	switch {
	case len(raw) == 0:
	case !jsontext.Valid(raw):
		f.err = fmt.Errorf("%s is no JSON", name[2:len(name)-2])
	default:
		f.b = append(append(f.b, name...), f.w.o.Redact(raw)...)
	}
}
