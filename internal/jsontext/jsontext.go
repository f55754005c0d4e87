// Package jsontext reads and writes JSON text (RFC 8259) exactly: what is taken out
// of a text is byte for byte what was sent, numbers keep their digits, objects keep
// the order and the spelling of their members, and members that nobody knows stay.
//
//	raw := []byte(`{"id":7,"result":{"n":1.0}}`)
//	n := jsontext.Get(raw, "result", "n") // 1.0
//	raw = jsontext.AppendQuote(nil, "a <b>") // "a <b>"
//
// Three kinds of functions share one scanner:
//
//   - [Valid], [Check], [Depth], [Duplicate] and [LoneSurrogate] say what a text is.
//   - [Members], [Elements], [Get] and [Strings] give parts of a text as raw values,
//     without decoding them.
//   - [AppendQuote] and [AppendUnquote] write and read strings, and [AppendCompact]
//     and [AppendCanonical] write a text in another form.
//
// Bytes that are no UTF-8, and escapes of surrogates without their other half, are
// taken as encoding/json takes them: they are valid and mean U+FFFD. Of several
// members with one name the last one counts. Who must not accept such texts asks
// [Duplicate] and [LoneSurrogate].
//
// Package jsonvalue makes values of a text, and encoding/json remains what fills Go
// structs.
package jsontext

import "github.com/aurorabot-dev/platform/internal/jsontext/internal/scan"

// MaxDepth is how many arrays and objects may stand inside one another. It is the
// limit of encoding/json, so that what is valid here can be decoded there.
const MaxDepth = scan.MaxDepth

// ErrDepth is the error of a text that is nested deeper than it may be.
var ErrDepth = scan.ErrDepth

// Valid reports whether b is one JSON value, as json.Valid does.
func Valid(b []byte) bool {
	s := scan.Scanner{Text: b}
	return s.Value(0) && s.End()
}

// Check says why b is not one JSON value, with the offset of the byte that was not
// expected, or nil. The error of a text that ends too soon is io.ErrUnexpectedEOF.
func Check(b []byte) error {
	s := scan.Scanner{Text: b}
	if s.Value(0) && s.End() {
		return nil
	}
	return s.Fault()
}

// IsObject reports whether b is one valid JSON object.
func IsObject(b []byte) bool {
	s := scan.Scanner{Text: b}
	return s.Peek() == '{' && s.Value(0) && s.End()
}

// Depth is how many arrays and objects stand inside one another in b, up to where b
// ends or is no JSON.
func Depth(b []byte) int {
	s := scan.Scanner{Text: b}
	s.Value(0)
	return s.Deepest
}
