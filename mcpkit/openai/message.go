package openai

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/openai/render"
)

// MaxContent is the number of characters of a result that a tool message carries.
const MaxContent = render.MaxText

// Answer is the outcome of one call, for the model that made it.
type Answer struct {
	CallID string          // as the model gave it
	Call   catalog.ID      // the tool that answered; zero when none was found
	Result json.RawMessage // the exact result of tools/call; ignored when Err is set
	Err    error           // what went wrong instead; a *fault.Error keeps its code
}

// ToolMessages are the messages that answer one turn of a model: a tool message
// for each answer in order, and, when results hold images and the model can see,
// one user message with them after all of those.
func (x *Export) ToolMessages(answers []Answer) []openai.ChatCompletionMessage {
	var out []openai.ChatCompletionMessage
	var parts []openai.ChatMessagePart
	for _, a := range answers {
		m, images := x.ToolMessage(a)
		out = append(out, m)
		if len(images) > 0 {
			parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText,
				Text: fmt.Sprintf("Images from the result of call %s %s:", m.ToolCallID, render.Source(a.Call))})
			parts = append(parts, images...)
		}
	}
	if len(parts) > 0 {
		out = append(out, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, MultiContent: parts})
	}
	return out
}

// ToolMessage is the message that answers one call. Its content is never empty, is text
// only, and says where it comes from, between marks; see [render.Rendered.Marked]. Images
// are returned beside it, for a user message after all tool messages of the turn.
func (x *Export) ToolMessage(a Answer) (openai.ChatCompletionMessage, []openai.ChatMessagePart) {
	var r render.Rendered
	if a.Err != nil {
		r = render.Fault(fault.From(a.Err))
	} else {
		r = render.Result(a.Result, x.profile.blind)
	}
	return openai.ChatCompletionMessage{
		Role: openai.ChatMessageRoleTool, ToolCallID: x.CallID(a.CallID), Content: r.Marked(a.Call),
	}, r.Images
}

// CallID is a call's id in the form that the provider takes. It is the same for
// the call and its answer, so histories from other providers can be replayed.
func (x *Export) CallID(id string) string {
	if !x.profile.shortIDs || shortID.MatchString(id) {
		return id
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(id))
	out := make([]byte, 9)
	for i := range out {
		out[i] = digits[int(sum[i])%len(digits)]
	}
	return string(out)
}

var shortID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
