package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/openai/streamed"
)

// Some endpoints give a call, or the message that it is in, members that the API does
// not have, refuse the call's result unless it comes back with them, and the client
// library drops them: Gemini's thought signatures are such, and OpenRouter's
// reasoning_details. The transport reads them past the library and puts them back.

// extraMembers are the members that are carried.
type extraMembers struct {
	Extra     json.RawMessage `json:"extra_content,omitempty"` // of Gemini, also at Vertex
	Signature json.RawMessage `json:"thought_signature,omitempty"`
}

// rawCall is a tool call, or a piece of one, as it came.
type rawCall struct {
	openai.ToolCall
	extraMembers
}

// extra collects the members of one answer's calls.
type extra struct {
	whole bytes.Buffer       // an answer that is no stream
	calls streamed.Collector // of a stream: each call's members in the place of its arguments
	done  bool               // the stream said that it is whole

	thoughts thoughts // of a stream
}

// thoughts are what came of the model's thoughts with a message.
type thoughts struct {
	details []json.RawMessage // reasoning_details, in order
	content bool              // reasoning_content came
	text    bool              // and had something in it: then it is the library's to carry
}

// rawMessage is what is read of a message, or of a piece of one.
type rawMessage struct {
	Calls   []rawCall         `json:"tool_calls"`
	Details []json.RawMessage `json:"reasoning_details"`
	Thought *string           `json:"reasoning_content"`
}

// line takes a data line of a stream.
func (e *extra) line(data []byte) {
	if string(data) == "[DONE]" {
		e.done = true
	}
	if !bytes.Contains(data, []byte(`"tool_calls"`)) && !bytes.Contains(data, []byte(`"reasoning_`)) {
		return
	}
	var chunk struct {
		Choices []struct {
			Index int        `json:"index"`
			Delta rawMessage `json:"delta"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &chunk); err != nil {
		return // the library says so
	}
	for _, c := range chunk.Choices {
		if c.Index != 0 {
			continue
		}
		// The same rules tell which pieces belong together as for the calls.
		pieces := make([]openai.ToolCall, len(c.Delta.Calls))
		for i, raw := range c.Delta.Calls {
			pieces[i] = raw.ToolCall
			pieces[i].Function.Arguments = string(raw.object())
		}
		e.calls.Add(pieces)
		e.thoughts.add(c.Delta)
	}
}

// add takes the thoughts of a message, or of a piece of one.
func (t *thoughts) add(m rawMessage) {
	t.details = append(t.details, m.Details...)
	if m.Thought != nil {
		t.content, t.text = true, t.text || *m.Thought != ""
	}
}

// object is the object of what goes back with the message, or nil.
func (t *thoughts) object() json.RawMessage {
	out := members{}
	if len(t.details) > 0 {
		out["reasoning_details"] = encode(t.details)
	}
	if t.content && !t.text {
		out["reasoning_content"] = encode("")
	}
	if len(out) == 0 {
		return nil
	}
	return encode(out)
}

// of is what came with each of n calls, and with the message that they are in; nil
// where there was nothing.
func (e *extra) of(n int) (calls []json.RawMessage, message json.RawMessage) {
	calls = make([]json.RawMessage, n)
	if e.whole.Len() == 0 {
		for i, c := range e.calls.Calls() {
			// The first value is all there is, unless a call was given some twice.
			var first json.RawMessage
			if i < n && json.NewDecoder(bytes.NewReader([]byte(c.Function.Arguments))).Decode(&first) == nil && len(first) > len("{}") {
				calls[i] = first
			}
		}
		return calls, e.thoughts.object()
	}
	var res struct {
		Choices []struct {
			Message rawMessage `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(e.whole.Bytes(), &res) != nil || len(res.Choices) == 0 {
		return calls, nil
	}
	m := res.Choices[0].Message
	for i, c := range m.Calls {
		if i < n {
			calls[i] = c.object()
		}
	}
	var t thoughts
	t.add(m)
	return calls, t.object()
}

// object is the object of what is there, or nil.
func (m extraMembers) object() json.RawMessage {
	for _, v := range []*json.RawMessage{&m.Extra, &m.Signature} {
		if string(*v) == "null" {
			*v = nil
		}
	}
	if m.Extra == nil && m.Signature == nil {
		return nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return raw
}

// OfMessage is the key, among extras, of the members of the message whose first call
// has the id.
func OfMessage(firstCall string) string { return "message of " + firstCall }

// restore puts members back into a request: into its calls by their ids, and into the
// messages that they are in. With content a message of calls that has no text gets an
// empty one.
func restore(req *http.Request, extras map[string]json.RawMessage, content bool) (*http.Request, error) {
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, err
	}
	var request members
	var messages []members
	if json.Unmarshal(body, &request) == nil && json.Unmarshal(request["messages"], &messages) == nil {
		for _, m := range messages {
			var calls []members
			if m["tool_calls"] == nil || json.Unmarshal(m["tool_calls"], &calls) != nil {
				continue
			}
			for i, c := range calls {
				var id string
				if json.Unmarshal(c["id"], &id) != nil {
					continue
				}
				maps.Copy(c, object(extras[id]))
				if i == 0 {
					maps.Copy(m, object(extras[OfMessage(id)]))
				}
			}
			if content && m["content"] == nil {
				m["content"] = encode("")
			}
			m["tool_calls"] = encode(calls)
		}
		request["messages"] = encode(messages)
		body = encode(request)
	}
	again := req.Clone(req.Context())
	again.ContentLength = int64(len(body))
	again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	again.Body, _ = again.GetBody()
	return again, nil
}

// object is the members of an object that was kept; none where there is none.
func object(raw json.RawMessage) members {
	var m members
	_ = json.Unmarshal(raw, &m)
	return m
}

// encode is v as JSON with its texts as they are.
func encode(v any) json.RawMessage {
	raw, _ := jsontext.Marshal(v) // maps of valid JSON encode
	return raw
}

// DropRepeated takes out calls that came twice, with what came with them: some
// endpoints send a call again at another index, or first without its arguments.
// What differs in more than that are calls of their own.
func DropRepeated(calls []openai.ToolCall, extras []json.RawMessage) (kept []openai.ToolCall, with []json.RawMessage) {
	for i, c := range calls {
		again := func(o openai.ToolCall) bool {
			return c.ID != "" && o.ID == c.ID && o.Function.Name == c.Function.Name
		}
		same := func(o openai.ToolCall) bool { return again(o) && o.Function.Arguments == c.Function.Arguments }
		whole := func(o openai.ToolCall) bool { return again(o) && !noArguments(o) }
		if slices.ContainsFunc(kept, same) || noArguments(c) && slices.ContainsFunc(calls, whole) {
			continue
		}
		kept, with = append(kept, c), append(with, extras[i])
	}
	return kept, with
}

func noArguments(c openai.ToolCall) bool {
	return c.Function.Arguments == "" || c.Function.Arguments == "{}"
}
