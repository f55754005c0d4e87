package jsoncheck

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Twice finds a member whose name occurs twice in one object, and returns its JSON
// pointer (RFC 6901). Which of the two counts is every reader's own choice (RFC 8259,
// section 4), so that who checks such a value and who uses it may see different ones.
// Names are compared as they are meant, escapes and all. Raw must be valid JSON.
func Twice(raw []byte) (pointer string, found bool) {
	w := walker{b: raw}
	found = w.value(0)
	return w.pointer.String(), found
}

// fewNames is up to how many names an object's are compared with one another.
const fewNames = 16

// walker walks JSON that is known to be valid. The pointer is made once something is
// found, on the way out.
type walker struct {
	b       []byte
	i       int
	pointer strings.Builder
	path    []string // from the value where something was found, inside out
}

// value reports whether something was found in the value at w.i. Else w.i is behind it.
func (w *walker) value(depth int) bool {
	w.space()
	var found bool
	switch w.b[w.i] {
	case '{':
		found = w.object(depth)
	case '[':
		found = w.array(depth)
	case '"':
		w.text()
	default:
		for w.i < len(w.b) && !ends[w.b[w.i]] {
			w.i++
		}
	}
	if found && depth == 0 {
		for i := range w.path {
			w.pointer.WriteString("/" + escapePointer.Replace(w.path[len(w.path)-1-i]))
		}
	}
	return found
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// ends are the bytes that a number or a word ends before.
var ends = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ']': true, '}': true}

func (w *walker) object(depth int) bool {
	w.i++
	var few [fewNames][]byte
	names, many := few[:0], map[string]bool(nil)
	for {
		if w.space(); w.b[w.i] == '}' {
			w.i++
			return false
		}
		if w.b[w.i] == ',' {
			w.i++
			continue
		}
		name := w.name()
		known := many[string(name)]
		for _, n := range names {
			known = known || bytes.Equal(n, name)
		}
		if known {
			w.path = append(w.path, string(name))
			return true
		}
		if len(names) < fewNames {
			names = append(names, name)
		} else {
			if many == nil {
				many = make(map[string]bool)
			}
			many[string(name)] = true
		}
		w.space()
		w.i++ // the colon
		if w.value(depth + 1) {
			w.path = append(w.path, string(name))
			return true
		}
	}
}

func (w *walker) array(depth int) bool {
	w.i++
	for n := 0; ; {
		switch w.space(); w.b[w.i] {
		case ']':
			w.i++
			return false
		case ',':
			w.i++
			n++
			continue
		}
		if w.value(depth + 1) {
			w.path = append(w.path, strconv.Itoa(n))
			return true
		}
	}
}

// name is the name at w.i as it is meant.
func (w *walker) name() []byte {
	raw := w.text()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	return []byte(s)
}

// text is the string at w.i as it is written.
func (w *walker) text() []byte {
	begin := w.i
	for w.i++; ; w.i++ {
		w.i += plain(w.b[w.i:])
		switch w.b[w.i] {
		case '"':
			w.i++
			return w.b[begin:w.i]
		case '\\':
			w.i++
		}
	}
}

func (w *walker) space() {
	for w.b[w.i] == ' ' || w.b[w.i] == '\n' || w.b[w.i] == '\t' || w.b[w.i] == '\r' {
		w.i++
	}
}

// Lone reports whether a string of raw holds half a character: an escaped surrogate
// without its other half. No text can say what that means (RFC 8259, section 8.2), and
// strict readers refuse it or die of it. Raw must be valid JSON.
func Lone(raw []byte) bool {
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i < len(raw); {
		size := 2
		if raw[i+1] == 'u' {
			size = 6
			switch half := surrogate(raw[i:]); {
			case half == 'l', half == 'h' && surrogate(raw[i+6:]) != 'l':
				return true
			case half == 'h':
				size = 12
			}
		}
		n := bytes.IndexByte(raw[i+size:], '\\')
		if n < 0 {
			return false
		}
		i += size + n
	}
	return false
}

// surrogate says which half of a character an escape at the beginning of b is: h for
// the high one, l for the low one, or 0.
func surrogate(b []byte) byte {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch c := b[3] | 0x20; {
	case c >= 'c' && c <= 'f':
		return 'l'
	case b[3] == '8', b[3] == '9', c == 'a', c == 'b':
		return 'h'
	}
	return 0
}
