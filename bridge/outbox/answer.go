package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

var answerForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^answer_([A-Za-z0-9][A-Za-z0-9._-]{0,127})\.json$`)
})

const maxAnswer = 2 << 20 // bytes of an answer's file

// Answer is the content of an answer's file: Action and Content for the only
// question of a call, or Replies by the questions' ids.
type Answer struct {
	Action  string          `json:"action,omitempty"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
	Replies ask.Replies     `json:"replies,omitempty"`
	Actor   string          `json:"actor,omitempty"` // who answers
}

// answer gives an answer to the call that waits for it. What is none, or comes
// for nothing, goes to failed/ with the reason; the question then stays open.
func (x *Outbox) answer(name, id string) {
	a, err := readAnswer(x.path(Pending, name))
	switch {
	case errors.Is(err, errLater):
		x.later(Pending, name, err)
		return
	case errors.Is(err, fs.ErrNotExist):
		return // taken back
	case errors.Is(err, strict.ErrShort) && x.young(name):
		return // the next look may find it whole
	case err == nil && x.o.Answer == nil:
		err = errors.New("nobody takes answers here")
	case err == nil:
		replies, actor := a.Replies, a.Actor
		if a.Action != "" {
			replies = ask.Replies{"": {Action: a.Action, Content: a.Content}}
		}
		if actor == "" {
			actor = "outbox"
		}
		err = x.o.Answer(id, replies, actor)
	}
	if err != nil {
		x.refuse(Pending, name, err.Error())
		return
	}
	if err := x.move(Pending, Done, name); err != nil {
		x.o.Logger.Error("putting an answer aside failed", "answer", name, "error", err)
	}
}

// readAnswer reads and checks an answer.
func readAnswer(path string) (*Answer, error) {
	data, err := readFile(path, maxAnswer)
	if err != nil {
		return nil, err
	}
	var a Answer
	switch err := strict.Object(data, &a); {
	case err != nil:
		return nil, fmt.Errorf("it is no answer: %w", err)
	case (a.Action == "") == (len(a.Replies) == 0):
		return nil, errors.New(`it has either "action", for the only question, or "replies"`)
	case a.Replies != nil && a.Content != nil:
		return nil, errors.New(`"content" belongs to "action"`)
	}
	return &a, nil
}
