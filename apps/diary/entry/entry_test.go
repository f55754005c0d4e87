package entry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

var ignoreInner = cmpopts.IgnoreFields(Entry{}, "Mended")

func TestAnEntryComesBackToTheByte(t *testing.T) {
	at := time.Date(2026, 11, 29, 21, 53, 21, 0, time.FixedZone("", 8*3600))
	for _, content := range []string{
		"plain", "ends with a line\n", "\n\nbegins with lines", "---\nlooks: like a top\n---\n\nbut is none", "---\n---\n",
		"crlf\r\nlines\r\n", "\uFEFFbom", "null \x00 byte", "今天种了郁金香。🌷", "tab\tand\u2028separator", " blanks around \n ",
	} {
		for _, e := range []Entry{
			{Date: "2026-11-29", Content: content, Created: at, Updated: at.Add(time.Hour), Mood: "calm: very", Tags: []string{"a, b", "家", "- x", "#1", "yes"}},
			{Date: "2026-11-29", Content: content, Mood: "---"},
			{Date: "2026-11-29", Content: content},
			{Date: "2026-11-29", Content: content, Others: map[string]any{"weather": "sunny", "n": 3}},
		} {
			file, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, *Decode("2026-11-29", file), ignoreInner, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%q (-wrote +read):\n%s\n%s", content, diff, file)
			}
		}
	}
}

func TestAFileSomebodyElseWroteIsAnEntry(t *testing.T) {
	for file, want := range map[string]Entry{
		"":                                       {},
		"just text\n":                            {Content: "just text"},
		"# Title\n\ntext":                        {Content: "# Title\n\ntext"},
		"\uFEFFwith a bom\n":                     {Content: "with a bom"},
		"---\nmood: 5\nweather: fine\n---\ntext": {Content: "text", Mood: "5", Others: map[string]any{"weather": "fine"}},
		"---\ntags: {not: a list}\n---\ntext":    {Content: "---\ntags: {not: a list}\n---\ntext"},
		"---\nnot yaml: : :\n---\ntext":          {Content: "---\nnot yaml: : :\n---\ntext"},
		"---\na rule, and no end":                {Content: "---\na rule, and no end"},
		"---\nplain words\n---\ntext":            {Content: "---\nplain words\n---\ntext"},
		"---\n" + strings.Repeat("#", maxHeader+1) + "\n---\ntext\n": {Content: "---\n" + strings.Repeat("#", maxHeader+1) + "\n---\ntext"},
		"bad \xff byte": {Content: "bad \uFFFD byte"},
	} {
		want.Date = "2026-11-29"
		if diff := cmp.Diff(want, *Decode("2026-11-29", []byte(file)), ignoreInner, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", file, diff)
		}
	}
}

func TestOnlyARealDateIsADate(t *testing.T) {
	for _, date := range []string{"2026-11-29", "2024-02-29", "0001-01-01", "9999-12-31"} {
		if err := CheckDate(date); err != nil {
			t.Error(err)
		}
	}
	for _, date := range []string{
		"", "2026-02-29", "2026-13-01", "2026-1-2", "26-01-02", "2026-11-29 ", "2026-11-29\n", "2026/11/29", "today",
		"../../etc/passwd", "2026-11-29/../x", "2026-11-29\x00", "..", "２０２６-11-29", "2026-11-29.md", "+2026-11-29", strings.Repeat("9", 100_000),
	} {
		if err := CheckDate(date); err == nil || fault.From(err).Code != "DIARY_INVALID_DATE" || len(err.Error()) > 300 {
			t.Errorf("%.40q: got %v", date, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("---\nmood: calm\ntags: [a, b]\n---\n\ntext\n"))
	f.Add([]byte("---\ncreated: 2026-11-29T21:53:21+08:00\nx: &a [*a]\n---\n"))
	f.Add([]byte("plain \xff"))
	f.Fuzz(func(t *testing.T, file []byte) {
		e := Decode("2026-11-29", file)
		again, err := e.Encode()
		if err != nil {
			t.Skip() // a value that YAML reads and does not write
		}
		if got := Decode("2026-11-29", again); got.Content != e.Content || got.Mood != e.Mood || !cmp.Equal(got.Tags, e.Tags, cmpopts.EquateEmpty()) {
			t.Fatalf("%q became %+v, and written and read again %+v", file, e, got)
		}
	})
}
