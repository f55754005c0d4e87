// Package render says the result of a tool, or the failure of its call, in words
// for a model, and takes the images out of it.
//
//	said := render.Result(raw, false)
//	said.Text   // blocks of text, one after the other, at most MaxText characters
//	said.Images // for a message of their own
//
// Nothing of a result is taken for granted, and its members are read by their
// exact names. [Rendered.Marked] says where the words come from. Which message carries
// them is decided elsewhere.
package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

const (
	// MaxText is the number of characters of a result that are kept, its head and
	// its tail: the APIs take 1048576, contexts take far less.
	MaxText   = 100_000
	maxImage  = 20 << 20 // bytes of one image
	maxImages = 16       // of one result
)

// Rendered is what a model is told of a call.
type Rendered struct {
	Text   string // never empty
	Failed bool   // the tool says so, or its result cannot be read
	Images []openai.ChatMessagePart
}

// Result renders the exact result of tools/call. blind says that the model sees no
// images: they are named in the text instead.
func Result(raw json.RawMessage, blind bool) Rendered {
	r := rendering{blind: blind}
	r.result(raw)
	return r.done()
}

// Fault renders a call that brought no result.
func Fault(e *fault.Error) Rendered {
	var r rendering
	r.fault(e)
	return r.done()
}

func (r *rendering) done() Rendered {
	text := shorten(strings.Join(r.blocks, "\n"), MaxText)
	if strings.TrimSpace(text) == "" {
		text = "(no content)"
	}
	return Rendered{text, r.failed, r.images}
}

// Plain is s as valid text without hidden characters.
func Plain(s string) string { return base.Visible(strings.ToValidUTF8(s, "\uFFFD")) }

// rendering collects what a message says.
type rendering struct {
	blind  bool
	failed bool
	blocks []string
	images []openai.ChatMessagePart
}

func (r *rendering) say(format string, args ...any) {
	r.blocks = append(r.blocks, Plain(fmt.Sprintf(format, args...)))
}

func (r *rendering) fault(e *fault.Error) {
	r.failed = true
	b, err := json.Marshal(e)
	if err != nil { // Data is not JSON
		b, _ = json.Marshal(&fault.Error{Code: e.Code, Message: e.Message, Retryable: e.Retryable, Outcome: e.Outcome})
	}
	r.blocks = append(r.blocks, Plain(string(b)))
}

// toolResult is a CallToolResult, read with nothing taken for granted, and its
// members under their exact names, as the gate has looked through them.
type toolResult struct {
	ResultType        string
	IsError           bool
	Content           []json.RawMessage
	StructuredContent json.RawMessage
}

func (t *toolResult) UnmarshalJSON(raw []byte) error {
	return jsontext.Fields(raw, map[string]any{
		"resultType": &t.ResultType, "isError": &t.IsError, "content": &t.Content, "structuredContent": &t.StructuredContent,
	})
}

type block struct {
	Type, Text, Data, MIMEType    string
	URI, Name, Title, Description string
	Resource                      *resource
	Annotations                   annotations
}

func (b *block) UnmarshalJSON(raw []byte) error {
	return jsontext.Fields(raw, map[string]any{
		"type": &b.Type, "text": &b.Text, "data": &b.Data, "mimeType": &b.MIMEType,
		"uri": &b.URI, "name": &b.Name, "title": &b.Title, "description": &b.Description,
		"resource": &b.Resource, "annotations": &b.Annotations,
	})
}

type resource struct{ URI, MIMEType, Text, Blob string }

func (r *resource) UnmarshalJSON(raw []byte) error {
	return jsontext.Fields(raw, map[string]any{"uri": &r.URI, "mimeType": &r.MIMEType, "text": &r.Text, "blob": &r.Blob})
}

type annotations struct{ Audience []string }

func (a *annotations) UnmarshalJSON(raw []byte) error {
	return jsontext.Fields(raw, map[string]any{"audience": &a.Audience})
}

