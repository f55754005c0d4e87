package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Rules are the published rules of a chat completions request, and what some
// providers demand beyond them. The zero value has the published ones.
type Rules struct {
	ID    *regexp.Regexp            // of tool calls; nil takes any that is not empty
	Extra map[string]map[string]any // members that calls have to have, by their ids
}

// MistralIDs are the ids of tool calls that Mistral takes.
var MistralIDs = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

const (
	maxTools = 128
	maxText  = 1 << 20 // characters of one text
)

var (
	functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

	requestKeys = set("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options",
		"max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop", "seed", "user", "response_format",
		"presence_penalty", "frequency_penalty", "reasoning_effort", "metadata", "store", "service_tier", "verbosity")
	messageKeys = map[string]map[string]bool{
		"system":    set("role", "content", "name"),
		"developer": set("role", "content", "name"),
		"user":      set("role", "content", "name"),
		"assistant": set("role", "content", "name", "refusal", "tool_calls", "reasoning_content"),
		"tool":      set("role", "content", "tool_call_id"),
	}
)

func set(keys ...string) map[string]bool {
	m := map[string]bool{}
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// Check is what a request's body breaks, one sentence each.
func (r Rules) Check(raw []byte) []string {
	c := &check{rules: r}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var req map[string]any
	if err := dec.Decode(&req); err != nil {
		return []string{"the body is no JSON object: " + err.Error()}
	}
	if _, err := dec.Token(); err != io.EOF {
		c.says("something follows the body's object")
	}
	c.request(req)
	return c.found
}

type check struct {
	rules Rules
	found []string
}

func (c *check) says(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *check) keys(what string, o map[string]any, allowed map[string]bool) {
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if !allowed[k] {
			c.says("%s has the unknown member %q", what, k)
		} else if o[k] == nil {
			c.says("%s has a null %q", what, k)
		}
	}
}

func (c *check) request(req map[string]any) {
	c.keys("the request", req, requestKeys)
	if s, _ := req["model"].(string); s == "" {
		c.says("there is no model")
	}
	stream, _ := req["stream"].(bool)
	if _, has := req["stream_options"]; has && !stream {
		c.says("stream_options without stream")
	}
	limits := 0
	for _, k := range []string{"max_tokens", "max_completion_tokens"} {
		if v, has := req[k]; has {
			limits++
			if n, ok := v.(json.Number); !ok || strings.ContainsAny(string(n), "-.eE") || n == "0" {
				c.says("%s is %v", k, v)
			}
		}
	}
	if limits > 1 {
		c.says("both max_tokens and max_completion_tokens")
	}
	tools, has := req["tools"]
	if has {
		c.tools(tools)
	}
	for _, k := range []string{"tool_choice", "parallel_tool_calls"} {
		if _, given := req[k]; given && !has {
			c.says("%s without tools", k)
		}
	}
	messages, _ := req["messages"].([]any)
	if len(messages) == 0 {
		c.says("there are no messages")
	}
	c.messages(messages)
}

func (c *check) tools(v any) {
	list, _ := v.([]any)
	if len(list) == 0 || len(list) > maxTools {
		c.says("there are %d tools", len(list))
	}
	names := map[string]bool{}
	for i, v := range list {
		tool, _ := v.(map[string]any)
		what := fmt.Sprintf("tool %d", i)
		c.keys(what, tool, set("type", "function"))
		if tool["type"] != "function" {
			c.says("%s is of type %v", what, tool["type"])
		}
		f, _ := tool["function"].(map[string]any)
		c.keys(what, f, set("name", "description", "parameters", "strict"))
		name, _ := f["name"].(string)
		if !functionName.MatchString(name) {
			c.says("%s has the name %q", what, name)
		}
		if names[name] {
			c.says("two tools have the name %q", name)
		}
		names[name] = true
		if d, has := f["description"]; has {
			if _, ok := d.(string); !ok {
				c.says("%s has a description that is no text", what)
			}
		}
		if s, has := f["strict"]; has {
			if _, ok := s.(bool); !ok {
				c.says("%s has the strict %v", what, s)
			}
		}
		if p, has := f["parameters"]; has {
			if o, ok := p.(map[string]any); !ok || o["type"] != "object" {
				c.says("%s has parameters that are no object schema", what)
			}
		}
	}
}

