package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

func listed(server, alias, name string) *catalog.Tool {
	id := catalog.ID{Server: server, Tool: name}
	return &catalog.Tool{Name: id.Canonical(), Alias: alias, Source: catalog.Source{Kind: "mcp", Server: server, OriginalName: name}}
}

// setUp are servers that are set up; "down" has no tools that are known.
func setUp(r *Rules, tools ...*catalog.Tool) *Rules {
	aliases := map[string]string{"down": "down", "d": "down"}
	for _, t := range tools {
		aliases[t.Source.Server] = t.Source.Server
		if t.Alias != "" {
			aliases[t.Alias] = t.Source.Server
		}
	}
	return r.Aliased(aliases).Named(catalog.NewTable("mcp", tools))
}

func TestRulesMayNameAnAliasOrAnExportedName(t *testing.T) {
	weather := listed("com.example.weather", "weather", "get_forecast")
	files := listed("files", "", "file.delete")
	for _, key := range []string{
		"weather.get_forecast", "weather.get_*", "\"weather::get_forecast\"", "\"weather::*\"", "mcp__weather__get_forecast", "weather__get_forecast",
		"mcp__com.example.weather__get_forecast",
		"com.example.weather.get_forecast",
	} {
		r := setUp(mustParse(t, "risk: {"+key+": low}\ntools: {deny: ["+key+"]}\n"), weather, files)
		if level, by := r.Risk(weather.ID()); level != catalog.Low || by.Line != 1 || !strings.Contains(by.Rule, strings.Trim(key, `"`)) {
			t.Errorf("%s: the risk is %q by %s", key, level, by)
		}
		if _, barred := r.Barred(weather.ID()); !barred {
			t.Errorf("%s does not deny", key)
		}
		if _, barred := r.Barred(files.ID()); barred {
			t.Errorf("%s denies another tool", key)
		}
		if idle := r.Idle(); len(idle) > 0 {
			t.Errorf("%s is said to be without effect: %v", key, idle)
		}
	}
	r := setUp(mustParse(t, "trust: {weather: partner}\nservers: {deny: [weather]}\nlimits: [{server: weather, calls: 1}]\n"), weather, files)
	if trust, _ := r.Trust("com.example.weather"); trust != Partner {
		t.Errorf("the trust is %s", trust)
	}
	if _, barred := r.Barred(weather.ID()); !barred || len(r.Budgets(weather.ID())) != 1 || len(r.Budgets(files.ID())) != 0 {
		t.Errorf("barred %v, budgets %v", barred, r.Budgets(weather.ID()))
	}
}

func TestANameThatMeansTwoToolsGrantsNothingAndDeniesBoth(t *testing.T) {
	first, later := listed("s", "", "read"), listed("s", "", "s.read")
	r := mustParse(t, "risk: {mcp__s__read: low}\ntools: {deny: [mcp__s__read]}\n")
	if level, _ := setUp(r, first).Risk(first.ID()); level != catalog.Low {
		t.Errorf("alone it is %q", level)
	}
	both := setUp(r, first, later)
	for _, tool := range []*catalog.Tool{first, later} {
		if level, _ := both.Risk(tool.ID()); level == catalog.Low {
			t.Errorf("%v is low by a name that is another's, too", tool.ID())
		}
		if _, barred := both.Barred(tool.ID()); !barred {
			t.Errorf("%v is not denied", tool.ID())
		}
	}
}

func TestAServersNameComesBeforeAnAlias(t *testing.T) {
	a, b := listed("com.example.files", "files", "get"), listed("files", "", "get")
	r := mustParse(t, "trust: {files: internal}\nrisk: {files.get: low}\n").Aliased(map[string]string{"files": "files", "com.example.files": "com.example.files"})
	if trust, _ := r.Trust(a.Source.Server); trust == Internal {
		t.Error("the alias was taken for the server")
	}
	if level, _ := r.Risk(a.ID()); level == catalog.Low {
		t.Error("the alias of one server grants by the name of another")
	}
	if level, _ := r.Risk(b.ID()); level != catalog.Low {
		t.Errorf("it is %q", level)
	}
}

func TestRulesThatCoverNothingAreFound(t *testing.T) {
	text := `trust:
  com.exmple.*: partner
  com.example.*: partner
risk:
  weather.get_forcast: low
  weather.get_forecast: low
  down.anything: low
  d.anything: low
  mcp__down__anything: low
  mcp__weather__no: low
  nobody.x: low
  "*.delete": high
servers: {deny: [old, down]}
limits:
  - {tool: nobody.y, calls: 1}
`
	r := setUp(mustParse(t, text), listed("com.example.weather", "weather", "get_forecast"))
	var lines []int
	for _, s := range r.Idle() {
		lines = append(lines, s.Line)
	}
	if want := []int{2, 5, 10, 11, 13, 15}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
	if idle := setUp(Default()).Idle(); len(idle) != 0 {
		t.Errorf("the built-in rules: %v", idle)
	}
}