func (r *rendering) result(raw json.RawMessage) {
	var res toolResult
	if err := json.Unmarshal(raw, &res); err != nil {
		r.failed = true
		r.say("The server's answer is no tool result: %v.", err)
		return
	}
	r.failed = res.IsError
	switch res.ResultType {
	case "", "complete":
	case "input_required": // 2026-07-28, server/tools, input required tool results
		r.failed = true
		r.say("The tool asks for further input, and nobody here can give it. It did nothing more.")
		return
	default:
		r.failed = true
		r.say("The server answered with a result of the unknown type %q.", res.ResultType)
	}
	var texts []string
	kept := 0
	for _, c := range res.Content {
		var b block
		if err := json.Unmarshal(c, &b); err != nil {
			r.failed = true
			r.say("(a part of the result cannot be read: %v)", err)
			continue
		}
		if l := b.Annotations.Audience; len(l) > 0 && !slices.Contains(l, "assistant") {
			kept++
			continue
		}
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
		r.block(b)
	}
	r.structured(res.StructuredContent, texts)
	switch {
	case len(r.blocks) > 0:
	case r.failed:
		r.say("The tool failed and did not say why.")
	case kept > 0:
		r.say("(the result is for the person, not for the model)")
	default:
		r.say("(the tool returned no content)")
	}
}

func (r *rendering) block(b block) {
	switch b.Type {
	case "text":
		r.blocks = append(r.blocks, Plain(b.Text))
	case "image":
		r.image(b.MIMEType, b.Data)
	case "audio":
		r.say("(audio, %s, %d bytes, cannot be shown)", b.MIMEType, decodedLen(b.Data))
	case "resource_link":
		name := b.Name
		if b.Title != "" && b.Title != name {
			name += ", " + b.Title
		}
		r.say("(link to a resource: %s; %s)", strings.Join(filled(name, b.MIMEType, b.Description), "; "), b.URI)
	case "resource":
		switch res := b.Resource; {
		case res == nil:
			r.failed = true
			r.say("(an embedded resource without content)")
		case res.Blob != "" && strings.HasPrefix(res.MIMEType, "image/"):
			r.say("(embedded resource %s)", res.URI)
			r.image(res.MIMEType, res.Blob)
		case res.Blob != "":
			r.say("(embedded resource %s; %s, %d bytes, cannot be shown)", res.URI, res.MIMEType, decodedLen(res.Blob))
		default:
			r.say("(embedded resource %s)", strings.Join(filled(res.URI, res.MIMEType), "; "))
			r.blocks = append(r.blocks, Plain(res.Text))
		}
	default:
		r.failed = true
		r.say("(a part of the result has the unknown type %q and is not shown)", b.Type)
	}
}

func filled(l ...string) []string {
	return slices.DeleteFunc(l, func(s string) bool { return s == "" })
}

func decodedLen(b64 string) int {
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(b64, "=")))
}

var shownImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// image takes an image out of the text: the role tool carries text only.
func (r *rendering) image(mime, data string) {
	size := decodedLen(data)
	_, err := base64.StdEncoding.DecodeString(data)
	switch {
	case err != nil:
		r.say("(image, %s, whose data is not base64)", mime)
	case r.blind, !slices.Contains(shownImages, mime), size > maxImage, len(r.images) >= maxImages:
		r.say("(image, %s, %d bytes, cannot be shown)", mime, size)
	default:
		r.say("(image, %s, %d bytes, in the message after the tool results)", mime, size)
		r.images = append(r.images, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL,
			ImageURL: &openai.ChatMessageImageURL{URL: "data:" + mime + ";base64," + data}})
	}
}

// structured adds the structured content unless a text says the same already.
func (r *rendering) structured(raw json.RawMessage, texts []string) {
	if len(raw) == 0 || string(raw) == "null" && len(r.blocks) > 0 {
		return
	}
	if toolcall.Told(raw, texts) {
		return
	}
	text := string(raw) // too deep: the bytes are still JSON
	if v, err := jsonvalue.Parse(raw, jsonvalue.Limits{}); err == nil {
		text = string(jsonvalue.Append(nil, v))
	}
	r.blocks = append(r.blocks, Plain(text))
}

// shorten keeps the head and the tail of a text of more than most characters.
func shorten(s string, most int) string {
	n := utf8.RuneCountInString(s)
	if n <= most {
		return s
	}
	head, tail := most*3/4, most/4
	var from, to, i int
	for at := range s {
		if i == head {
			from = at
		}
		if i == n-tail {
			to = at
			break
		}
		i++
	}
	return fmt.Sprintf("%s\n(… %d characters omitted …)\n%s", s[:from], n-head-tail, s[to:])
}
