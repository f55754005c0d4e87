package offers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review/injection"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Expand asks for one prompt by name. Server and Prompt are required.
type Expand struct {
	// ID ties the events together. Empty means a new one.
	ID string
	// Server is its name or alias.
	Server, Prompt string
	Arguments      map[string]string
	// Entrance says where the request came in, for the record.
	Entrance string
	// Trace is the caller's, for the server and the record.
	Trace signal.Trace
	// Far, if set, is the client that answers what the server asks before it answers.
	Far *ask.Far
}

// Prompt is an expanded prompt.
type Prompt struct {
	CallID      string          `json:"call_id"`
	Server      string          `json:"server"`
	Prompt      string          `json:"prompt"`
	Description string          `json:"description,omitempty"`
	Messages    []PromptMessage `json:"messages"`
	Flags       []string        `json:"flags,omitempty"` // what is dangerous in it; see package review
	SHA256      string          `json:"sha256"`          // of the whole result, in hexadecimal
	Raw         json.RawMessage `json:"-"`               // the MCP GetPromptResult, exact but for removed secrets
}

// PromptMessage is one message of an expansion: text on the level of a user,
// whatever the server called it.
type PromptMessage struct {
	Role   string       `json:"role"` // always user
	Text   string       `json:"text"`
	Source PromptSource `json:"source"`
}

// PromptSource says whose words a message is.
type PromptSource struct {
	Server string `json:"server"`
	Prompt string `json:"prompt"`
	Role   string `json:"role"` // that the server gave it: user or assistant
}

// GetPrompt is the one line for a prompt: find the server, ask the policy, check
// the arguments, expand, redact, scan, record. Arguments that are unknown or
// missing are refused before anything is sent.
//
// The expansion is text that a user might have typed, no more: hidden characters
// are gone, parts that are no text are named instead, and what the server put
// into the assistant's mouth is the same text behind the line
// "[mcp:SERVER:PROMPT, as if the assistant had said]". Other roles, which the
// protocol does not have, fail the whole (specification 2025-11-25,
// server/prompts). It leaves mcp.prompt.requested, and mcp.prompt.expanded or
// mcp.prompt.failed. Its errors are *fault.Errors.
func (r *Reader) GetPrompt(ctx context.Context, x Expand) (*Prompt, error) {
	l := r.begin(ctx, x.ID, x.Server, x.Trace)
	seen := signal.Prompt{CallID: l.id, Prompt: x.Prompt, Entrance: x.Entrance}
	seen.Arguments, _ = json.Marshal(x.Arguments) // strings always marshal
	record := func(kind signal.Kind, verb string) { l.emit(kind, "prompt "+x.Prompt+" "+verb, &seen) }
	fail := func(err error) (*Prompt, error) {
		f := fault.From(r.out.Error(err))
		seen.ErrorCode, seen.Reason = f.Code, f.Message
		record(signal.PromptFailed, "was not expanded: "+f.Message)
		return nil, f
	}
	session, err := l.find(x.Server)
	record(signal.PromptRequested, "is asked for")
	if err == nil {
		err = l.permit()
	}
	if err != nil {
		return fail(err)
	}
	if err := checkPrompt(ctx, session, x); err != nil {
		return fail(err)
	}
	result, err := session.GetPrompt(ctx, x.Prompt, x.Arguments, x.Far.With(features.With{Meta: l.trace.Meta()}))
	if err == nil {
		err = l.take(session, "the prompt", result, x.Far)
	}
	if err != nil {
		return fail(err)
	}
	p := &Prompt{CallID: l.id, Server: l.server, Prompt: x.Prompt}
	p.Raw, p.Flags = r.out.Clean(result.Raw)
	if !result.NeedsInput() {
		if err := p.read(); err != nil {
			return fail(err)
		}
	}
	p.SHA256 = hash(p.Raw)
	seen.Messages, seen.Size, seen.SHA256, seen.Flags = len(p.Messages), int64(len(p.Raw)), p.SHA256, p.Flags
	record(signal.PromptExpanded, "was expanded")
	return p, nil
}

