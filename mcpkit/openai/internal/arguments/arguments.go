// Package arguments reads the text that a model sent as the arguments of a call,
// and puts right what is wrong with it where that can be done without a guess.
//
//	args, repairs, err := arguments.Read("```json\n{\"a\":1,}\n```")
//
// Whether the arguments fit a tool is checked elsewhere.
package arguments

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// Max is how many bytes the arguments of one call may have.
const Max = 4 << 20

// Read makes an object of what the model sent. repairs say, in words for a log,
// what had to be put right; the error says what could not.
func Read(s string) (args *jsonvalue.Object, repairs []string, err error) {
	if len(s) > Max {
		return nil, nil, errors.New("too long")
	}
	text := strings.TrimSpace(s)
	if inner, ok := unfenced(text); ok {
		text = inner
		repairs = append(repairs, "a code fence stood around the arguments")
	}
	if text == "" || text == "null" {
		return jsonvalue.NewObject(), repairs, nil
	}
	limits := jsonvalue.Limits{Depth: 500, Strict: true}
	v, err := jsonvalue.Parse([]byte(text), limits)
	if err != nil && !errors.Is(err, jsonvalue.ErrDuplicate) && !errors.Is(err, jsontext.ErrDepth) {
		for _, fix := range []struct {
			of   func(string) string
			what string
		}{
			{withoutTrailingCommas, "a comma stood before a closing bracket"},
			{withEscapes, "a line end or another control character stood in a string as it is"},
		} {
			if fixed := fix.of(text); fixed != text {
				text, repairs = fixed, append(repairs, fix.what)
			}
		}
		if w, e := jsonvalue.Parse([]byte(text), limits); e == nil {
			v, err = w, nil
		}
	}
	if err != nil {
		return nil, nil, errors.New("not one JSON object: " + err.Error())
	}
	if quoted, ok := v.(string); ok {
		if w, e := jsonvalue.Parse([]byte(quoted), limits); e == nil {
			if o, isObject := w.(*jsonvalue.Object); isObject {
				return o, append(repairs, "the arguments were encoded twice"), nil
			}
		}
	}
	o, ok := v.(*jsonvalue.Object)
	if !ok {
		return nil, nil, errors.New("not a JSON object")
	}
	return o, repairs, nil
}

// unfenced is what stands inside a Markdown code fence that holds all of s.
func unfenced(s string) (string, bool) {
	body, ok := strings.CutPrefix(s, "```")
	if !ok {
		return "", false
	}
	if body, ok = strings.CutSuffix(body, "```"); !ok || strings.Contains(body, "```") {
		return "", false
	}
	lang, rest, ok := strings.Cut(body, "\n")
	if lang = strings.TrimSpace(lang); !ok || lang != "" && !strings.EqualFold(lang, "json") {
		return "", false
	}
	return strings.TrimSpace(rest), true
}

// withoutTrailingCommas drops commas, outside strings, that stand between a
// value and a closing bracket.
func withoutTrailingCommas(s string) string {
	const space = " \t\r\n"
	var b strings.Builder
	inString := false
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case inString && ch == '\\' && i+1 < len(s):
			b.WriteByte(ch)
			i++
		case ch == '"':
			inString = !inString
		case ch == ',' && !inString:
			before, after := strings.TrimRight(b.String(), space), strings.TrimLeft(s[i+1:], space)
			if after != "" && strings.IndexByte("}]", after[0]) >= 0 && before != "" && strings.IndexByte("{[,:", before[len(before)-1]) < 0 {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// withEscapes escapes the control characters that stand in strings, which JSON forbids
// there (RFC 8259, section 7) and which can mean nothing but themselves, unless they
// follow a backslash.
func withEscapes(s string) string {
	var b strings.Builder
	inString := false
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case inString && ch == '\\' && i+1 < len(s):
			if b.WriteByte(ch); s[i+1] < ' ' {
				return s // which may stand for the line end or for nothing
			}
			i++
		case ch == '"':
			inString = !inString
		case inString && ch < ' ':
			fmt.Fprintf(&b, "\\u%04x", ch)
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
