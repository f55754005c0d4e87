package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// writer writes Server-Sent Events.
type writer struct {
	w     io.Writer
	flush func() error
	last  uint64 // position that was reached, whether it was shown or not
	part  int    // of the position after last, the part that was reached
	wrote time.Time
}

func (s *writer) write(format string, args ...any) error {
	s.wrote = time.Now()
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.flush()
}

// alive says that the stream is there, and how far it is: an id without data is
// no event and is still what a client resumes from.
func (s *writer) alive() error { return s.write(": alive\nid: %s\n\n", s.id()) }

// id is what a client resumes after.
func (s *writer) id() string {
	if s.part > 0 {
		return fmt.Sprintf("%d.%d", s.last, s.part)
	}
	return strconv.FormatUint(s.last, 10)
}

func (s *writer) gap(from, to uint64) error {
	return s.write("id: %d\nevent: %s\ndata: {\"from\":%d,\"to\":%d}\n\n", to, gapEvent, from, to)
}

func (s *writer) event(e *Event) error {
	line := []byte(e.Envelope)
	if bytes.ContainsAny(line, "\r\n") { // would end the field
		var one bytes.Buffer
		if err := json.Compact(&one, line); err != nil {
			return fmt.Errorf("event %d is no JSON: %w", e.Position, err)
		}
		line = one.Bytes()
	}
	return s.write("id: %s\nevent: %s\ndata: %s\n\n", s.id(), e.Type, line)
}

// matches reports whether a type is one of those asked for, or begins as one of
// them that ends in *. None asked for are all.
func matches(want []string, typ string) bool {
	for _, t := range want {
		prefix, pattern := strings.CutSuffix(t, "*")
		if t == typ || pattern && strings.HasPrefix(typ, prefix) {
			return true
		}
	}
	return len(want) == 0
}
