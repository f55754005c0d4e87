package catalog

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

var valid = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func TestAToolAloneHasANameWithoutAHash(t *testing.T) {
	for _, c := range []struct{ alias, server, tool, want, former string }{
		{"weather", "im.polaris.weather", "im.polaris.weather.get_weather", "mcp__weather__get_weather", "mcp__weather__get_weather"},
		{"", "github", "create_issue", "mcp__github__create_issue", "mcp__github__create_issue"},
		{"gh", "github", "create_issue", "mcp__gh__create_issue", "mcp__gh__create_issue"},
		{"", "com.example.search", "get-sum", "mcp__com_example_search__get-sum", "mcp__com_example_search__get-sum_9234c2e4"},
		{"weather", "im.polaris.weather", "get_weather", "mcp__weather__get_weather", "mcp__weather__get_weather_0f587c42"},
		{"", "context7", "query-docs", "mcp__context7__query-docs", "mcp__context7__query-docs"},
		{"", "workspace", "calendar.createEvent", "mcp__workspace__calendar_createEvent", "mcp__workspace__calendar_createEvent_2fb30085"},
		{"", "com.example", "c", "mcp__com_example__c", "mcp__com_example__c_"},
		{"", "io.github.someone", "c", "mcp__io_github_someone__c", "mcp__io_github_someone__c_"},
		{"", "my_server", "c", "mcp__my_server__c", "mcp__my_server__c"},
		{"", "dev_tools", "c", "mcp__dev_tools__c", "mcp__dev_tools__c"},
		{"", "fs", "fs.read", "mcp__fs__read", "mcp__fs__read_"},
		{"", "x", "y_0123abcd", "mcp__x__y_0123abcd", "mcp__x__y_0123abcd_"},
	} {
		id := ID{c.server, c.tool}
		table := NewTable("mcp", []*Tool{tool(c.server, c.alias, c.tool)})
		if got := table.ExportName(id); got != c.want {
			t.Errorf("%v is exported as %q, want %q", id, got, c.want)
		}
		former := formerName("mcp", c.alias, id)
		if !strings.HasPrefix(former, c.former) {
			t.Errorf("%v was exported as %q, want %q", id, former, c.former)
		}
		got, err := table.Resolve(former)
		if err != nil || got.ID() != id {
			t.Errorf("the former name %q means %v, %v", former, got, err)
		}
		now, renamed := table.Renamed(former)
		if renamed != (former != c.want) || renamed && now != c.want {
			t.Errorf("the former name %q is said to be %q, %v", former, now, renamed)
		}
	}
}

func TestToolsWithAClaimToOneNameHaveAHashEachAndTheNameIsAmbiguous(t *testing.T) {
	for why, c := range map[string]struct {
		plain string
		tools []*Tool
	}{
		"both spellings":         {"mcp__weather__get", []*Tool{tool("im.polaris.weather", "weather", "get"), tool("im.polaris.weather", "weather", "im.polaris.weather.get")}},
		"a dot and its stand-in": {"mcp__fs__file_read", []*Tool{tool("fs", "", "file.read"), tool("fs", "", "file_read")}},
		"two servers":            {"mcp__files__get", []*Tool{tool("files", "", "get"), tool("Files", "", "get")}},
		"an alias and a server":  {"mcp__files__get", []*Tool{tool("com.example.files", "files", "get"), tool("files", "", "get")}},
		"two underscores":        {"mcp__fs__a_b", []*Tool{tool("fs", "", "a__b"), tool("fs", "", "a_b")}},
		"letters of two scripts": {"mcp__fs__d_l", []*Tool{tool("fs", "", "d\u0435l"), tool("fs", "", "d\u00e9l")}},
	} {
		table := NewTable("mcp", c.tools)
		for _, x := range c.tools {
			name := table.ExportName(x.ID())
			if !strings.HasPrefix(strings.ToLower(name), c.plain+"_") || len(name) != len(c.plain)+17 {
				t.Errorf("%s: %v is exported as %q", why, x.ID(), name)
			}
			if got, err := table.Resolve(name); err != nil || got != x {
				t.Errorf("%s: %q means %v, %v", why, name, got, err)
			}
		}
		if why == "two servers" { // whose exact spelling leaves no doubt
			continue
		}
		var fe *fault.Error
		if _, err := table.Resolve(c.plain); !errors.As(err, &fe) || fe.Code != fault.AmbiguousCall || len(fe.Candidates) != 2 {
			t.Errorf("%s: %q is not ambiguous: %v", why, c.plain, err)
		}
	}
}

// The server that is not named as most would write its label has the hash, alone too.
func TestNamesOfAServerDependOnNoOtherServer(t *testing.T) {
	for _, c := range []struct{ plain, hashed string }{
		{"com.example.search", "com_example_search"}, {"com.example.search", "com.example_search"}, {"com.example.search", "com_example.search"},
		{"foo_bar", "foo.bar"}, {"my_own_server", "my.own.server"}, {"im.polaris", "im_polaris"}, {"a_b", "a__b"}, {"a-b", "数据库"},
	} {
		a, b := tool(c.plain, "", "get"), tool(c.hashed, "", "get")
		both := NewTable("mcp", []*Tool{a, b})
		for _, x := range []*Tool{a, b} {
			if alone := NewTable("mcp", []*Tool{x}).ExportName(x.ID()); alone != both.ExportName(x.ID()) {
				t.Errorf("%v is %q alone and %q beside the other", x.ID(), alone, both.ExportName(x.ID()))
			}
		}
		if name := both.ExportName(a.ID()); !strings.HasSuffix(name, "__get") {
			t.Errorf("%v is %q", a.ID(), name)
		}
		if name := both.ExportName(b.ID()); !regexp.MustCompile(`__get_[0-9a-f]{16}$`).MatchString(name) {
			t.Errorf("%v is %q", b.ID(), name)
		}
	}
}

// A server chooses the names of its tools, and none of them costs another server's
// tool its name.
func TestAServerCannotContestTheNamesOfAnother(t *testing.T) {
	victim := tool("x", "", "y")
	for _, server := range []string{"mcp", "a", "x-", "X-"} {
		for _, name := range []string{"x__y", "x___y", "_x__y", "x.y", "mcp__x__y", "mcp.x.y", "_y", "__y", "x__x.y"} {
			table := NewTable("mcp", []*Tool{victim, tool(server, "", name)})
			if got := table.ExportName(victim.ID()); got != "mcp__x__y" {
				t.Errorf("beside %q of %q the name is %q", name, server, got)
			}
			if got, err := table.Resolve("mcp__x__y"); err != nil || got != victim {
				t.Errorf("beside %q of %q the name means %v, %v", name, server, got, err)
			}
		}
	}
}

func TestNamesOfOneServerDifferNotOnlyByCase(t *testing.T) {
	a, b := tool("fs", "", "Read"), tool("fs", "", "read")
	table := NewTable("mcp", []*Tool{a, b})
	if x, y := table.ExportName(a.ID()), table.ExportName(b.ID()); strings.EqualFold(x, y) || x == "mcp__fs__Read" || y == "mcp__fs__read" {
		t.Errorf("exported as %q and %q", x, y)
	}
	if got, err := table.Resolve("mcp__fs__read"); err != nil || got != b {
		t.Errorf("the exact spelling of one of them means %v, %v", got, err)
	}
}

func TestAToolThatAppearsLaterNeverTakesANameThatMeantAnother(t *testing.T) {
	first := tool("com.example.search", "", "get-sum")
	before := NewTable("mcp", []*Tool{first})
	for _, later := range []*Tool{
		tool("com.example.search", "", "com.example.search.get-sum"),
		tool("com.example.search", "", "get-sum_9234c2e4"), // the former name of the first
		tool("com.example.search", "", "GET-SUM"),
		tool("com.example.search", "", strings.TrimPrefix(hashedName("mcp", "", first.ID()), "mcp__com_example_search__")),
		tool("com_example_search", "", "get-sum"),
		tool("other", "com_example_search", "get-sum"),
	} {
		table := NewTable("mcp", []*Tool{later, first})
		for _, name := range append([]string{before.ExportName(first.ID()), "com.example.search.get-sum"}, formerNames("mcp", "", first.ID())...) {
			if got, err := table.Resolve(name); err == nil && got != first {
				t.Errorf("with %v %q means that tool", later.ID(), name)
			}
		}
		x, y := table.ExportName(first.ID()), table.ExportName(later.ID())
		if x == "" || y == "" || strings.EqualFold(x, y) {
			t.Errorf("exported as %q and %q", x, y)
		}
	}
}

