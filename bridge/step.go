package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// marshal writes the data of a signal. Steps, of which every call has six, are
// written by hand.
func marshal(data any) (json.RawMessage, error) {
	if step, ok := data.(*signal.Step); ok && step != nil {
		return appendStep(make([]byte, 0, 256+len(step.Arguments)+len(step.Preview)+len(step.Reason)+len(step.Result)), step)
	}
	return json.Marshal(data)
}

// appendStep is encoding/json's form of a step, but without HTML escapes.
func appendStep(b []byte, s *signal.Step) (_ []byte, err error) {
	b = appendString(append(b, `{"call_id":`...), s.CallID)
	b = appendText(b, `,"server":`, s.Server)
	b = appendString(append(b, `,"tool":`...), s.Tool)
	b = appendText(b, `,"entrance":`, s.Entrance)
	b = appendText(b, `,"risk":`, s.Risk)
	b = appendText(b, `,"decision":`, s.Decision)
	b = appendText(b, `,"approval":`, s.Approval)
	b = appendText(b, `,"actor":`, s.Actor)
	if b, err = appendRaw(b, `,"arguments":`, s.Arguments); err != nil {
		return nil, err
	}
	b = appendText(b, `,"preview":`, s.Preview)
	b = appendNumber(b, `,"size":`, s.Size)
	b = appendNumber(b, `,"duration_ms":`, s.DurationMS)
	b = appendNumber(b, `,"waited_ms":`, s.WaitedMS)
	b = appendTrue(b, `,"is_error":`, s.IsError)
	b = appendText(b, `,"error_code":`, s.ErrorCode)
	b = appendText(b, `,"reason":`, s.Reason)
	b = appendText(b, `,"outcome":`, s.Outcome)
	b = appendTrue(b, `,"retryable":`, s.Retryable)
	b = appendList(b, `,"candidates":`, s.Candidates)
	if b, err = appendRaw(b, `,"artifact":`, s.Artifact); err != nil {
		return nil, err
	}
	if b, err = appendRaw(b, `,"result":`, s.Result); err != nil {
		return nil, err
	}
	b = appendList(b, `,"flags":`, s.Flags)
	b = appendTrue(b, `,"replayed":`, s.Replayed)
	return append(b, '}'), nil
}

func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

func appendNumber(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendTrue(b []byte, name string, is bool) []byte {
	if !is {
		return b
	}
	return append(append(b, name...), "true"...)
}

func appendList(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(append(b, name...), '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

func appendRaw(b []byte, name string, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return b, nil
	}
	if !jsoncheck.Valid(raw) {
		return nil, fmt.Errorf("%s is no JSON", name[2:len(name)-2])
	}
	return append(append(b, name...), raw...), nil
}

// appendString writes text that needs no care itself and leaves the rest to
// encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendEncoded(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendEncoded(b []byte, s string) []byte {
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}
