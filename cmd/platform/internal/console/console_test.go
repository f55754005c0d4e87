package console

import (
	"bytes"
	"strings"
	"testing"
)

func TestOneLongCellDoesNotWidenATable(t *testing.T) {
	long := strings.Repeat("n", 200)
	rows := func() [][]Cell {
		return [][]Cell{{{Text: "short"}, {Text: "low"}, {Text: "a tool"}}, {{Text: long}, {Text: "high"}, {Text: "another"}}}
	}
	var out bytes.Buffer
	(&Console{w: &out}).Table([]string{"NAME", "RISK", "ABOUT"}, rows())
	pad := func(s string, n int) string { return s + strings.Repeat(" ", n-len(s)) }
	want := pad("NAME", maxColumn+2) + "RISK  ABOUT\n" + pad("short", maxColumn+2) + "low   a tool\n" + long + "  high  another\n"
	if out.String() != want {
		t.Errorf("elsewhere:\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	(&Console{w: &out, width: 100}).Table([]string{"NAME", "RISK", "ABOUT"}, rows())
	want = pad("NAME", maxColumn+2) + "RISK  ABOUT\n" + pad("short", maxColumn+2) + "low   a tool\n" + long[:maxColumn-1] + "…  high  another\n"
	if out.String() != want {
		t.Errorf("on a terminal:\n%s\nwant\n%s", out.String(), want)
	}
}

func TestNothingInATableSteersTheTerminal(t *testing.T) {
	var out bytes.Buffer
	(&Console{w: &out, width: 80}).Table(nil, [][]Cell{{{Text: "a\x1b[2J\nb"}, {Text: "\u202ec\r"}}})
	if s := strings.TrimSuffix(out.String(), "\n"); strings.ContainsAny(s, "\x1b\n\r\u202e") {
		t.Errorf("written is %q", s)
	}
}
