// Package variable finds the variables in the values of manifests and of other
// hosts' mcpServers files, and puts what they stand for in their places. It
// reads no environment: the caller brings the function that finds a value.
//
// In a manifest: ${NAME}, ${NAME:-default} (the default also where NAME is
// empty) and $$ for a dollar sign; any other "${" is a fault. $NAME is text.
//
// In mcpServers files, as their hosts do: the same two forms and ${env:NAME};
// $$ and forms that are not known stay as they are. ${input:id} asks a person
// elsewhere; here it is a variable that is never set.
package variable

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Segment is a piece of a value: text, or a variable where Name is set.
type Segment struct {
	Text     string
	Name     string
	Fallback string
	Defaults bool // a default was given, which may be empty
}

// Segments takes a value apart; foreign says that it is of an mcpServers file,
// in which nothing is a fault.
func Segments(s string, foreign bool) ([]Segment, error) {
	var out []Segment
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
		seg, ok := Segment{}, false
		if end > 0 {
			seg, ok = variable(s[2:end], foreign)
		}
		switch {
		case ok:
			out = append(out, Segment{Text: text.String()}, seg)
			text.Reset()
			s = s[end+1:]
		case foreign:
			text.WriteString("${")
			s = s[2:]
		default:
			return nil, fmt.Errorf("%q is no variable: write ${NAME} or ${NAME:-default}, and $$ for a dollar sign", strict.Clip(s, 40))
		}
	}
	return append(out, Segment{Text: text.String()}), nil
}

// variable reads what stands between the braces.
func variable(s string, foreign bool) (Segment, bool) {
	name, fallback, defaults := strings.Cut(s, ":-")
	if foreign {
		name = strings.TrimPrefix(name, "env:")
		if strings.HasPrefix(name, "input:") || name == "workspaceFolder" || name == "userHome" {
			return Segment{Name: name, Fallback: fallback, Defaults: defaults}, true
		}
	}
	if !isName(name) || strings.Contains(fallback, "${") {
		return Segment{}, false
	}
	return Segment{Name: name, Fallback: fallback, Defaults: defaults}, true
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		if !(c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// Lookup finds the value of a variable, and whether it is set.
type Lookup = func(name string) (value string, ok bool)

// With is lookup, which may be nil, and one variable more.
func With(lookup Lookup, name, value string) Lookup {
	return func(n string) (string, bool) {
		if n == name {
			return value, true
		}
		if lookup == nil {
			return "", false
		}
		return lookup(n)
	}
}

// Expander puts variables into strings.
type Expander struct {
	Lookup  Lookup
	Foreign bool // the values are of an mcpServers file
	Lenient bool // unset variables are empty and a warning
}

// Expand is s with its variables replaced, fit for strict.Options.String.
func (e Expander) Expand(s string) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	parts, err := Segments(s, e.Foreign)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var unset []string
	for _, p := range parts {
		b.WriteString(p.Text)
		if p.Name == "" {
			continue
		}
		v, ok := e.Lookup(p.Name)
		switch {
		case v != "":
			b.WriteString(v)
		case p.Defaults:
			b.WriteString(p.Fallback)
		case !ok && !slices.Contains(unset, p.Name):
			unset = append(unset, p.Name)
		}
	}
	if len(unset) == 0 {
		return b.String(), nil
	}
	msg := "the variable " + unset[0] + " is not set"
	if n := len(unset) - 1; n > 0 {
		msg = "the variables " + strings.Join(unset[:n], ", ") + " and " + unset[n] + " are not set"
	}
	if e.Lenient {
		return b.String(), strict.Warning(msg)
	}
	return "", fmt.Errorf("%s and %s no default", msg, map[bool]string{true: "has", false: "have"}[len(unset) == 1])
}

// Translate rewrites a value of an mcpServers file so that it means the same in
// a manifest; folder is what ${workspaceFolder} stands for.
func Translate(s, folder string) (string, error) {
	parts, err := Segments(s, true)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strings.ReplaceAll(p.Text, "$", "$$"))
		switch {
		case p.Name == "":
		case p.Name == "workspaceFolder":
			b.WriteString(strings.ReplaceAll(folder, "$", "$$"))
		case p.Name == "userHome":
			b.WriteString("${HOME}")
		default:
			name := p.Name
			if id, ok := strings.CutPrefix(name, "input:"); ok {
				name = strings.Map(upper, id)
				if !isName(name) {
					name = "INPUT_" + name
				}
			}
			b.WriteString("${" + name)
			if p.Defaults {
				b.WriteString(":-" + p.Fallback)
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
