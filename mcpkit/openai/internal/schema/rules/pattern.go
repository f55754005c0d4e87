package rules

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
)

// PatternRules say which regular expressions an API takes. All of them refuse
// lookaround, back references and what Python's re does not know.
type PatternRules struct {
	EscapeBrackets bool // a [ inside a class must be escaped
	// Grammar: the pattern becomes a grammar of llama.cpp (GBNF), whose parser fails on
	// every escape that it does not know, and with it the whole request. The pattern
	// starts with ^ and ends with $, has neither elsewhere and no choice between the
	// two, as the converter takes them for the ends of all choices.
	Grammar   bool
	MaxRepeat int // of {n,m}; 0 for no limit
}

// digits, words and spaces written out; \s as Python and RE2 share it.
var classes = map[byte]string{'d': `0-9`, 'w': `A-Za-z0-9_`, 's': ` \t\n\r\x0C\x0B`}

// inGrammar is the escape of e, a character that is no letter or digit, as a grammar
// knows it, in a class or outside.
func inGrammar(e byte, inClass bool) string {
	switch {
	case e == '\\' || inClass && (e == '[' || e == ']'), !inClass && strings.IndexByte("^$.[]()|{}*+?", e) >= 0:
		return `\` + string(e)
	case inClass && (e == '-' || e == '^'):
		return fmt.Sprintf(`\x%02X`, e)
	}
	return string(e)
}

// Fit returns the pattern as the rules want it, and whether there is such a
// form that takes the same strings.
func (r PatternRules) Fit(pattern string) (string, bool) {
	var out, check strings.Builder // check is the same for Go's parser
	both := func(s string) { out.WriteString(s); check.WriteString(s) }
	inClass := false
	classStart := 0
	depth := 0 // of groups
	for i := 0; i < len(pattern); i++ {
		ch := pattern[i]
		switch {
		case ch == '\\':
			i++
			if i == len(pattern) {
				return "", false
			}
			e := pattern[i]
			switch {
			case r.Grammar && (e == 'b' || e == 'B'):
				return "", false // the edge of a word is no character
			case r.Grammar && (e == 'f' || e == 'v'):
				both(map[byte]string{'f': `\x0C`, 'v': `\x0B`}[e])
			case strings.IndexByte("dws", e) >= 0 && r.Grammar:
				if inClass {
					both(classes[e])
				} else {
					both("[" + classes[e] + "]")
				}
			case strings.IndexByte("DWS", e) >= 0 && r.Grammar:
				if inClass {
					return "", false
				}
				both("[^" + classes[e|0x20] + "]")
			case strings.IndexByte("dDwWsSbBfnrtv", e) >= 0:
				if e == 'b' && inClass {
					return "", false
				}
				both(`\` + string(e))
			case e == 'u' || e == 'x':
				n := 4
				if e == 'x' {
					n = 2
				}
				if i+n >= len(pattern) || !isHex(pattern[i+1:i+1+n]) {
					return "", false // \u{…} needs a flag, \uD800 is half a character
				}
				hex := pattern[i+1 : i+1+n]
				if e == 'u' && (hex[0]|0x20) == 'd' && hex[1] >= '8' {
					return "", false
				}
				i += n
				check.WriteString(`\x{` + hex + `}`)
				if code, err := strconv.ParseUint(hex, 16, 32); err == nil && r.Grammar && code >= 0xa0 {
					out.WriteRune(rune(code))
					continue
				}
				out.WriteString(`\` + string(e) + hex)
			case e < 0x80 && (e >= '0' && e <= '9' || e >= 'a' && e <= 'z' || e >= 'A' && e <= 'Z'):
				return "", false // back references, \p, \c, \k, \Q, …
			case e >= 0x80:
				return "", false
			case r.Grammar:
				out.WriteString(inGrammar(e, inClass))
				check.WriteString(`\` + string(e))
			default:
				both(`\` + string(e))
			}
		case inClass && ch == ']' && i > classStart:
			inClass = false
			both("]")
		case inClass && ch == '[':
			if strings.HasPrefix(pattern[i:], "[:") {
				return "", false // a class of POSIX to some, characters to others
			}
			if r.EscapeBrackets {
				out.WriteByte('\\')
			}
			out.WriteByte('[')
			check.WriteString(`\[`)
		case inClass:
			if i == classStart && ch == ']' {
				return "", false // empty in ECMAScript, a bracket elsewhere
			}
			if i+1 < len(pattern) && pattern[i+1] == ch && strings.IndexByte("&~|-", ch) >= 0 {
				return "", false // operators on sets, to some
			}
			both(pattern[i : i+1])
		case ch == '[':
			inClass = true
			both("[")
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				both("^")
				i++
			}
			classStart = i + 1
		case ch == '(' && i+1 < len(pattern) && pattern[i+1] == '?':
			if !strings.HasPrefix(pattern[i:], "(?:") {
				return "", false // lookaround, named groups, flags
			}
			if check.WriteString("(?:"); r.Grammar { // which has no groups to refer to
				out.WriteString("(")
			} else {
				out.WriteString("(?:")
			}
			depth++
			i += 2
		case r.Grammar && (ch == '^' && i > 0 || ch == '$' && i < len(pattern)-1 || ch == '|' && depth == 0):
			return "", false
		case strings.IndexByte("*+?}", ch) >= 0 && i+1 < len(pattern) && pattern[i+1] == '+':
			return "", false // possessive to some
		default:
			switch ch {
			case '(':
				depth++
			case ')':
				depth--
			}
			both(pattern[i : i+1])
		}
	}
	if inClass {
		return "", false
	}
	if r.Grammar && !(strings.HasPrefix(pattern, "^") && strings.HasSuffix(pattern, "$") && !strings.HasSuffix(pattern, `\$`)) {
		return "", false
	}
	tree, err := syntax.Parse(check.String(), syntax.Perl)
	var se *syntax.Error
	switch {
	case errors.As(err, &se) && (se.Code == syntax.ErrInvalidRepeatSize || se.Code == syntax.ErrLarge):
		// Go's limit of 1000 is its own; {2,1} is wrong everywhere.
		var least, most int
		if n, _ := fmt.Sscanf(se.Expr, "{%d,%d}", &least, &most); n == 2 && most < least || r.MaxRepeat > 0 || r.EscapeBrackets {
			return "", false
		}
	case err != nil:
		return "", false
	case r.MaxRepeat > 0 && repeats(tree) > r.MaxRepeat:
		return "", false
	}
	return out.String(), true
}

func repeats(re *syntax.Regexp) int {
	n := 0
	if re.Op == syntax.OpRepeat {
		n = max(re.Min, re.Max)
	}
	for _, sub := range re.Sub {
		n = max(n, repeats(sub))
	}
	return n
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }
