package catalog

import (
	"errors"
	"slices"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func tool(server, alias, name string) *Tool {
	id := ID{server, name}
	return &Tool{Name: id.Canonical(), Alias: alias, Source: Source{"mcp", server, name}}
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
