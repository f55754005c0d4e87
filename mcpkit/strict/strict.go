// Package strict reads YAML, JSON and TOML documents into Go structs and reports
// everything that is wrong with them at once, each fault with its line, its
// column and, for a key that does not exist, the nearest one that does.
//
//	var o struct {
//		Listen string          `json:"listen"`            // required: no omitempty
//		Wait   strict.Duration `json:"wait,omitempty"`    // 10, 1.5 or "250ms"
//	}
//	doc := strict.YAML("platform.yaml", data, strict.Options{})
//	doc.Decode(&o)
//	for _, f := range doc.Faults {
//		fmt.Println(f) // platform.yaml:3:1: lisen: unknown key; did you mean "listen"?
//	}
//
// Keys are the names in json tags, so one set of tags serves reading, the JSON
// Schema and printing. What the document leaves out keeps the value it had in
// the struct: defaults are what the caller fills in beforehand. Keys that begin
// with "x-" are left to the author. Anchors and aliases are followed within a
// budget; merge keys, several documents in a file and files over MaxSize are
// refused. The package does not touch the file system or the environment.
package strict

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	// MaxSize is the largest document that is read, in bytes.
	MaxSize = 1 << 20
	// MaxFaults is how many faults of one document are reported; a last one
	// says that there are more.
	MaxFaults = 100

	maxNodes = 100_000 // visited in one document, aliases followed
	maxDepth = 100     // of nested values
)

// Fault is one thing that is wrong, and where. Line and Column count from 1;
// Line is 0 where the fault is the file itself, such as a missing one.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"` // dotted path, such as mcp.env.PORT
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to write instead
}

// Error is file:line:column: key: message; hint, leaving out what is empty.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	if f.Key != "" {
		b.WriteString(": " + f.Key)
	}
	b.WriteString(": " + f.Message)
	if f.Hint != "" {
		b.WriteString("; " + f.Hint)
	}
	return b.String()
}

// Warning is an error of Options.String that does not spoil the document: the
// value is taken and the sentence is kept in Document.Warnings.
type Warning string

func (w Warning) Error() string { return string(w) }

// Options says how a document is read. The zero value is the strict way.
type Options struct {
	// String is applied to every string value after parsing, so that what it
	// puts in can never become structure. Its error is a fault at the value,
	// or a warning if it is a Warning. Nil leaves strings as they are.
	String func(string) (string, error)
	// Loose is for files that other programs own: unknown keys are warnings,
	// and numbers and booleans are taken for strings as they are written.
	Loose bool
}

// UnknownKey is the warning of a loose document about a key it does not know.
const UnknownKey = "unknown key, ignored"

// Document is a parsed file. Decode fills Faults and Warnings.
type Document struct {
	File     string
	Root     *yaml.Node // nil where the text could not be parsed
	Faults   []*Fault
	Warnings []*Fault
	Count    int // of all faults, also of those over MaxFaults

	opts      Options
	positions map[string]position
	nodes     int
}

type position struct{ line, column int }

// Decode reads the document into the struct that out points to. It does
// nothing where the text could not be parsed. A document without any value, such as
// one of comments alone, leaves the struct as it is; where a key of the struct is
// required, that is a fault.
func (d *Document) Decode(out any) {
	switch {
	case d.Root == nil:
	case d.Root.ShortTag() == "!!null":
		if requires(reflect.TypeOf(out).Elem()) {
			d.FaultNode(d.Root, "", "", "the file is empty")
		}
	default:
		d.DecodeNode(d.Root, "", out)
	}
}

// FaultAt records a fault at the key, or at the nearest enclosing one that is
// in the document.
func (d *Document) FaultAt(key, hint, format string, args ...any) {
	line, column := d.At(key)
	d.fault(&Fault{d.File, line, column, key, fmt.Sprintf(format, args...), hint})
}

// At is the position of the key's value, or of the nearest enclosing key's.
func (d *Document) At(key string) (line, column int) {
	for {
		if p, ok := d.positions[key]; ok {
			return p.line, p.column
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			break
		}
		key = key[:i]
	}
	if d.Root != nil {
		return max(d.Root.Line, 1), max(d.Root.Column, 1)
	}
	return 1, 1
}

// Has reports whether the document holds the key with a value that is not null.
func (d *Document) Has(key string) bool {
	_, ok := d.positions[key]
	return ok
}

// Faulty reports whether a fault was recorded at one of the keys, so that what
// follows from it need not be reported as well.
func (d *Document) Faulty(keys ...string) bool {
	return slices.ContainsFunc(d.Faults, func(f *Fault) bool { return slices.Contains(keys, f.Key) })
}

// Sort orders faults and warnings by position.
func (d *Document) Sort() {
	for _, list := range [][]*Fault{d.Faults, d.Warnings} {
		slices.SortStableFunc(list, func(a, b *Fault) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Message, b.Message))
		})
	}
}

func (d *Document) fault(f *Fault) {
	d.Count++
	switch n := len(d.Faults); {
	case n < MaxFaults:
		d.Faults = append(d.Faults, f)
	case n == MaxFaults:
		d.Faults = append(d.Faults, &Fault{File: d.File, Line: f.Line, Column: f.Column, Message: "too many faults; the rest is not shown"})
	}
}

// FaultNode records a fault at a node of the document.
func (d *Document) FaultNode(n *yaml.Node, key, hint, format string, args ...any) {
	d.fault(&Fault{d.File, max(n.Line, 1), max(n.Column, 1), key, fmt.Sprintf(format, args...), hint})
}

func (d *Document) warnNode(n *yaml.Node, key, format string, args ...any) {
	if len(d.Warnings) < MaxFaults {
		d.Warnings = append(d.Warnings, &Fault{File: d.File, Line: max(n.Line, 1), Column: max(n.Column, 1), Key: key, Message: fmt.Sprintf(format, args...)})
	}
}

// Nearest is the word of known that name was probably meant to be, or "".
func Nearest(name string, known []string) string {
	best, least := "", 1+max(1, min(len(name), 60)/3)
	fold := strings.NewReplacer("-", "_").Replace(strings.ToLower(name))
	for _, k := range known {
		if len(fold) > 2 && strings.HasPrefix(strings.ToLower(k), fold+"_") {
			return k
		}
		if d := Distance(fold, strings.ToLower(k), least); d < least {
			best, least = k, d
		}
	}
	return best
}

// maxSpelled is the length, in bytes, up to which words are compared.
const maxSpelled = 200

// Distance is how many bytes must be inserted, deleted, replaced or swapped with
// their neighbour to make b of a. It is limit+1 where a glance at the lengths shows
// that there are more than limit, and where a word has more than 200 bytes.
func Distance(a, b string, limit int) int {
	if len(a) > maxSpelled || len(b) > maxSpelled || len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var rows [3][maxSpelled + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
