package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

// PrintJSON writes v as indented JSON on a terminal, else as one line.
func (c *Env) PrintJSON(v any) error { return c.print(v, c.Out.Terminal()) }

// PrintLine writes v as one line of JSON: verbs that go on write one after another.
func (c *Env) PrintLine(v any) error { return c.print(v, false) }

func (c *Env) print(v any, indent bool) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := c.Out.Write(InertJSON(b.Bytes()))
	return err
}

// InertJSON is JSON that means the same and does nothing to a terminal: what is
// not seen is escaped. Outside of strings JSON has no such characters.
func InertJSON(b []byte) []byte {
	odd := func(r rune) bool { return r >= 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }
	if bytes.IndexFunc(b, odd) < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for _, r := range string(b) {
		switch {
		case !odd(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// SafeText keeps the lines of a text and nothing that steers a terminal.
func SafeText(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = console.Safe(l)
	}
	return strings.Join(lines, "\n")
}

// Flagged says on standard error what is suspicious in what was printed.
func (c *Env) Flagged(flags []string) {
	if len(flags) > 0 {
		c.Err.Printf("%s\n", c.Err.Paint(console.Yellow, "note: this was flagged: "+console.Safe(strings.Join(flags, ", "))))
	}
}
