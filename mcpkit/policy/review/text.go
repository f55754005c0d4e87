package review

import (
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// maxResultText bounds how much of a result is looked through, in bytes.
const maxResultText = 64 << 10

// Flags are the codes of what is dangerous in a text that came from a server,
// such as a result: orders to a model, hidden characters. They are for the
// record; a text is data whatever it says.
func Flags(text string) []string {
	var flags []string
	text = text[:min(len(text), maxResultText)]
	if seen, n := redact.Strip(text); n > 0 {
		flags = append(flags, "hidden_characters")
		text = seen
	}
	if len(text) < 4 {
		return flags
	}
	seen, ok := spots.spotted(text, false)
	if ok && !slices.ContainsFunc(textRules, func(r textRule) bool { return r.severity == Danger && r.admits(seen) }) {
		return flags
	}
	flat := plain(text)
	if !ok {
		seen, _ = spots.spotted(flat, true)
	}
	for i := range textRules {
		if r := &textRules[i]; r.severity == Danger && r.find(flat, seen) != nil {
			flags = append(flags, r.code)
		}
	}
	return flags
}
