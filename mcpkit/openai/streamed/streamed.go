// Package streamed puts the tool calls of a streamed answer together.
//
//	var calls streamed.Collector
//	for … { calls.Add(chunk.Choices[0].Delta.ToolCalls) }
//	calls.Calls() // whole
//
// What a call means is read elsewhere.
package streamed

import (
	"encoding/json"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/arguments"
)

// maxCalls bounds the calls of one turn.
const maxCalls = 128

// Collector puts the pieces of streamed tool calls together. It goes by the
// index, never by order: a call may come without any arguments before another
// that has some. The zero value is ready; it is not safe for concurrent use.
//
// Endpoints number calls wrongly in several ways, and what they send can mean one
// thing only in each: an index that is used again belongs to a new call where the piece
// names a function and the call there is whole, or where both come in one chunk; a
// piece without a name, or with the name again while arguments are missing, goes on
// with the call there, whatever its id.
//
// Calls beyond the 128th are dropped; arguments beyond 4 MiB are cut, which
// Decode then reports.
type Collector struct {
	calls   []openai.ToolCall
	byIndex map[int]int // the provider's index to the place in calls
}

// Add takes the tool calls of one chunk.
func (c *Collector) Add(deltas []openai.ToolCall) {
	begun := map[int]bool{} // indexes that this chunk has used
	for _, d := range deltas {
		i, ok := c.place(d, d.Index != nil && begun[*d.Index])
		if !ok {
			continue
		}
		if d.Index != nil {
			begun[*d.Index] = true
		}
		call := &c.calls[i]
		if call.ID == "" {
			call.ID = d.ID
		}
		if call.Function.Name == "" || call.Function.Arguments == "" {
			call.Function.Name = longer(call.Function.Name, d.Function.Name)
		}
		if len(call.Function.Arguments) <= arguments.Max {
			call.Function.Arguments += d.Function.Arguments
		}
	}
}

// longer is a name of which a further piece came: the rest of it, or the whole of it so
// far, which may be the same again.
func longer(name, piece string) string {
	if strings.HasPrefix(piece, name) {
		return piece
	}
	return name + piece
}

// place is where in calls a piece belongs. Again says that the chunk had the index of
// the piece before.
func (c *Collector) place(d openai.ToolCall, again bool) (int, bool) {
	last := len(c.calls) - 1
	for i, call := range c.calls {
		if d.ID != "" && call.ID == d.ID && d.Index == nil {
			return i, true
		}
	}
	if d.Index != nil {
		if i, ok := c.byIndex[*d.Index]; ok && !c.begins(d, c.calls[i], again) {
			return i, true
		} else if !ok && d.ID == "" && d.Function.Name == "" && last >= 0 {
			// Some number the arguments otherwise than the call that they are of.
			// Without a name they begin nothing, and their call must not run without them.
			return last, true
		}
	} else if d.ID == "" && d.Function.Name == "" && last >= 0 {
		return last, true
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

// begins reports whether a piece with the index of a call begins another call.
func (c *Collector) begins(d, call openai.ToolCall, again bool) bool {
	name, args := call.Function.Name, call.Function.Arguments
	otherID := d.ID != "" && call.ID != "" && d.ID != call.ID
	switch {
	case d.Function.Name == "" || name == "":
		return false
	case again:
		return d.Function.Arguments != "" || otherID
	case json.Valid([]byte(args)): // nothing is missing
		return otherID || d.ID == "" && d.Function.Arguments != ""
	case args == "": // nothing came yet, or nothing ever will
		return otherID && d.Function.Name != name
	}
	return false
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