// messages checks each message, and that the tool messages after an assistant
// message answer exactly its calls, in order.
func (c *check) messages(list []any) {
	var open []string // calls that are not answered
	ids := map[string]bool{}
	for i, v := range list {
		m, _ := v.(map[string]any)
		role, _ := m["role"].(string)
		what := fmt.Sprintf("message %d (%s)", i, role)
		allowed, known := messageKeys[role]
		if !known {
			c.says("message %d has the role %v", i, m["role"])
			continue
		}
		c.keys(what, m, allowed)
		if role == "tool" {
			c.content(what, m["content"], "text")
			id, _ := m["tool_call_id"].(string)
			if len(open) == 0 || open[0] != id {
				c.says("%s answers %q, while these calls are open: %q", what, id, open)
			}
			open = slices.DeleteFunc(open, func(s string) bool { return s == id })
			continue
		}
		if len(open) > 0 {
			c.says("%s comes before the answers to %q", what, open)
			open = nil
		}
		switch calls, has := m["tool_calls"]; {
		case has:
			open = c.calls(what, calls, ids)
			if content, has := m["content"]; has {
				c.content(what, content, "text")
			}
		case role == "user":
			c.content(what, m["content"], "text", "image_url", "input_audio", "file")
		default:
			c.content(what, m["content"], "text")
		}
	}
	if len(open) > 0 {
		c.says("the calls %q are not answered", open)
	}
}

func (c *check) calls(what string, v any, ids map[string]bool) (open []string) {
	list, _ := v.([]any)
	if len(list) == 0 || len(list) > maxTools {
		c.says("%s has %d tool calls", what, len(list))
	}
	for _, v := range list {
		call, _ := v.(map[string]any)
		id, _ := call["id"].(string)
		allowed := set("id", "type", "function")
		for k, want := range c.rules.Extra[id] {
			allowed[k] = true
			if got, _ := json.Marshal(call[k]); !same(got, want) {
				c.says("%s has the call %q with the %s %s", what, id, k, got)
			}
		}
		c.keys(what, call, allowed)
		if id == "" || ids[id] || c.rules.ID != nil && !c.rules.ID.MatchString(id) {
			c.says("%s has a call with the id %q", what, id)
		}
		ids[id] = true
		open = append(open, id)
		if call["type"] != "function" {
			c.says("%s has a call of type %v", what, call["type"])
		}
		f, _ := call["function"].(map[string]any)
		c.keys(what, f, set("name", "arguments"))
		if name, _ := f["name"].(string); !functionName.MatchString(name) {
			c.says("%s calls %q", what, name)
		}
		// The API takes any text; several others' read it as the object it should be.
		args, _ := f["arguments"].(string)
		var o map[string]any
		if err := json.Unmarshal([]byte(args), &o); err != nil || o == nil {
			c.says("%s has the arguments %q", what, args)
		}
	}
	return open
}

// same reports whether JSON says what a value does.
func same(raw []byte, want any) bool {
	b, err := json.Marshal(want)
	if err != nil {
		return false
	}
	var x, y any
	return json.Unmarshal(raw, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// content is a text, or parts of the given types.
func (c *check) content(what string, v any, types ...string) {
	switch v := v.(type) {
	case string:
		if strings.TrimSpace(v) == "" || len(v) > maxText {
			c.says("%s has a content of %d bytes", what, len(v))
		}
	case []any:
		if len(v) == 0 {
			c.says("%s has no content", what)
		}
		for _, p := range v {
			part, _ := p.(map[string]any)
			kind, _ := part["type"].(string)
			if !slices.Contains(types, kind) || part[kind] == nil {
				c.says("%s has a part of the type %v", what, part["type"])
			}
		}
	default:
		c.says("%s has no content", what)
	}
}
