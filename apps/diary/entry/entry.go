// Package entry is what a diary has for one day, and the form of its file: Markdown
// that people may read and edit, too. It reads and writes no files.
package entry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/apps/diary/textsearch"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// DateForm is how dates are written, for package time.
const DateForm = "2006-01-02"

// Limits of an entry.
const (
	MaxTags = 20
	MaxWord = 40 // characters of a tag or a mood
)

// Entry is what a diary has for one day. Its file is Markdown for people, with
// the rest at the top:
//
//	---
//	created: 2026-11-29T21:53:21+08:00
//	updated: 2026-11-29T22:10:02+08:00
//	mood: calm
//	tags: [garden, 家]
//	---
//
//	Planted the last tulips.
//
// A file without that top is an entry, too: whoever wrote it by hand need not
// know of it. Keys that are not ours stay where they are.
type Entry struct {
	Date    string    `json:"date" yaml:"-"`    // YYYY-MM-DD, the file's name
	Content string    `json:"content" yaml:"-"` // as it was written, to the byte
	Created time.Time `json:"created_at,omitzero" yaml:"created,omitempty"`
	Updated time.Time `json:"updated_at,omitzero" yaml:"updated,omitempty"`
	Mood    string    `json:"mood,omitempty" yaml:"mood,omitempty"`
	Tags    []string  `json:"tags,omitempty" yaml:"tags,omitempty,flow"`

	Others map[string]any `json:"-" yaml:",inline"`
	Mended bool           `json:"-" yaml:"-"` // the file holds bytes that are not UTF-8, shown as U+FFFD
}

// Text is the entry for a person.
func (e Entry) Text() string { return e.Content }

// CheckDate takes a real date in the one form that also is a safe file name. Its error
// is a *fault.Error with the code DIARY_INVALID_DATE.
func CheckDate(s string) error {
	if t, err := time.Parse(DateForm, s); err != nil || t.Format(DateForm) != s {
		return fault.New("DIARY_INVALID_DATE", "%s is not a date; write it as YYYY-MM-DD, such as 2026-11-29", Quote(s))
	}
	return nil
}

// Quote shows a caller's text, cut where it would drown the message.
func Quote(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}

const (
	fence     = "---\n"
	maxHeader = 16 << 10 // bytes of the top; a longer one is text
)

// Encode is e's file.
func (e *Entry) Encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(fence)
	head, err := yaml.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding the entry %s: %w", e.Date, err)
	}
	if string(head) != "{}\n" {
		b.Write(head)
	}
	b.WriteString(fence + "\n" + e.Content + "\n")
	return b.Bytes(), nil
}

// Decode reads a file as Encode wrote it, or as somebody else did: what is no top
// is content. The newline that ends the file is not part of the content.
func Decode(date string, file []byte) *Entry {
	text := string(file)
	mended := !utf8.ValidString(text)
	if mended {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text = strings.TrimPrefix(text, "\uFEFF")
	e := &Entry{}
	if head, rest, ok := cutHeader(text); ok && yaml.Unmarshal([]byte(head), e) == nil {
		text = strings.TrimPrefix(rest, "\n")
	} else {
		e = &Entry{}
	}
	e.Date, e.Content, e.Mended = date, strings.TrimSuffix(text, "\n"), mended
	return e
}

// cutHeader splits text after its closing fence.
func cutHeader(text string) (head, rest string, ok bool) {
	head, ok = strings.CutPrefix(text, fence)
	if !ok {
		return "", text, false
	}
	if rest, ok = strings.CutPrefix(head, fence); ok {
		return "", rest, true
	}
	head, rest, ok = strings.Cut(head, "\n"+fence)
	return head, rest, ok && len(head) <= maxHeader
}

// CleanTags are tags without blanks around, empty ones and repetitions. Its error is a
// *fault.Error with the code DIARY_INVALID_ARGUMENT.
func CleanTags(tags []string) ([]string, error) {
	var clean []string
	for _, tag := range tags {
		tag = textsearch.OneLine(tag)
		if utf8.RuneCountInString(tag) > MaxWord {
			return nil, fault.New("DIARY_INVALID_ARGUMENT", "the tag %s has more than %d characters", Quote(tag), MaxWord)
		}
		if tag != "" && !slices.Contains(clean, tag) {
			clean = append(clean, tag)
		}
	}
	if len(clean) > MaxTags {
		return nil, fault.New("DIARY_INVALID_ARGUMENT", "an entry would have %d tags; %d are the most", len(clean), MaxTags)
	}
	return clean, nil
}
