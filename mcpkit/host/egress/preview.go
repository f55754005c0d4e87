package egress

import (
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/policy/review/injection"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// Preview is the beginning of a result's text for events, without hidden characters,
// and what is dangerous in anything that a model is shown of the result.
func Preview(r toolcall.Result, limit int) (text string, flags []string) {
	text, beside := r.Text()
	text, flags = injection.Read(strings.ToValidUTF8(text, "\uFFFD"))
	more := []string{beside}
	if string(r.Structured()) != text || strings.Contains(text, `\`) { // else all of it was just read
		more = append(more, r.StructuredText())
	}
	for _, words := range more {
		for _, f := range injection.Flags(strings.ToValidUTF8(words, "\uFFFD")) {
			if !slices.Contains(flags, f) {
				flags = append(flags, f)
			}
		}
	}
	if len(text) > limit {
		text = text[:Cut(text, limit)] + "…"
	}
	return text, flags
}

// Failure is the failure of a tool that reported one. A tool that uses another shape
// than package fault leaves only its text.
func Failure(r toolcall.Result) (code, message string, retryable bool) {
	if f := r.Failure(); f != nil {
		return f.Code, f.Message, f.Retryable
	}
	text, _ := Preview(r, 300)
	return "tool_error", text, false
}
