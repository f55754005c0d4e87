// Package console is how the platform's verbs speak to people: aligned tables,
// quiet colours on a terminal that wants them, ages and sizes at a glance, and
// nothing in the text of others that could steer a terminal.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"golang.org/x/text/width"

	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// Console writes for people.
type Console struct {
	w     io.Writer
	err   error // the first that writing met
	color bool
	width int // columns; 0 where lines are not cut
}

// Write passes on to the writer and remembers when that failed.
func (c *Console) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}

// Err is why not everything was written, or nil.
func (c *Console) Err() error { return c.err }

// New makes a Console for w. Colours are used only on a terminal, and never
// when NO_COLOR is set.
func New(w io.Writer) *Console {
	c := &Console{w: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return c
	}
	c.width = 80 // where it does not know its size, as over a serial line or in a fresh pty
	if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 {
		c.width = cols
	}
	c.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return c
}

// Terminal reports whether a person is likely watching.
func (c *Console) Terminal() bool { return c.width > 0 }

// Style is a colour.
type Style string

const (
	Plain  Style = ""
	Dim    Style = "2"
	Bold   Style = "1"
	Green  Style = "32"
	Yellow Style = "33"
	Red    Style = "31"
	Cyan   Style = "36"
)

// Paint colours s where colours are wanted.
func (c *Console) Paint(style Style, s string) string {
	if !c.color || style == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(style) + "m" + s + "\x1b[0m"
}

// Printf writes a formatted text.
func (c *Console) Printf(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// maxColumn is the widest that a column of a table gets, but for the last; minColumn is
// the least to which a narrow terminal shortens it, and minLast what is left for the last.
const (
	maxColumn = 64
	minColumn = 6
	minLast   = 12
)

// Table writes rows in aligned columns. On a terminal cells are cut to the widest
// that a column gets, and the last to what fits. Elsewhere nothing is cut: a longer
// cell moves the rest of its own row.
func (c *Console) Table(header []string, rows [][]Cell) {
	if len(header) > 0 {
		top := make([]Cell, len(header))
		for i, h := range header {
			top[i] = Cell{h, Dim}
		}
		rows = append([][]Cell{top}, rows...)
	}
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i].Text = Safe(row[i].Text)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				if c.width > 0 {
					row[i].Text = Cut(row[i].Text, maxColumn)
				}
				widths[i] = max(widths[i], min(Width(row[i].Text), maxColumn))
			}
		}
	}
	c.shrink(widths, rows)
	for _, row := range rows {
		var b strings.Builder
		used := 0
		for i, cell := range row {
			text := cell.Text
			if i == len(row)-1 {
				b.WriteString(c.Paint(cell.Style, c.Fit(text, used+1)))
				break
			}
			b.WriteString(c.Paint(cell.Style, text))
			b.WriteString(strings.Repeat(" ", max(widths[i]-Width(text), 0)+2))
			used += widths[i] + 2
		}
		fmt.Fprintln(c, strings.TrimRight(b.String(), " "))
	}
}

// shrink makes columns narrower, the widest first, until the terminal has room for all
// but the last and for some of that, and cuts their cells.
func (c *Console) shrink(widths []int, rows [][]Cell) {
	if c.width == 0 || len(widths) == 0 {
		return
	}
	columns := widths[:len(widths)-1]
	total := 0
	for _, w := range columns {
		total += w + 2
	}
	for ; total > c.width-minLast; total-- {
		widest := 0
		for i, w := range columns {
			if w > columns[widest] {
				widest = i
			}
		}
		if columns[widest] <= minColumn {
			break
		}
		columns[widest]--
	}
	for _, row := range rows {
		for i := range min(len(row)-1, len(columns)) {
			row[i].Text = Cut(row[i].Text, columns[i])
		}
	}
}

// Thousands is a number with commas.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Fit cuts s to what a line still holds after used columns; where lines are not
// cut it returns s.
func (c *Console) Fit(s string, used int) string {
	if c.width == 0 {
		return s
	}
	return Cut(s, max(c.width-used, 10))
}

// Width is how many columns s takes on a terminal; wide East Asian characters
// take two.
func Width(s string) int {
	n := 0
	for _, r := range s {
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// Cut shortens s to n columns.
func Cut(s string, n int) string {
	if Width(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		used += Width(string(r))
		if used > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// Safe makes one line of s that cannot steer a terminal: control characters,
// escape sequences, and invisible or direction-changing characters are shown.
func Safe(s string) string { return redact.Show(lines.Replace(s)) }

var lines = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// Age is a duration at a glance: 12s, 5m, 3h, 2d.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "in " + Age(-d)
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Clock is a time of today, or a date with time for other days, in local time.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}

// Millis is a duration in milliseconds at a glance.
func Millis(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return Age(time.Duration(ms) * time.Millisecond)
}

// Bytes is a size at a glance.
func Bytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}
