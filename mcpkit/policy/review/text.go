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
	_, flags := Read(text)
	return flags
}

// Read is Flags, and the part of the text that was looked through as a person
// sees it: without hidden characters.
func Read(text string) (visible string, flags []string) {
	visible, n := redact.Strip(text[:min(len(text), maxResultText)])
	if n > 0 {
		flags = append(flags, "hidden_characters")
	}
	return visible, append(flags, orders(visible)...)
}

// orders are the codes of the orders to a model in a text without hidden characters.
func orders(text string) (flags []string) {
	if len(text) < 4 {
		return nil
	}
	seen, ok := spots().spotted(text, false)
	if ok && !slices.ContainsFunc(textRules, func(r textRule) bool { return r.severity == Danger && r.admits(seen) }) {
		return nil
	}
	flat := plain(text)
	if !ok {
		seen, _ = spots().spotted(flat, true)
	}
	for i := range textRules {
		if r := &textRules[i]; r.severity == Danger && r.find(flat, seen) != nil {
			flags = append(flags, r.code)
		}
	}
	return flags
}
