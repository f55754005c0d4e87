package openai

import (
	"fmt"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/arguments"
)

// maxCalls bounds the calls of one turn.
const maxCalls = 128

// Collector puts the pieces of streamed tool calls together. It goes by the
// index, never by order: a call may come without any arguments before another
// that has some. The zero value is ready; it is not safe for concurrent use.
//
// Calls beyond the 128th are dropped; arguments beyond 4 MiB are cut, which
// Decode then reports.
type Collector struct {
	calls   []openai.ToolCall
	byIndex map[int]int // the provider's index to the place in calls
}

// Add takes the tool calls of one chunk.
func (c *Collector) Add(deltas []openai.ToolCall) {
	for _, d := range deltas {
		i, ok := c.place(d)
		if !ok {
			continue
		}
		call := &c.calls[i]
		if call.ID == "" {
			call.ID = d.ID
		}
		if call.Function.Name == "" {
			call.Function.Name = d.Function.Name
		}
		if len(call.Function.Arguments) <= arguments.Max {
			call.Function.Arguments += d.Function.Arguments
		}
	}
}

func (c *Collector) place(d openai.ToolCall) (int, bool) {
	last := len(c.calls) - 1
	if d.Index != nil {
		i, ok := c.byIndex[*d.Index]
		// Some providers send every call whole, all with index 0.
		if ok && !(d.ID != "" && c.calls[i].ID != "" && d.ID != c.calls[i].ID) {
			return i, true
		}
		// Others number the arguments otherwise than the call that they are of.
		// Without a name they begin nothing, and their call must not run without them.
		if !ok && d.ID == "" && d.Function.Name == "" && last >= 0 {
			return last, true
		}
	} else {
		for i, call := range c.calls {
			if d.ID != "" && call.ID == d.ID {
				return i, true
			}
		}
		if d.ID == "" && d.Function.Name == "" && last >= 0 {
			return last, true
		}
	}
	if len(c.calls) == maxCalls {
		return 0, false
	}
	c.calls = append(c.calls, openai.ToolCall{Type: openai.ToolTypeFunction})
	if d.Index != nil {
		if c.byIndex == nil {
			c.byIndex = map[int]int{}
		}
		c.byIndex[*d.Index] = last + 1
	}
	return last + 1, true
}

// Calls are the calls so far, in the order in which they began and fit to be
// sent back in an assistant message: each has an id, and "{}" stands for absent
// arguments, because an empty string would lose its key.
func (c *Collector) Calls() []openai.ToolCall {
	out := make([]openai.ToolCall, len(c.calls))
	for i, call := range c.calls {
		if call.ID == "" {
			call.ID = fmt.Sprintf("call_%d", i)
		}
		if call.Function.Arguments == "" {
			call.Function.Arguments = "{}"
		}
		out[i] = call
	}
	return out
}
