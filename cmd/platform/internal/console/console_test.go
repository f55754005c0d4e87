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

func TestATableFitsANarrowTerminal(t *testing.T) {
	rows := [][]Cell{{{Text: "com.example.search"}, {Text: "ready"}, {Text: "mcp__com_example_search__get_sum"}, {Text: "Adds two numbers and tells the sum of them."}}}
	var out bytes.Buffer
	(&Console{w: &out, width: 60}).Table([]string{"SERVER", "STATE", "NAME", "ABOUT"}, rows)
	want := "SERVER              STATE  NAME                 ABOUT\n" +
		"com.example.search  ready  mcp__com_example_s…  Adds two n…\n"
	if out.String() != want {
		t.Errorf("written is\n%swant\n%s", out.String(), want)
	}
	for line := range strings.Lines(out.String()) {
		if Width(strings.TrimSuffix(line, "\n")) > 60 {
			t.Errorf("too wide: %q", line)
		}
	}
}

func TestThousandsHaveCommas(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -100: "-100", -1000: "-1,000"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
