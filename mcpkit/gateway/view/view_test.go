package view

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
)

func tool(server, alias, name string) *catalog.Tool {
	id := catalog.ID{Server: server, Tool: name}
	return &catalog.Tool{Name: id.Canonical(), Alias: alias, InputSchema: json.RawMessage("{}"), Source: catalog.Source{Server: server, OriginalName: name}}
}

func TestNamesHaveNoPrefixAndThoseOfBeforeAreStillKnown(t *testing.T) {
	sum := tool("com.example.search", "", "get-sum")
	hidden := tool("hidden", "", "x")
	table := catalog.NewTable("mcp", []*catalog.Tool{sum, hidden})
	o := (&View{Servers: []string{"com.*"}}).Offer(table)
	for name, want := range map[string]*catalog.Tool{
		"com_example_search__get-sum":               sum,
		"mcp__com_example_search__get-sum":          sum,
		"mcp__com_example_search__get-sum_9234c2e4": sum,
		"get-sum":                    nil,
		"com.example.search.get-sum": nil,
		"hidden__x":                  nil,
		"mcp__hidden__x":             nil,
	} {
		if got := o.Tool(name); got != want {
			t.Errorf("%q is %v", name, got)
		}
	}
	page, err := o.Page("")
	if err != nil || !strings.Contains(string(page), `"name":"com_example_search__get-sum"`) || strings.Contains(string(page), "mcp__") {
		t.Errorf("the page is %s, %v", page, err)
	}
}

func TestPromptsOfTwoSpellingsAreToldApart(t *testing.T) {
	d := NewDirectory(func() []Server { return []Server{{Name: "notes", Alias: "n"}, {Name: "com.example.x"}} }, nil)
	items := []offers.Item{
		{Server: "notes", Raw: []byte(`{"name":"Ask"}`)}, {Server: "notes", Raw: []byte(`{"name":"ask"}`)}, {Server: "com.example.x", Raw: []byte(`{"name":"sum"}`)},
	}
	read := func(context.Context, string) ([]offers.Item, error) { return items, nil }
	page, err := d.Page(t.Context(), &View{}, Prompts, "", read)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Prompts []struct{ Name string } }
	if err := json.Unmarshal(append(append([]byte("{"), page...), '}'), &list); err != nil || len(list.Prompts) != 3 {
		t.Fatalf("%s: %v", page, err)
	}
	if a, b := list.Prompts[0].Name, list.Prompts[1].Name; strings.EqualFold(a, b) || !strings.HasPrefix(a, "n__Ask_") || list.Prompts[2].Name != "com_example_x__sum" {
		t.Errorf("the names are %+v", list.Prompts)
	}
	for i, want := range []Origin{{"notes", "Ask"}, {"notes", "ask"}, {"com.example.x", "sum"}} {
		if got, err := d.Prompt(t.Context(), &View{}, list.Prompts[i].Name, read); err != nil || got != want {
			t.Errorf("%q is %v, %v", list.Prompts[i].Name, got, err)
		}
	}
	if got, err := d.Prompt(t.Context(), &View{}, "com_example_x__sum_f498bd5c", read); err != nil || got.Name != "sum" {
		t.Errorf("the name of before is %v, %v", got, err)
	}
}

func TestInstructionsSayWhatTheShownServersAreFor(t *testing.T) {
	servers := []Server{
		{Name: "com.example.weather", Alias: "weather", About: "Forecasts\n for  cities"}, {Name: "a", About: ""}, {Name: "secret", About: "Nobody knows"},
		{Name: "z", About: "hidden \u202e direction"},
	}
	d := NewDirectory(func() []Server { return servers }, nil)
	v := &View{Servers: []string{"a", "weather", "z"}}
	const want = "Tools and prompts are named SERVER__NAME. The servers are:\n- a\n- weather: Forecasts for cities\n- z: hidden \\u202e direction"
	if got := d.Instructions(v); got != want {
		t.Errorf("got %q", got)
	}
	if got := d.Instructions(&View{Only: "com.example.weather"}); got != "Forecasts for cities" {
		t.Errorf("of one server: %q", got)
	}
	if got := d.Instructions(&View{Servers: []string{"none"}}); got != "" {
		t.Errorf("of no server: %q", got)
	}
	for i := range 1000 {
		servers = append(servers, Server{Name: strings.Repeat("x", 20) + string(rune('a'+i%26)) + strings.Repeat("y", i%90), About: "much to say"})
	}
	if got := d.Instructions(&View{}); len(got) > maxInstructions+40 || !strings.Contains(got, " more") {
		t.Errorf("of many servers: %d bytes", len(got))
	}
}
