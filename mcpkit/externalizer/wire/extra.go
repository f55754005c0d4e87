package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	openai "github.com/sashabaranov/go-openai"

	export "github.com/aurorabot-dev/platform/mcpkit/openai"
)

// Some endpoints give a call members that the API does not have, refuse the call's
// result unless the call comes back with them, and the client library drops them:
// Gemini's thought signatures are such. The transport reads them past the library
// and puts them back.

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
	whole bytes.Buffer     // an answer that is no stream
	calls export.Collector // of a stream: each call's members in the place of its arguments
}

// line takes a data line of a stream.
func (e *extra) line(data []byte) {
	if !bytes.Contains(data, []byte(`"tool_calls"`)) {
		return
	}
	var chunk struct {
		Choices []struct {
			Index int `json:"index"`
			Delta struct {
				Calls []rawCall `json:"tool_calls"`
			} `json:"delta"`
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
			pieces[i].Function.Arguments = string(raw.members())
		}
		e.calls.Add(pieces)
	}
}

// of is what came with each of n calls; nil where there was nothing.
func (e *extra) of(n int) []json.RawMessage {
	out := make([]json.RawMessage, n)
	if e.whole.Len() == 0 {
		for i, c := range e.calls.Calls() {
			// The first value is all there is, unless a call was given some twice.
			var first json.RawMessage
			if i < n && json.NewDecoder(bytes.NewReader([]byte(c.Function.Arguments))).Decode(&first) == nil && len(first) > len("{}") {
				out[i] = first
			}
		}
		return out
	}
	var res struct {
		Choices []struct {
			Message struct {
				Calls []rawCall `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(e.whole.Bytes(), &res) != nil || len(res.Choices) == 0 {
		return out
	}
	for i, c := range res.Choices[0].Message.Calls {
		if i < n {
			out[i] = c.members()
		}
	}
	return out
}

// members is the object of what is there, or nil.
func (m extraMembers) members() json.RawMessage {
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

// restore puts members back into the calls of a request, by the calls' ids.
func restore(req *http.Request, extras map[string]json.RawMessage) (*http.Request, error) {
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, err
	}
	var request map[string]json.RawMessage
	var messages []map[string]json.RawMessage
	if json.Unmarshal(body, &request) == nil && json.Unmarshal(request["messages"], &messages) == nil {
		for _, m := range messages {
			var calls []map[string]json.RawMessage
			if m["tool_calls"] == nil || json.Unmarshal(m["tool_calls"], &calls) != nil {
				continue
			}
			for _, c := range calls {
				var id string
				if json.Unmarshal(c["id"], &id) == nil && extras[id] != nil {
					_ = json.Unmarshal(extras[id], &c) // adds members to c; they were written by members
				}
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

// encode is v as JSON with its texts as they are.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // maps of valid JSON encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
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
