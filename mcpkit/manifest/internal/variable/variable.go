// Package variable finds the variables in the values of manifests and of other
// hosts' files, and puts what they stand for in their places. It reads no
// environment: the caller brings the function that finds a value.
//
// In a manifest: ${NAME}, ${NAME:-default} (the default also where NAME is
// empty) and $$ for a dollar sign; any other "${" is a fault. $NAME is text.
//
// In files of other hosts, as these do: the same two forms and ${env:NAME};
// ${{ secrets.NAME }} and ${{ inputs.NAME }}; and where a [Dialect] says so $NAME or
// {env:NAME}. $$ and forms that are not known stay as they are. ${input:id} asks a
// person elsewhere; here it is a variable that is set only where the file has a
// default for it.
package variable

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
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

// Dialect says which forms are variables. The zero value is that of manifests.
type Dialect struct {
	Foreign bool // of another host's file: what is no variable is text
	Dollar  bool // $NAME is one
	Braces  bool // {env:NAME} is one
	// Inputs are the defaults of ${input:id}, by id.
	Inputs map[string]string
}

// Segments takes a value apart. In a foreign dialect nothing is a fault.
func (d Dialect) Segments(s string) ([]Segment, error) {
	var out []Segment
	var text strings.Builder
	for s != "" {
		seg, length := d.next(s)
		switch {
		case length > 0:
			out = append(out, Segment{Text: text.String()}, seg)
			text.Reset()
			s = s[length:]
		case strings.HasPrefix(s, "$$") && !d.Foreign:
			text.WriteByte('$')
			s = s[2:]
		case strings.HasPrefix(s, "${") && !d.Foreign:
			return nil, fmt.Errorf("%q is no variable: write ${NAME} or ${NAME:-default}, and $$ for a dollar sign", strict.Clip(s, 40))
		default:
			end := strings.IndexAny(s[1:], "${") + 1
			if end == 0 {
				end = len(s)
			}
			text.WriteString(s[:end])
			s = s[end:]
		}
	}
	return append(out, Segment{Text: text.String()}), nil
}

// next is the variable at the beginning of s, and its length in s; 0 where there
// is none.
func (d Dialect) next(s string) (Segment, int) {
	if inner, ok := strings.CutPrefix(s, "${{"); ok && d.Foreign {
		inner, _, closed := strings.Cut(inner, "}}")
		scope, name, dotted := strings.Cut(strings.TrimSpace(inner), ".")
		if closed && dotted && (scope == "secrets" || scope == "inputs" || scope == "env") && isName(name) {
			return Segment{Name: name}, len(inner) + len("${{}}")
		}
		return Segment{}, 0
	}
	if inner, ok := strings.CutPrefix(s, "${"); ok {
		inner, _, closed := strings.Cut(inner, "}")
		if seg, ok := d.variable(inner); ok && closed {
			return seg, len(inner) + len("${}")
		}
		return Segment{}, 0
	}
	if inner, ok := strings.CutPrefix(s, "{env:"); ok && d.Braces {
		if name, _, closed := strings.Cut(inner, "}"); closed && isName(name) {
			return Segment{Name: name}, len(name) + len("{env:}")
		}
		return Segment{}, 0
	}
	if inner, ok := strings.CutPrefix(s, "$"); ok && d.Dollar {
		if end := strings.IndexFunc(inner, func(r rune) bool { return !isName("x" + string(r)) }); end >= 0 {
			inner = inner[:end]
		}
		if isName(inner) {
			return Segment{Name: inner}, len(inner) + 1
		}
	}
	return Segment{}, 0
}

// variable reads what stands between the braces.
func (d Dialect) variable(s string) (Segment, bool) {
	name, fallback, defaults := strings.Cut(s, ":-")
	if d.Foreign {
		name = strings.TrimPrefix(name, "env:")
		if id, ok := strings.CutPrefix(name, "input:"); ok && !defaults {
			fallback, defaults = d.Inputs[id]
		}
		if strings.HasPrefix(name, "input:") || slices.Contains(places, name) {
			return Segment{Name: name, Fallback: fallback, Defaults: defaults}, true
		}
	}
	if !isName(name) || strings.Contains(fallback, "${") {
		return Segment{}, false
	}
	return Segment{Name: name, Fallback: fallback, Defaults: defaults}, true
}

// places are the variables by which editors name folders.
var places = []string{"workspaceFolder", "workspaceRoot", "workspaceFolderBasename", "userHome", "pathSeparator", "/"}

// Place is what one of the editors' variables stands for in a file of the project
// in folder: a text, or the name of a variable of the environment. It is not ok for
// other names.
func Place(name, folder string) (text, env string, ok bool) {
	switch name {
	case "workspaceFolder", "workspaceRoot":
		return folder, "", true
	case "workspaceFolderBasename":
		return filepath.Base(folder), "", true
	case "pathSeparator", "/":
		return "/", "", true
	case "userHome":
		return "", "HOME", true
	}
	return "", "", false
}

// Shell are the names in s that a shell would put in and nothing else does: $NAME in
// capitals, where the dialect does not take it for a variable, and %NAME% of Windows.
func (d Dialect) Shell(s string) (names []string) {
	if !d.Dollar {
		for _, m := range dollarName.FindAllStringSubmatch(s, -1) {
			names = append(names, "$"+m[1])
		}
	}
	return append(names, percentName.FindAllString(s, -1)...)
}

var (
	dollarName  = regexp.MustCompile(`\$([A-Z][A-Z0-9_]{2,})`)
	percentName = regexp.MustCompile(`%[A-Za-z][A-Za-z0-9_]{2,}%`)
)

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
	Dialect Dialect
	Lenient bool // unset variables are empty and a warning
}

// Expand is s with its variables replaced, fit for strict.Options.String.
func (e Expander) Expand(s string) (string, error) {
	if !strings.ContainsAny(s, "${") {
		return s, nil
	}
	parts, err := e.Dialect.Segments(s)
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

// Translate rewrites a value of another host's file so that it means the same in
// a manifest; folder is the project's.
func (d Dialect) Translate(s, folder string) (string, error) {
	parts, err := d.Segments(s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	literal := func(s string) { b.WriteString(strings.ReplaceAll(s, "$", "$$")) }
	for _, p := range parts {
		literal(p.Text)
		if p.Name == "" {
			continue
		}
		text, env, ok := Place(p.Name, folder)
		if ok && env == "" {
			literal(text)
			continue
		}
		name := cmp.Or(env, p.Name)
		if id, ok := strings.CutPrefix(name, "input:"); ok {
			name = strings.Map(upper, id)
			if !isName(name) {
				name = "INPUT_" + name
			}
		}
		b.WriteString("${" + name)
		if p.Defaults && !strings.ContainsAny(p.Fallback, "}") {
			b.WriteString(":-" + p.Fallback)
		}
		b.WriteString("}")
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
