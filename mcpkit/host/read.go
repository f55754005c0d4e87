package host

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review/injection"
)

// answer is what the gate reads of a result: raw JSON that shares its storage.
type answer struct {
	size       int  // of all of it, bytes
	object     bool // as every result is
	isError    bool
	needsInput bool
	content    []byte
	structured []byte
}

// read finds the parts of a result. Of what is no valid JSON object it finds
// anything or nothing.
func read(raw []byte) (a answer) {
	a.size, a.object = len(raw), firstByte(raw) == '{'
	jsontext.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "isError":
			a.isError = string(value) == "true"
		case "resultType":
			a.needsInput = means(value, "input_required")
		case "content":
			a.content = value
		case "structuredContent":
			a.structured = value
		}
		return true
	})
	if string(a.structured) == "null" {
		a.structured = nil
	}
	return a
}

// same reports whether a and b are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// maxRead is how many bytes of a result's text are looked at.
const maxRead = 64 << 10

// preview is the beginning of a result's text for events (text parts joined,
// other parts named, else the structured content) without hidden characters, and
// what is dangerous in that text. It may share the result's storage, where that is
// little more than the preview: whoever keeps one keeps the other.
func (a answer) preview(limit int) (text string, flags []string) {
	text, beside := a.text()
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text, flags = injection.Read(text)
	for _, more := range [...]string{strings.ToValidUTF8(string(beside), "\uFFFD"), a.unread(text)} {
		for _, f := range injection.Flags(more) {
			if !slices.Contains(flags, f) {
				flags = append(flags, f)
			}
		}
	}
	switch {
	case len(text) > limit:
		text = text[:cut(text, limit)] + "…"
	case a.size > 2*len(text)+512:
		text = strings.Clone(text)
	}
	return text, flags
}

// unread is the text of the structured content, as far as it is looked at, unless
// all of it was read already.
func (a answer) unread(text string) string {
	if string(a.structured) == text && strings.IndexByte(text, '\\') < 0 {
		return ""
	}
	var b []byte
	jsontext.Strings(a.structured, func(literal []byte) bool {
		b = append(appendText(b, literal), '\n')
		return len(b) < maxRead
	})
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// cut is the length of the beginning of s that has at most n bytes and ends
// between characters.
func cut(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// failure reads the one shape of a failure out of a result whose tool reported
// one; tools that use another shape leave only their text.
func (a answer) failure() (code, message string, retryable bool) {
	var f fault.Error
	if err := json.Unmarshal(a.structured, &f); err != nil || f.Code == "" {
		text, _ := a.preview(300)
		return "tool_error", text, false
	}
	return f.Code, f.Message, f.Retryable
}

// text is the text of a preview, up to some bytes beyond maxRead. One part that
// has no escapes, as most results are, stays where it is. Beside it are the words of
// parts that are no text, which a model is shown and a preview lacks.
func (a answer) text() (_ string, beside []byte) {
	var text, alone []byte
	jsontext.Elements(a.content, func(part []byte) bool {
		if len(text)+len(alone) > maxRead {
			return false
		}
		text, alone = append(text, alone...), nil
		if len(text) > 0 {
			text = append(text, '\n')
		}
		var typ, content, mime, uri, embedded []byte
		var words [3][]byte
		take := func(name, value []byte) bool {
			switch string(name) {
			case "type":
				typ = value
			case "text":
				content = value
			case "mimeType":
				mime = value
			case "uri":
				uri = value
			case "name":
				words[0] = value
			case "title":
				words[1] = value
			case "description":
				words[2] = value
			case "resource":
				embedded = value
			}
			return true
		}
		jsontext.Members(part, take)
		resource, isText := means(typ, "resource"), means(typ, "text")
		if resource { // its text and address are its own
			jsontext.Members(embedded, take)
		}
		switch {
		case resource:
			text = appendNamed(text, []byte(`"resource"`), uri)
			if len(content) > len(`""`) {
				text = appendText(append(text, '\n'), content)
			}
		case isText && len(text) == 0 && isPlain(content):
			alone = content[1:min(len(content)-1, 1+maxRead)]
		case isText:
			text = appendText(text, content)
		case len(uri) > len(`""`):
			text = appendNamed(text, typ, uri)
		default:
			text = appendNamed(text, typ, mime)
		}
		if isText {
			return true
		}
		for _, w := range append(words[:], mime) {
			if len(w) > len(`""`) && len(beside) <= maxRead {
				beside = append(appendText(beside, w), '\n')
			}
		}
		return true
	})
	switch {
	case len(alone) > 0:
		text = alone
	case len(text) == 0:
		text = a.structured[:min(len(a.structured), maxRead)]
	}
	return unsafe.String(unsafe.SliceData(text), len(text)), beside // nobody writes to it
}

// isPlain reports whether a JSON string means what stands in it.
func isPlain(raw []byte) bool {
	return len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0
}

// means reports whether a JSON string means a word.
func means(raw []byte, word string) bool {
	if isPlain(raw) {
		return string(raw[1:len(raw)-1]) == word
	}
	return string(jsontext.AppendUnquote(nil, raw, maxSummary)) == word
}

// appendNamed names a part that is no text.
func appendNamed(b, typ, what []byte) []byte {
	b = append(appendText(append(b, '['), typ), ' ')
	return append(appendText(b, what), ']')
}

// appendText appends what a JSON string means, as far as it is looked at. What is
// no string is empty.
func appendText(b, raw []byte) []byte { return jsontext.AppendUnquote(b, raw, maxRead) }
