package host

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// exchange sends the call and, for as long as its server wants to know something
// first, sends it again with the answers: a server that asks has not done
// anything yet (2026-07-28, multi round-trip requests). Servers of older eras ask
// while the call is in flight, see asker.
func (l *line) exchange(args json.RawMessage) (*features.Result, answer, error) {
	r := features.CallRequest{
		Server: l.tool.Source.Server, Tool: l.tool.Source.OriginalName, Arguments: args, Checked: true,
		CallID: l.id, Timeout: l.call.Timeout, OnProgress: l.progress(), Ask: l.asker, Meta: meta(l.call.Trace),
	}
	if f := l.call.Far; f != nil {
		r.Capabilities, r.InputResponses, r.RequestState = f.Capabilities, f.InputResponses, f.RequestState
	}
	if l.call.Input != nil || l.call.Far != nil {
		r.Asker = l.id // its questions are for this caller alone
	}
	if l.call.Input == nil && l.call.Far != nil {
		r.Ask = nil
	}
	if key := l.call.IdempotencyKey; key != "" {
		r.Arguments, r.Meta = withKey(args, l.tool.InputSchema, key), keyMeta(l.call.Trace, key)
	}
	for shed := 0; ; {
		result, err := l.h.o.Client.Call(l.ctx, r)
		if urls := l.urlsFirst(err); len(urls) > 0 {
			if err = l.visit(urls); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, answer{}, err
		}
		seen := read(result.Raw)
		if !seen.needsInput {
			return result, seen, nil
		}
		session, err := l.h.o.Client.Ready(r.Server)
		if err != nil {
			return nil, answer{}, err
		}
		if l.call.Far != nil && l.call.Input == nil {
			if err := vet(session, l.step.Tool, result, l.notShown); err != nil {
				return nil, answer{}, err
			}
			return result, seen, nil
		}
		with, err := l.answer(session, result, &shed)
		if err != nil {
			return nil, answer{}, err
		}
		r.InputResponses, r.RequestState = with.InputResponses, with.RequestState
	}
}

// codeURLFirst is the error of a server that did nothing because a person has to
// visit pages first (2025-11-25, client/elicitation: URL elicitation required).
const codeURLFirst = -32042

// urlsFirst are the pages that err asks for, none where it is another error, or
// the server may not ask a person.
func (l *line) urlsFirst(err error) []signal.Question {
	f := fault.From(err)
	if f == nil || f.Code != fault.Protocol {
		return nil
	}
	var e struct {
		Code int `json:"code"`
		Data struct {
			Elicitations []json.RawMessage `json:"elicitations"`
		} `json:"data"`
	}
	if json.Unmarshal(f.Data, &e) != nil || e.Code != codeURLFirst || len(e.Data.Elicitations) > maxQuestions {
		return nil
	}
	session, err := l.h.o.Client.Ready(l.tool.Source.Server)
	if err != nil || !session.Offers(handshake.MethodElicit) {
		return nil
	}
	var questions []signal.Question
	for i, raw := range e.Data.Elicitations {
		q, err := l.question(fmt.Sprint(i+1), handshake.MethodElicit, raw)
		if err != nil || q.Kind != URLQuestion {
			return nil
		}
		questions = append(questions, q)
	}
	return questions
}

// visit has a person visit pages. The error says that not all were.
func (l *line) visit(pages []signal.Question) error {
	answers, err := l.ask(l.ctx, pages)
	if err != nil {
		return err
	}
	for _, q := range pages {
		if a := answers[q.ID].Action; a != Accept {
			return fault.New(fault.InputRequired, "%s needs a visit to %s first: the answer was %s", l.step.Tool, q.Host, a)
		}
	}
	return nil
}

// keyMeta is the _meta in which a server finds a call's idempotency key.
func keyMeta(t signal.Trace, key string) json.RawMessage {
	b, _ := json.Marshal(struct { // strings always marshal
		signal.Trace
		Key string `json:"aurora/idempotency-key"`
	}{t, key})
	return b
}

// withKey gives a tool the call's idempotency key that has an argument for it:
// idempotency_key or idempotencyKey, any text, where the caller left it out.
func withKey(args, schema json.RawMessage, key string) json.RawMessage {
	var s struct {
		Properties map[string]map[string]json.RawMessage `json:"properties"`
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || json.Unmarshal(args, &given) != nil {
		return args
	}
	for _, name := range []string{"idempotency_key", "idempotencyKey"} {
		p, offered := s.Properties[name]
		if _, set := given[name]; !offered || set || string(p["type"]) != `"string"` {
			continue
		}
		free := true
		for word := range p {
			free = free && (word == "type" || word == "title" || word == "description")
		}
		if !free { // the key may not fit
			continue
		}
		i := bytes.IndexByte(args, '{') // where the object begins
		out := append(args[:i+1:i+1], '"')
		out = jsontext.AppendQuote(append(append(out, name...), `":`...), key)
		if len(given) > 0 {
			out = append(out, ',')
		}
		return append(out, args[i+1:]...)
	}
	return args
}