func TestTwoToolsWithOneHashAreBothRefused(t *testing.T) {
	a, b, c := tool("s", "", "x.y"), tool("s", "", "x_y"), tool("s", "", "z")
	table := newTable("mcp", []*Tool{a, b, c}, func(string, string, ID) string { return "mcp__s__same" })
	if !slices.Equal(table.Refused(), []*Tool{a, b}) || table.ExportName(a.ID()) != "" || table.ExportName(b.ID()) != "" || table.ExportName(c.ID()) != "mcp__s__z" {
		t.Errorf("refused are %v", table.Refused())
	}
	var fe *fault.Error
	if _, err := table.Resolve("mcp__s__same"); !errors.As(err, &fe) || fe.Code != fault.AmbiguousCall {
		t.Errorf("the shared name: %v", err)
	}
	if got, err := table.Resolve("mcp__s__x_y"); err == nil {
		t.Errorf("the shared plain name means %v", got)
	}
}

func TestALongNameKeepsTheToolAndStaysDistinct(t *testing.T) {
	server := strings.Repeat("organisation-", 6)
	x, y := tool(server+"a", "", "get"), tool(server+"b", "", "get")
	table := NewTable("mcp", []*Tool{x, y})
	a, b := table.ExportName(x.ID()), table.ExportName(y.ID())
	if a == b || len(a) > MaxExportName || !strings.Contains(a, "__get_") {
		t.Errorf("got %q and %q", a, b)
	}
	long := tool("s", "", strings.Repeat("t", 57)) // mcp__s__ and 57 letters are one byte too many
	if name := NewTable("mcp", []*Tool{long}).ExportName(long.ID()); len(name) != MaxExportName || !regexp.MustCompile(`t_[0-9a-f]{16}$`).MatchString(name) {
		t.Errorf("got %q", name)
	}
}

func FuzzTable(f *testing.F) {
	f.Add("mcp", "", "a", "b", "a", "c")
	f.Add("mcp", "w", "im.w", "im.w.get", "im.w", "get")
	f.Add("", "", "a_", "_b", "a", "__b")
	f.Add("mcp", "b", "a", "x", "b", "x")
	f.Fuzz(func(t *testing.T, prefix, alias, s1, t1, s2, t2 string) {
		if len(prefix) > 8 { // a prefix is the operator's own choice and is checked to be short
			return
		}
		a, b := tool(s1, alias, t1), tool(s2, "", t2)
		if a.ID() == b.ID() {
			return
		}
		table := NewTable(prefix, []*Tool{a, b})
		na, nb := table.ExportName(a.ID()), table.ExportName(b.ID())
		if !valid.MatchString(na) || !valid.MatchString(nb) {
			t.Fatalf("%q or %q is no function name", na, nb)
		}
		if strings.EqualFold(na, nb) {
			t.Fatalf("%q and %q are %q and %q", a.ID(), b.ID(), na, nb)
		}
		for _, x := range []*Tool{a, b} {
			if got, err := table.Resolve(table.ExportName(x.ID())); err != nil || got != x {
				t.Fatalf("the exported name of %q means %v, %v", x.ID(), got, err)
			}
			alone := NewTable(prefix, []*Tool{x}).ExportName(x.ID())
			if got, err := table.Resolve(alone); err == nil && got != x {
				t.Fatalf("%q meant %q and means %q", alone, x.ID(), got.ID())
			}
		}
	})
}
