package review

import (
	"sync"
	"unsafe"

	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// maxResultText bounds how much of a result is looked through, in bytes.
const maxResultText = 64 << 10

// buffers are for texts in plain form, of up to maxResultText bytes.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Flags are the codes of what is dangerous in a text that came from a server,
// such as a result: orders to a model, hidden characters. They are for the
// record; a text is data whatever it says.
func Flags(text string) []string {
	var flags []string
	text = text[:min(len(text), maxResultText)]
	if seen, n := redact.Strip(text); n > 0 {
		flags = append(flags, "hidden_characters")
		text = seen
	}
	if len(text) < 4 {
		return flags
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var flat string
	if b, ok := plainASCII(*buf, text); ok {
		*buf, flat = b, unsafe.String(unsafe.SliceData(b), len(b)) // until it is put back
	} else {
		*buf, flat = b, plain(text)
	}
	seen := spots.spotted(flat)
	for i := range textRules {
		if r := &textRules[i]; r.severity == Danger && r.find(flat, seen) != nil {
			flags = append(flags, r.code)
		}
	}
	return flags
}
