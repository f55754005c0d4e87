package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/strict"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

const (
	maxRequest = 16 << 20 // bytes of a request
	maxTimeout = 24 * time.Hour
)

// Request is the content of a request's file: one JSON object with these members,
// each at most once, and no other.
type Request struct {
	ID        string          `json:"id,omitempty"` // as in the file's name, where it is given
	Name      string          `json:"name"`         // of the tool, in any full form
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// TimeoutMS bounds the wait for a person's answer, and then the call without
	// progress. Zero is as long as the question is open, and the server's.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Wait makes the request wait for a person, if one is asked. Without it, it is
	// answered with approval_required.
	Wait           bool     `json:"wait,omitempty"`
	Approval       string   `json:"approval,omitempty"`        // handle of an earlier question about the same call
	IdempotencyKey string   `json:"idempotency_key,omitempty"` // a second call with it gets the first one's answer
	Provenance     []string `json:"provenance,omitempty"`      // ids of the calls whose results the arguments came from
}

// call is the request as a call.
func (r *Request) call(id string) host.Call {
	return host.Call{
		ID: id, Name: r.Name, Arguments: r.Arguments, Entrance: "outbox", Timeout: time.Duration(r.TimeoutMS) * time.Millisecond,
		Wait: r.Wait, Approval: r.Approval, IdempotencyKey: r.IdempotencyKey, Provenance: r.Provenance,
	}
}

// readRequest reads and checks the request with an id. Its error says what a
// person has to mend.
func readRequest(path, id string) (*Request, error) {
	// Neither a link nor a pipe is followed or waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil, errors.New("it is no regular file")
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > maxRequest:
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", info.Size(), maxRequest)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRequest))
	if err != nil {
		return nil, err
	}
	req, err := parse(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("it is no request: %w", err)
	case req.Name == "":
		return nil, errors.New(`"name" is missing`)
	case req.ID != "" && req.ID != id:
		return nil, fmt.Errorf(`"id" is %.100q, the file's name says %q`, req.ID, id)
	case req.TimeoutMS < 0 || req.TimeoutMS > maxTimeout.Milliseconds():
		return nil, fmt.Errorf(`"timeout_ms" is %d; it is from 0 to %d`, req.TimeoutMS, maxTimeout.Milliseconds())
	}
	return req, nil
}

// parse reads a request strictly: a member that is unknown, or there twice, may
// be one whose meaning is missed.
func parse(data []byte) (*Request, error) {
	var req Request
	members := map[string]any{
		"id": &req.ID, "name": &req.Name, "arguments": &req.Arguments, "timeout_ms": &req.TimeoutMS, "wait": &req.Wait,
		"approval": &req.Approval, "idempotency_key": &req.IdempotencyKey, "provenance": &req.Provenance,
	}
	known := make([]string, 0, len(members))
	for k := range members {
		known = append(known, k)
	}
	slices.Sort(known)
	dec := json.NewDecoder(bytes.NewReader(data))
	line := func() int { return 1 + bytes.Count(data[:dec.InputOffset()], []byte("\n")) }
	broken := func(err error) error {
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			at := min(max(int(s.Offset), 0), len(data))
			return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:at], []byte("\n")), err)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("line %d: it ends in the middle", 1+bytes.Count(data, []byte("\n")))
		}
		return fmt.Errorf("line %d: %w", line(), err)
	}
	switch first, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, broken(err)
	case first != json.Delim('{'):
		return nil, fmt.Errorf("line %d: it is not one JSON object", line())
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, broken(err)
		}
		key, at := token.(string), line() // of an object that is well formed
		into, ok := members[key]
		if !ok {
			hint := "the members are " + strings.Join(known, ", ")
			if near := strict.Nearest(key, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, fmt.Errorf("line %d: unknown member \"%.60s\"; %s", at, redact.Show(key), hint)
		}
		if seen[key] {
			return nil, fmt.Errorf("line %d: a second %q", at, key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, broken(err)
		}
		if err := json.Unmarshal(value, into); err != nil {
			wanted := map[string]string{"timeout_ms": "a whole number", "wait": "true or false", "provenance": "a list of texts"}[key]
			if wanted == "" {
				wanted = "a text"
			}
			return nil, fmt.Errorf("line %d: %q is not %s", at, key, wanted)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, broken(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: something follows the JSON object", line())
	}
	return &req, nil
}
