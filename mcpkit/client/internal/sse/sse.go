// Package sse reads server-sent events (WHATWG HTML, 9.2) as servers of the
// Model Context Protocol send them: lines end with LF or CRLF.
//
//	r := sse.NewReader(resp.Body, 16<<20)
//	for {
//		e, err := r.Next()
//		…
//	}
//
// An event beyond the limit is read to its end without being kept, so that the
// next one is whole. What the data means is for others.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

const (
	bufferSize = 16 << 10
	keepHead   = 64 << 10 // of an event that is too long
	maxField   = 4 << 10  // of any field but data; longer ones do not count
)

// Event is one event.
type Event struct {
	Name string // "" is "message"
	ID   string // "" where it has none
	Data []byte // the caller's own; nil where it has none
	// Retry is the wait before a reconnection that the server asks for, or
	// negative.
	Retry time.Duration
	// Skipped is the length of data beyond the limit; Data then is its start.
	Skipped int64
}

// Reader reads events from a stream.
type Reader struct {
	src   *bufio.Reader
	max   int
	begun bool
}

// NewReader reads events of at most max bytes of data from src.
func NewReader(src io.Reader, max int) *Reader {
	return &Reader{src: bufio.NewReaderSize(src, bufferSize), max: max}
}

// Next is the next event that holds anything. At the end of the stream the error
// is io.EOF; what an unfinished event held before it comes first, without its
// id, as nobody knows whether it is whole.
func (r *Reader) Next() (Event, error) {
	e := Event{Retry: -1}
	for fields := 0; ; fields++ {
		name, value, long, err := r.field(&e)
		switch {
		case errors.Is(err, io.EOF) && e.Data != nil:
			e.ID = ""
			return e, nil
		case err != nil:
			return Event{}, err
		case name == "" && long == 0 && value == nil: // a blank line
			if fields > 0 && (e.Data != nil || e.ID != "" || e.Retry >= 0) {
				return e, nil
			}
			e, fields = Event{Retry: -1}, -1
		case name == "event":
			e.Name = string(value)
		case name == "id" && bytes.IndexByte(value, 0) < 0:
			e.ID = string(value)
		case name == "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.Retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// field reads one line. Data goes into e; the value of another field is returned
// where it is short enough, and long is the length of one that is not. A blank
// line has neither name nor value.
func (r *Reader) field(e *Event) (name string, value []byte, long int, err error) {
	chunk, err := r.src.ReadSlice('\n')
	if len(chunk) == 0 && err != nil {
		return "", nil, 0, err
	}
	if !r.begun {
		r.begun = true
		chunk = bytes.TrimPrefix(chunk, []byte("\uFEFF"))
	}
	more := errors.Is(err, bufio.ErrBufferFull)
	if err != nil && !more && !errors.Is(err, io.EOF) {
		return "", nil, 0, err
	}
	if !more {
		chunk = trimEnd(chunk)
	}
	if len(chunk) == 0 && !more {
		return "", nil, 0, nil
	}
	key, rest, _ := bytes.Cut(chunk, []byte(":"))
	rest = bytes.TrimPrefix(rest, []byte(" "))
	data := string(key) == "data"
	name = string(key[:min(len(key), 16)])
	if data {
		if e.Data == nil {
			e.Data = []byte{}
		} else {
			r.add(e, []byte("\n"))
		}
		r.add(e, rest)
	} else {
		value = append([]byte{}, rest[:min(len(rest), maxField)]...)
		long = len(rest)
	}
	for more {
		if chunk, err = r.src.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return "", nil, 0, err
		}
		if more = errors.Is(err, bufio.ErrBufferFull); !more {
			chunk = trimEnd(chunk)
		}
		if long += len(chunk); data {
			r.add(e, chunk)
		}
	}
	if !data && long > maxField {
		return "", nil, long, nil
	}
	return name, value, 0, nil
}

// add appends to the data of e, or counts it.
func (r *Reader) add(e *Event, b []byte) {
	switch {
	case e.Skipped > 0:
		e.Skipped += int64(len(b))
	case len(e.Data)+len(b) > r.max:
		e.Skipped = int64(len(e.Data) + len(b))
		e.Data = append(e.Data[:len(e.Data):len(e.Data)], b...)
		e.Data = bytes.Clone(e.Data[:min(len(e.Data), keepHead)])
	default:
		e.Data = append(e.Data, b...)
	}
}

func trimEnd(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
}
