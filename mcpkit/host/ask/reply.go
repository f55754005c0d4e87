package ask

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask/form"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

const maxAnswerLength = 1 << 20 // bytes

// Replies are what a call's open questions are answered with, by the id of the
// question. Each open question needs one.
type Replies map[string]Reply

// Reply is the answer to one question.
type Reply struct {
	// Action is accept, decline (a person said no) or cancel (nobody said anything).
	Action string `json:"action"`
	// Content of a form that is accepted is an object with its fields, of accepted
	// sampling a CreateMessageResult. A URL has none.
	Content json.RawMessage `json:"content,omitempty"`
}

// Actions of a Reply.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// check says whether the answers fit the questions.
func (a Replies) check(questions []signal.Question) error {
	bad := func(format string, args ...any) error { return fault.New(fault.InvalidArguments, format, args...) }
	left := maps.Clone(a)
	for _, q := range questions {
		given, ok := a[q.ID]
		if !ok {
			return bad("the question %q is not answered", q.ID)
		}
		delete(left, q.ID)
		switch {
		case given.Action == Decline || given.Action == Cancel:
			if len(given.Content) > 0 && string(given.Content) != "null" {
				return bad("an answer that does not accept has no content")
			}
			continue
		case given.Action != Accept:
			return bad("an action is accept, decline or cancel, not %.40q", given.Action)
		case len(given.Content) > maxAnswerLength:
			return bad("an answer may have %d bytes", maxAnswerLength)
		}
		switch q.Kind {
		case FormQuestion:
			f, err := form.Read(q.Message, q.Schema)
			if err != nil {
				return err
			}
			if err := f.Check(orEmpty(given.Content)); err != nil {
				return err
			}
		case SamplingQuestion:
			if !jsontext.IsObject(given.Content) {
				return bad("the answer of a model is a CreateMessageResult")
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		return bad("there is no question %.80q", id)
	}
	return nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(raw)) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// result is the answer as the method's result.
func (a Reply) result(q signal.Question) (json.RawMessage, error) {
	if q.Kind == SamplingQuestion {
		if a.Action != Accept {
			return nil, fault.New(fault.InputRequired, "the request for a model's answer was declined")
		}
		return a.Content, nil
	}
	out := map[string]any{"action": a.Action}
	if a.Action == Accept && q.Kind == FormQuestion {
		out["content"] = orEmpty(a.Content)
	}
	return json.Marshal(out)
}

// cancelled is the answer of nobody.
func cancelled(questions []signal.Question) Replies {
	a := Replies{}
	for _, q := range questions {
		a[q.ID] = Reply{Action: Cancel}
	}
	return a
}
