// Package words takes a command line apart.
package words

import (
	"errors"
	"strings"
	"unicode"
)

// Split splits a command line at blanks. Quotes keep words together and a backslash
// takes the next character as it is; nothing else is special. A quote or a backslash
// that is not closed is an error.
func Split(s string) ([]string, error) {
	words := []string{}
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case quote == 0 && unicode.IsSpace(r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote or backslash in the command is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
