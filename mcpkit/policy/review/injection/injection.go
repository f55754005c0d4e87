// Package injection finds prompt injection in texts that come from servers: orders to
// a model, text that poses as a message of the system, and places where secrets are
// kept.
//
//	visible, flags := injection.Read(result)
//	for _, hit := range injection.Find(description) { … }
//
// It knows patterns of verbs and their objects, in the languages of rules.go. It does
// not understand language: a text without a finding is not thereby harmless.
package injection

import "github.com/aurorabot-dev/platform/mcpkit/redact"

// maxResultText bounds how much of a result is looked through, in bytes.
const maxResultText = 64 << 10

// Severity says how sure a finding is to be an attack.
type Severity string

const (
	// Note is worth a look and common among honest servers.
	Note Severity = "note"
	// Warning is unusual among honest servers.
	Warning Severity = "warning"
	// Danger has no honest purpose that the scan knows: the tool is not taken
	// without a person.
	Danger Severity = "danger"
)

// Hit is a rule that matched, and where.
type Hit struct {
	Code     string // a stable word
	Severity Severity
	Message  string
	Excerpt  string // the match and its neighbourhood, in the form of Plain
}

// Find lists the rules that match a text without hidden characters, each once.
func Find(text string) []Hit { return find(text, Note) }

func find(text string, least Severity) (hits []Hit) {
	if len(text) < 4 {
		return nil
	}
	set := rules()
	forms := []string{Plain(text)}
	if words, ok := joined(text); ok {
		forms = append(forms, Plain(words))
	}
	seen := make([][]bool, len(forms))
	for i, form := range forms {
		seen[i] = set.seen(form)
	}
	for i := range set.rules {
		r := &set.rules[i]
		if least == Danger && r.severity != Danger {
			continue
		}
		for i, form := range forms {
			if m := r.find(form, seen[i]); m != nil {
				hits = append(hits, Hit{r.code, r.severity, r.message, Around(form, m)})
				break
			}
		}
	}
	return hits
}

// Flags are the codes of what is dangerous in a text that came from a server, such as
// a result: orders to a model, hidden characters. They are for the record; a text is
// data whatever it says.
func Flags(text string) []string {
	_, flags := Read(text)
	return flags
}

// Read is Flags, and the part of the text that was looked through as a person sees it:
// without hidden characters.
func Read(text string) (visible string, flags []string) {
	visible, n := redact.Strip(text[:min(len(text), maxResultText)])
	if n > 0 {
		flags = append(flags, "hidden_characters")
	}
	for _, hit := range find(visible, Danger) {
		flags = append(flags, hit.Code)
	}
	return visible, flags
}
