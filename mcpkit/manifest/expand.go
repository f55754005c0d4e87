package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Variables in string values.
//
// In a manifest: ${NAME}, ${NAME:-default} (the default also where NAME is
// empty) and $$ for a dollar sign; any other "${" is a fault. $NAME is text.
//
// In mcpServers files, as their hosts do: the same two forms and ${env:NAME};
// $$ and forms that are not known stay as they are. ${input:id} asks a person
// elsewhere; here it is a variable that is never set.

// segment is a piece of a value: text, or a variable where name is set.
type segment struct {
	text     string
	name     string
	fallback string
	defaults bool // a default was given, which may be empty
}

func segments(s string, foreign bool) ([]segment, error) {
	var out []segment
	var text strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			text.WriteString(s)
			break
		}
		text.WriteString(s[:i])
		s = s[i:]
		switch {
		case strings.HasPrefix(s, "$$") && !foreign:
			text.WriteByte('$')
			s = s[2:]
			continue
		case !strings.HasPrefix(s, "${"):
			text.WriteByte('$')
			s = s[1:]
			continue
		}
		end := strings.IndexByte(s, '}')
		seg, ok := segment{}, false
		if end > 0 {
			seg, ok = variable(s[2:end], foreign)
		}
		switch {
		case ok:
			out = append(out, segment{text: text.String()}, seg)
			text.Reset()
			s = s[end+1:]
		case foreign:
			text.WriteString("${")
			s = s[2:]
		default:
			return nil, fmt.Errorf("%q is no variable: write ${NAME} or ${NAME:-default}, and $$ for a dollar sign", clip(s))
		}
	}
	return append(out, segment{text: text.String()}), nil
}

// variable reads what stands between the braces.
func variable(s string, foreign bool) (segment, bool) {
	name, fallback, defaults := strings.Cut(s, ":-")
	if foreign {
		name = strings.TrimPrefix(name, "env:")
		if strings.HasPrefix(name, "input:") || name == "workspaceFolder" || name == "userHome" {
			return segment{name: name, fallback: fallback, defaults: defaults}, true
		}
	}
	if !isName(name) || strings.Contains(fallback, "${") {
		return segment{}, false
	}
	return segment{name: name, fallback: fallback, defaults: defaults}, true
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		if !(c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// expander puts variables into strings; its method is a strict.Options.String.
type expander struct {
	lookup  func(string) (string, bool)
	foreign bool
	lenient bool // unset variables are empty and a warning
}

func (e expander) expand(s string) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	parts, err := segments(s, e.foreign)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var unset []string
	for _, p := range parts {
		b.WriteString(p.text)
		if p.name == "" {
			continue
		}
		v, ok := e.lookup(p.name)
		switch {
		case v != "":
			b.WriteString(v)
		case p.defaults:
			b.WriteString(p.fallback)
		case !ok && !slices.Contains(unset, p.name):
			unset = append(unset, p.name)
		}
	}
	if len(unset) == 0 {
		return b.String(), nil
	}
	msg := "the variable " + unset[0] + " is not set"
	if n := len(unset) - 1; n > 0 {
		msg = "the variables " + strings.Join(unset[:n], ", ") + " and " + unset[n] + " are not set"
	}
	if e.lenient {
		return b.String(), strict.Warning(msg)
	}
	return "", fmt.Errorf("%s and %s no default", msg, map[bool]string{true: "has", false: "have"}[len(unset) == 1])
}

// translate rewrites a value of an mcpServers file so that it means the same in
// a manifest; folder is what ${workspaceFolder} stands for.
func translate(s, folder string) (string, error) {
	parts, err := segments(s, true)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strings.ReplaceAll(p.text, "$", "$$"))
		switch {
		case p.name == "":
		case p.name == "workspaceFolder":
			b.WriteString(strings.ReplaceAll(folder, "$", "$$"))
		case p.name == "userHome":
			b.WriteString("${HOME}")
		default:
			name := p.name
			if id, ok := strings.CutPrefix(name, "input:"); ok {
				name = strings.Map(upper, id)
				if !isName(name) {
					name = "INPUT_" + name
				}
			}
			b.WriteString("${" + name)
			if p.defaults {
				b.WriteString(":-" + p.fallback)
			}
			b.WriteString("}")
		}
	}
	return b.String(), nil
}

// upper maps an identifier to the spelling of environment variables.
func upper(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return r - 'a' + 'A'
	case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return r
	}
	return '_'
}

func clip(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
