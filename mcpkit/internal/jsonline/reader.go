package jsonline

import (
	"bytes"
	"errors"
	"io"
)

const (
	smallBuffer = 4 << 10  // of a quiet stream
	busyBuffer  = 32 << 10 // of one whose reads fill the buffer
	keepBuffer  = 64 << 10 // a larger one is given away with the line it was for
)

// Line is one line of a stream, or what is known of one that was too long.
type Line struct {
	// Data is the line without its end. Unless Owned it is overwritten by the
	// next read.
	Data  []byte
	Owned bool

	// Skipped is the length in bytes of a line beyond the limit, which was not
	// kept; ID and Method are what its top level says, as raw JSON, or nil.
	Skipped    int64
	ID, Method []byte

	// Failed, where it is set, says that the request ID gets no answer, and why.
	// There is no Data then. A Reader knows of no such thing; other ways for
	// messages do.
	Failed error

	// For, where it is set, is the id of the request in whose answer the line came.
	// A Reader knows of no such thing either.
	For []byte
}

// Reader splits a stream at 0x0A alone: U+2028 and its like are text. A carriage
// return before the end of a line is dropped. What follows the last line end is
// a line too.
type Reader struct {
	src    io.Reader
	max    int
	onRead func()
	buf    []byte
	r, w   int // unread bytes are buf[r:w]
	seen   int // of them, how many are known to hold no line end
	err    error
}

// NewReader reads lines of at most max bytes from src. It calls onRead, if set,
// whenever bytes arrived.
func NewReader(src io.Reader, max int, onRead func()) *Reader {
	return &Reader{src: src, max: max, onRead: onRead}
}

// Next is the next line. A line longer than the limit is read to its end
// without being kept. At the end of the stream the error is io.EOF.
func (r *Reader) Next() (Line, error) {
	for {
		if n := bytes.IndexByte(r.buf[r.r+r.seen:r.w], '\n'); n >= 0 {
			return r.take(r.seen+n, 1), nil
		}
		r.seen = r.w - r.r
		if r.seen > r.max+1 { // one more for a carriage return
			return r.skip()
		}
		if r.err != nil {
			if r.seen > 0 {
				return r.take(r.seen, 0), nil
			}
			r.buf = nil
			return Line{}, r.err
		}
		r.fill()
	}
}

// take returns the next n bytes as a line that ends with end more bytes.
func (r *Reader) take(n, end int) Line {
	l := Line{Data: bytes.TrimSuffix(r.buf[r.r:r.r+n:r.r+n], []byte{'\r'})}
	if len(l.Data) > r.max {
		var h head
		h.feed(l.Data)
		l = Line{Skipped: int64(len(l.Data)), ID: h.id, Method: h.method}
	}
	r.r, r.seen = r.r+n+end, 0
	if len(r.buf) > keepBuffer {
		rest := r.buf[r.r:r.w]
		r.buf = make([]byte, max(smallBuffer, len(rest)))
		r.r, r.w = 0, copy(r.buf, rest)
		l.Owned = true
	}
	return l
}

// fill reads once, into a buffer with room.
func (r *Reader) fill() {
	switch {
	case r.buf == nil:
		r.buf = make([]byte, smallBuffer)
	case r.r == r.w:
		if r.w == len(r.buf) && len(r.buf) < busyBuffer {
			r.buf = make([]byte, busyBuffer)
		}
		r.r, r.w = 0, 0
	case r.w == len(r.buf) && r.r > 0:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	case r.w == len(r.buf):
		bigger := make([]byte, min(2*len(r.buf), max(r.max+2, len(r.buf)+1)))
		r.w = copy(bigger, r.buf)
		r.buf = bigger
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.w += n
	if n > 0 && r.onRead != nil {
		r.onRead()
	}
	if err != nil {
		r.err = err
	}
}

// skip reads to the end of a line that is too long.
func (r *Reader) skip() (Line, error) {
	var h head
	l := Line{}
	rest := r.buf[r.r:r.w]
	r.buf, r.r, r.w, r.seen = make([]byte, busyBuffer), 0, 0, 0
	for {
		n := bytes.IndexByte(rest, '\n')
		part := rest
		if n >= 0 {
			part = rest[:n]
		}
		h.feed(part)
		l.Skipped += int64(len(part))
		if n >= 0 || r.err != nil {
			l.ID, l.Method = h.id, h.method
			if n >= 0 {
				r.r += n + 1
			}
			if r.err != nil && !errors.Is(r.err, io.EOF) && n < 0 {
				return Line{}, r.err
			}
			return l, nil
		}
		r.r, r.w = 0, 0
		r.fill()
		rest = r.buf[:r.w]
	}
}

// head finds id and method at the top level of an object that goes by in
// pieces. It checks nothing.
type head struct {
	id, method []byte

	depth        int
	quoted, back bool
	naming       bool   // at the top level, a name is expected
	token        []byte // the name or scalar being read there
	name         []byte
}

const maxToken = 256

func (h *head) feed(b []byte) {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if h.quoted {
			switch {
			case h.back:
				h.back = false
			case c == '\\':
				h.back = true
			case c == '"':
				h.quoted = false
			case h.depth > 1: // the bulk of a long line is text inside the result
				n := bytes.IndexAny(b[i:], `"\`)
				if n < 0 {
					return
				}
				i += n - 1
				continue
			}
			h.keep(c)
			continue
		}
		switch c {
		case '"':
			h.quoted = true
			h.keep(c)
		case '{', '[':
			h.depth++
			h.naming = h.depth == 1 && c == '{'
		case '}', ']':
			if h.depth == 1 {
				h.end()
			}
			h.depth--
		case ':':
			if h.depth == 1 && h.naming {
				h.name, h.token, h.naming = h.token, nil, false
			}
		case ',':
			if h.depth == 1 {
				h.end()
				h.naming = true
			}
		case ' ', '\t', '\r', '\n':
		default:
			h.keep(c)
		}
	}
}

func (h *head) keep(c byte) {
	if h.depth == 1 && len(h.token) < maxToken {
		h.token = append(h.token, c)
	}
}

// end takes the value of a member that ended.
func (h *head) end() {
	if len(h.token) > 0 && len(h.token) < maxToken {
		switch string(h.name) {
		case `"id"`:
			h.id = h.token
		case `"method"`:
			h.method = h.token
		}
	}
	h.name, h.token = nil, nil
}

// Head is the id and the method at the top level of line as far as it can be
// read, whether or not line is valid JSON; nil where there is none.
func Head(line []byte) (id, method []byte) {
	var h head
	h.feed(line)
	return h.id, h.method
}
