package catalog

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func tool(server, alias, name string) *Tool {
	id := ID{server, name}
	return &Tool{Name: id.Canonical(), Alias: alias, Source: Source{"mcp", server, name}}
}

func TestExportNamesAreAsTheRuleSays(t *testing.T) {
	for _, c := range []struct{ alias, server, tool, want string }{
		{"weather", "im.polaris.weather", "im.polaris.weather.get_weather", "mcp__weather__get_weather"},
		{"", "github", "create_issue", "mcp__github__create_issue"},
		{"gh", "github", "create_issue", "mcp__gh__create_issue"},
		{"weather", "im.polaris.weather", "get_weather", "mcp__weather__get_weather_"}, // not the name of the prefixed tool
		{"", "context7", "query-docs", "mcp__context7__query-docs"},
		{"", "workspace", "calendar.createEvent", "mcp__workspace__calendar_createEvent_"},
		{"", "a__b", "c", "mcp__a_b__c_"},
		{"", "fs", "fs.read", "mcp__fs__read_"}, // not the name of fs's tool "read"
		{"", "x", "y_0123abcd", "mcp__x__y_0123abcd_"},
		{"", "数据库", "query", "mcp_____query_"},
	} {
		got := ExportName("mcp", c.alias, ID{c.server, c.tool})
		if hashed := strings.HasSuffix(c.want, "_"); !hashed && got != c.want ||
			hashed && !(len(got) == len(c.want)+8 && strings.HasPrefix(got, c.want)) {
			t.Errorf("ExportName(%q, %q) = %q, want %q", c.server, c.tool, got, c.want)
		}
	}
}

func TestALongNameKeepsTheToolAndStaysDistinct(t *testing.T) {
	server := strings.Repeat("organisation-", 6)
	a := ExportName("mcp", "", ID{server + "a", "get"})
	b := ExportName("mcp", "", ID{server + "b", "get"})
	if a == b || len(a) > MaxExportName || !strings.Contains(a, "__get_") {
		t.Errorf("got %q and %q", a, b)
	}
}

func FuzzExportName(f *testing.F) {
	f.Add("mcp", "", "a", "b", "a", "c")
	f.Add("mcp", "w", "im.w", "im.w.get", "im.w", "get")
	f.Add("", "", "a_", "_b", "a", "__b")
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	f.Fuzz(func(t *testing.T, prefix, alias, s1, t1, s2, t2 string) {
		if len(prefix) > 8 { // a prefix is the operator's own choice and is checked to be short
			return
		}
		a, b := ID{s1, t1}, ID{s2, t2}
		na, nb := ExportName(prefix, "", a), ExportName(prefix, "", b)
		if !valid.MatchString(na) || !valid.MatchString(nb) {
			t.Fatalf("%q or %q is no function name", na, nb)
		}
		if a != b && na == nb {
			t.Fatalf("%q and %q are both %q", a, b, na)
		}
		if aliased := ExportName(prefix, alias, a); !valid.MatchString(aliased) {
			t.Fatalf("%q is no function name", aliased)
		}
	})
}

func TestResolveTakesEveryFullFormAndNothingElse(t *testing.T) {
	w := tool("im.polaris.weather", "weather", "im.polaris.weather.get_weather")
	r1, r2 := tool("fs", "", "read"), tool("fs-v2", "", "read")
	table := NewTable("mcp", []*Tool{w, r1, r2})
	for name, want := range map[string]*Tool{
		"im.polaris.weather.get_weather":                          w,
		"mcp.im.polaris.weather.get_weather":                      w,
		"mcp__im.polaris.weather__get_weather":                    w,
		"mcp__im.polaris.weather__im.polaris.weather.get_weather": w,
		"mcp__weather__get_weather":                               w,
		"weather.get_weather":                                     w,
		"fs.read":                                                 r1,
		"mcp__fs-v2__read":                                        r2,
	} {
		if got, err := table.Resolve(name); err != nil || got != want {
			t.Errorf("Resolve(%q) = %v, %v", name, got, err)
		}
	}
	var fe *fault.Error
	if _, err := table.Resolve("read"); !errors.As(err, &fe) || fe.Code != fault.AmbiguousCall ||
		!slices.Equal(fe.Candidates, []string{"mcp__fs-v2__read", "mcp__fs__read"}) {
		t.Errorf("a name of two tools: %v", err)
	}
	if _, err := table.Resolve("get_weather"); !errors.As(err, &fe) || fe.Code != fault.AmbiguousCall {
		t.Errorf("a bare name of one tool must not be guessed: %v", err)
	}
	if _, err := table.Resolve("mcp__weather__get_wether"); !errors.As(err, &fe) || fe.Code != fault.ToolNotFound ||
		!slices.Contains(fe.Candidates, "mcp__weather__get_weather") {
		t.Errorf("a typing error: %v", err)
	}
}

func TestTheNearestNameIsSuggestedFirst(t *testing.T) {
	table := NewTable("mcp", []*Tool{
		tool("everything", "", "gzip-file"), tool("files", "", "create_file"), tool("files", "", "read_text_file"),
		tool("im.polaris.weather", "weather", "im.polaris.weather.get_weather"), tool("a", "", "profile"),
	})
	for name, want := range map[string]string{
		"files.read_text_fil":           "mcp__files__read_text_file",
		"mcp__files__read_txt_file":     "mcp__files__read_text_file",
		"wether.get_weather":            "mcp__weather__get_weather",
		"im.polaris.weather.get_wether": "mcp__weather__get_weather",
		"other.create_file":             "mcp__files__create_file",
	} {
		var fe *fault.Error
		if _, err := table.Resolve(name); !errors.As(err, &fe) || len(fe.Candidates) == 0 || fe.Candidates[0] != want {
			t.Errorf("for %q %v is suggested first, want %s", name, fe.Candidates, want)
		}
	}
	var fe *fault.Error
	if _, err := table.Resolve("b.x"); !errors.As(err, &fe) || fe.Candidates != nil {
		t.Errorf("for a name like no other %v is suggested", fe.Candidates)
	}
}

func TestAFormThatTwoToolsShareIsAmbiguous(t *testing.T) {
	a, b := tool("a", "", "b.c"), tool("a.b", "", "c")
	table := NewTable("mcp", []*Tool{a, b})
	var fe *fault.Error
	if _, err := table.Resolve("a.b.c"); !errors.As(err, &fe) || fe.Code != fault.AmbiguousCall || len(fe.Candidates) != 2 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []*Tool{a, b} {
		if got, err := table.Resolve(table.ExportName(want.ID())); err != nil || got != want {
			t.Errorf("the exported name of %v leads to %v, %v", want.ID(), got, err)
		}
	}
}
