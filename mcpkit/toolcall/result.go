// Package toolcall has the one noun for the result of a tool call: [Result], a
// CallToolResult as its server sent it, with readers for what the platform needs
// of it (specification 2025-11-25, server/tools, "Tool Result"). Whoever decides
// about a result and whoever shows it read the same members: they are read by
// their exact names, of several with one name the last counts, and members that
// nobody here knows stay in Raw.
//
//	r := toolcall.Read([]byte(`{"content":[{"type":"text","text":"sunny"}]}`))
//	text, _ := r.Text() // "sunny"
//
// The package changes no result, knows no schemas and looks for no dangers.
package toolcall

import (
	"bytes"
	"encoding/json"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// MaxText is how many bytes of a result's text are read for a preview and
// searched for dangers. A reader may go beyond it by one text of that size.
const MaxText = 64 << 10

// Types of results (2026-07-28, basic: "resultType").
const (
	Complete      = "complete"
	InputRequired = "input_required"
)

// Result is the result of a tool call. Its members share Raw's storage.
type Result struct {
	Raw json.RawMessage // the CallToolResult, byte for byte

	isError    bool
	typ        string
	content    []byte
	structured []byte
}

// Read finds the parts of a result. Of what is no valid JSON object it finds
// anything or nothing.
func Read(raw json.RawMessage) Result {
	r := Result{Raw: raw}
	jsontext.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "isError":
			r.isError = string(value) == "true"
		case "resultType":
			r.typ = jsontext.String(value)
		case "content":
			r.content = value
		case "structuredContent":
			r.structured = value
		}
		return true
	})
	if string(r.structured) == "null" {
		r.structured = nil
	}
	return r
}

// IsObject reports whether the result is an object, as every result has to be. Raw
// is valid JSON.
func (r Result) IsObject() bool {
	return bytes.HasPrefix(bytes.TrimLeft(r.Raw, " \t\r\n"), []byte("{"))
}

// IsError reports whether the tool itself says that it failed.
func (r Result) IsError() bool { return r.isError }

// Type is [Complete], [InputRequired] or another word of the server. It is empty
// where the server says nothing, as all before 2026-07-28 do, and means Complete.
func (r Result) Type() string { return r.typ }

// NeedsInput reports whether the call is not over: the server wants answers to the
// inputRequests in the result (2026-07-28, multi round-trip requests).
func (r Result) NeedsInput() bool { return r.typ == InputRequired }

// Content is the raw value of the member content, nil where there is none.
func (r Result) Content() json.RawMessage { return r.content }

// Structured is the raw structured content, nil where there is none or it is null.
func (r Result) Structured() json.RawMessage { return r.structured }

// Failure is the failure in the structured content of a tool that reports one in
// the shape of package fault; nil where it has another shape.
func (r Result) Failure() *fault.Error {
	var f fault.Error
	if err := json.Unmarshal(r.structured, &f); err != nil || f.Code == "" {
		return nil
	}
	return &f
}

// StructuredText is every string in the structured content, names of members
// included, each with a line end.
func (r Result) StructuredText() string {
	var b []byte
	jsontext.Strings(r.structured, func(literal []byte) bool {
		b = append(appendText(b, literal), '\n')
		return len(b) < MaxText
	})
	return string(b)
}

// Text is the result in words: its text parts joined by line ends, every other part
// named in brackets, and without any part the structured content. Beside it are the
// names and descriptions of the parts that are no text, which a model is shown and
// which the text lacks.
func (r Result) Text() (text, beside string) {
	var words, more []byte
	jsontext.Elements(r.content, func(raw []byte) bool {
		if len(words) > MaxText {
			return false
		}
		if len(words) > 0 {
			words = append(words, '\n')
		}
		p := readPart(raw)
		words = p.appendText(words)
		if p.kind == "text" {
			return true
		}
		for _, w := range [...][]byte{p.name, p.title, p.description, p.mime} {
			if len(w) > len(`""`) && len(more) <= MaxText {
				more = append(appendText(more, w), '\n')
			}
		}
		return true
	})
	if len(words) == 0 {
		words = r.structured[:min(len(r.structured), MaxText)]
	}
	return string(words), string(more)
}

// part is one element of content. Its members are raw, but for its type.
type part struct {
	kind                                string // its type, as far as it is told apart here
	typ, text, mime, uri                []byte
	name, title, description, contained []byte
}

// readPart reads a part. The text and the address of an embedded resource are those
// of the resource.
func readPart(raw []byte) part {
	var p part
	take := func(name, value []byte) bool {
		switch string(name) {
		case "type":
			p.typ = value
		case "text":
			p.text = value
		case "mimeType":
			p.mime = value
		case "uri":
			p.uri = value
		case "name":
			p.name = value
		case "title":
			p.title = value
		case "description":
			p.description = value
		case "resource":
			p.contained = value
		}
		return true
	}
	jsontext.Members(raw, take)
	if p.kind = jsontext.String(p.typ); p.kind == "resource" {
		jsontext.Members(p.contained, take)
	}
	return p
}

// appendText appends the part in words.
func (p part) appendText(b []byte) []byte {
	switch {
	case p.kind == "text":
		return appendText(b, p.text)
	case p.kind == "resource":
		b = appendNamed(b, []byte(`"resource"`), p.uri)
		if len(p.text) > len(`""`) {
			b = appendText(append(b, '\n'), p.text)
		}
		return b
	case len(p.uri) > len(`""`):
		return appendNamed(b, p.typ, p.uri)
	}
	return appendNamed(b, p.typ, p.mime)
}

// appendNamed names a part that is no text.
func appendNamed(b, typ, what []byte) []byte {
	b = append(appendText(append(b, '['), typ), ' ')
	return append(appendText(b, what), ']')
}

// appendText appends what a JSON string means, MaxText bytes of it at most. What is
// no string is empty.
func appendText(b, raw []byte) []byte { return jsontext.AppendUnquote(b, raw, MaxText) }