// checkPrompt says what is wrong with a request before anything is sent.
func checkPrompt(ctx context.Context, session *session.Session, x Expand) error {
	list, err := session.ListPrompts(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, raw := range list {
		var p struct {
			Name      string `json:"name"`
			Arguments []struct {
				Name     string `json:"name"`
				Required bool   `json:"required"`
			} `json:"arguments"`
		}
		if json.Unmarshal(raw, &p) != nil {
			continue
		}
		if names = append(names, p.Name); p.Name != x.Prompt {
			continue
		}
		var missing, known []string
		for _, a := range p.Arguments {
			known = append(known, a.Name)
			if _, set := x.Arguments[a.Name]; a.Required && !set {
				missing = append(missing, a.Name)
			}
		}
		var unknown []string
		for _, name := range slices.Sorted(maps.Keys(x.Arguments)) {
			if !slices.Contains(known, name) {
				unknown = append(unknown, name)
			}
		}
		var problems []string
		if len(missing) > 0 {
			problems = append(problems, "missing: "+strings.Join(missing, ", "))
		}
		if len(unknown) > 0 {
			problems = append(problems, "unknown: "+strings.Join(unknown, ", "))
		}
		if len(problems) == 0 {
			return nil
		}
		f := fault.New(fault.InvalidArguments, "the arguments of prompt %s do not fit: %s", x.Prompt, strings.Join(problems, "; "))
		if len(unknown) > 0 {
			f.Candidates = known
		}
		return f
	}
	f := fault.New(PromptNotFound, "server %s has no prompt %q", session.Server(), x.Prompt)
	f.Candidates = names
	return f
}

// PromptNotFound is the code of a prompt that its server does not have.
const PromptNotFound = "prompt_not_found"

// read makes user-level text of the result.
func (p *Prompt) read() error {
	var messages []promptMessage
	if err := jsontext.Fields(p.Raw, map[string]any{"description": &p.Description, "messages": &messages}); err != nil {
		return fault.New(fault.InvalidResult, "the expansion of prompt %s cannot be read: %v", p.Prompt, err)
	}
	p.Description = p.visible(p.Description)
	p.Messages = []PromptMessage{}
	for i, m := range messages {
		text, beside := promptText(m.content)
		p.flag(beside)
		text = p.visible(text)
		switch m.role {
		case "user":
		case "assistant":
			text = fmt.Sprintf("[mcp:%s:%s, as if the assistant had said]\n%s", p.Server, p.Prompt, text)
		default:
			return fault.New(fault.InvalidResult, "message %d of prompt %s has the role %q; a prompt speaks as user or assistant", i+1, p.Prompt, redact.Show(m.role))
		}
		p.Messages = append(p.Messages, PromptMessage{"user", text, PromptSource{p.Server, p.Prompt, m.role}})
	}
	return nil
}

// visible is a text of the prompt without hidden characters, once it was flagged.
func (p *Prompt) visible(text string) string {
	p.flag(text)
	text, _ = redact.Strip(text)
	return text
}

// flag keeps what is dangerous in a text.
func (p *Prompt) flag(text string) {
	for _, f := range injection.Flags(text) {
		if !slices.Contains(p.Flags, f) {
			p.Flags = append(p.Flags, f)
		}
	}
}

// promptMessage is a message as its server wrote it, read by exact names, as those
// do who get the whole.
type promptMessage struct {
	role    string
	content json.RawMessage
}

func (m *promptMessage) UnmarshalJSON(raw []byte) error {
	return jsontext.Fields(raw, map[string]any{"role": &m.role, "content": &m.content})
}

// promptText is the text of a message's content, one part or several; other
// parts are named. Beside it are words about those parts.
func promptText(raw json.RawMessage) (_, beside string) {
	if bytes.HasPrefix(raw, []byte("[")) {
		var parts, words []string
		jsontext.Elements(raw, func(part []byte) bool {
			text, beside := promptText(part)
			parts, words = append(parts, text), append(words, beside)
			return true
		})
		return strings.Join(parts, "\n"), strings.Join(words, "\n")
	}
	words := map[string]string{}
	take := func(name, value []byte) bool {
		words[string(name)] = jsontext.String(value)
		return true
	}
	jsontext.Members(raw, take)
	typ := words["type"]
	if typ == "text" {
		return words["text"], ""
	}
	if typ == "resource" { // its text and address are its own
		delete(words, "text")
		jsontext.Members(jsontext.Get(raw, "resource"), take)
	}
	text, uri, mime := words["text"], words["uri"], words["mimeType"]
	beside = strings.Join([]string{words["name"], words["title"], words["description"], mime}, "\n")
	switch {
	case typ == "resource" && text != "":
		return fmt.Sprintf("[resource %s]\n%s", uri, text), beside
	case typ == "resource":
		return fmt.Sprintf("[resource %s %s]", uri, mime), beside
	case uri != "":
		return fmt.Sprintf("[%s %s]", typ, uri), beside
	}
	return fmt.Sprintf("[%s %s]", typ, mime), beside
}
