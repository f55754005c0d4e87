package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

func newTool(server, name, description, input string) *catalog.Tool {
	id := catalog.ID{Server: server, Tool: name}
	t := &catalog.Tool{Name: id.Canonical(), Description: description,
		Source: catalog.Source{Kind: "mcp", Server: server, OriginalName: name}}
	if input != "" {
		t.InputSchema = json.RawMessage(input)
	}
	return t
}

func export(t testing.TB, profile string, tools ...*catalog.Tool) *Export {
	t.Helper()
	x, err := New(tools, Options{Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestEqualCataloguesGiveEqualBytesInAnyOrder(t *testing.T) {
	var tools []*catalog.Tool
	for i := range 20 {
		tools = append(tools, newTool(fmt.Sprintf("s%d", i%3), fmt.Sprintf("t%d", i), "d",
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["z"]}`))
	}
	for _, profile := range Profiles() {
		a := export(t, profile, tools...)
		back := slices.Clone(tools)
		slices.Reverse(back)
		b := export(t, profile, back...)
		if !bytes.Equal(a.JSON(), b.JSON()) || a.Fingerprint() != b.Fingerprint() {
			t.Errorf("%s: the order of tools changes the bytes", profile)
		}
		if !json.Valid(a.JSON()) {
			t.Errorf("%s: not JSON: %s", profile, a.JSON())
		}
		if len(a.Tools) != len(tools) {
			t.Errorf("%s: %d tools", profile, len(a.Tools))
		}
	}
}

func TestDistinctProfilesStandForAll(t *testing.T) {
	for name, p := range profiles {
		if !slices.ContainsFunc(distinctProfiles, func(d string) bool {
			q := profiles[d]
			return reflect.DeepEqual(p.schema, q.schema)
		}) {
			t.Errorf("the schema rules of %s are not fuzzed", name)
		}
	}
}

func TestAnUnknownProfileIsAnErrorThatListsTheKnown(t *testing.T) {
	_, err := New(nil, Options{Profile: "gpt"})
	if err == nil || !strings.Contains(err.Error(), `unknown profile "gpt"`) || !strings.Contains(err.Error(), "openai-strict") {
		t.Errorf("got %v", err)
	}
}

func TestToolsMarshalAsTheAPITakesThem(t *testing.T) {
	tools := []*catalog.Tool{newTool("a", "none", "", ""), newTool("b", "some", "d", `{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`)}
	for _, profile := range Profiles() {
		x := export(t, profile, tools...)
		wire, err := json.Marshal(x.Tools)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := decodePlain(t, wire), decodePlain(t, x.JSON()); !cmp.Equal(got, want) {
			t.Errorf("%s: the types say %s, the bytes %s", profile, wire, x.JSON())
		}
		if bytes.Contains(wire, []byte(`"parameters":null`)) || bytes.Contains(wire, []byte(`"description":""`)) {
			t.Errorf("%s: %s", profile, wire)
		}
	}
	if x := export(t, "openai-responses", tools...); !bytes.HasPrefix(x.JSON(), []byte(`[{"type":"function","name":"mcp__a__none","parameters":{"type":"object","properties":{}},"strict":false}`)) {
		t.Errorf("the Responses form is %s", x.JSON())
	}
}

func TestReservedNamesAreNeverTaken(t *testing.T) {
	tool := newTool("files", "read", "d", "")
	x, err := New([]*catalog.Tool{tool}, Options{Reserved: []string{"mcp__files__read", "files.read"}})
	if err != nil {
		t.Fatal(err)
	}
	name := x.Name(tool.ID())
	if !strings.HasPrefix(name, "mcp__files__read_") || len(name) != len("mcp__files__read_")+16 {
		t.Errorf("the name is %q", name)
	}
	for _, reserved := range []string{"mcp__files__read", "files.read"} {
		var f *fault.Error
		if _, err := x.Decode(reserved, "{}"); !errors.As(err, &f) || f.Code != fault.ToolNotFound {
			t.Errorf("a local function's name leads to %v", err)
		}
	}
	if call, err := x.Decode(name, ""); err != nil || call.ID != tool.ID() {
		t.Errorf("%q leads to %+v, %v", name, call, err)
	}
	if _, err := x.Decode("read", "{}"); err == nil || !slices.Equal(fault.From(err).Candidates, []string{name}) || fault.From(err).Code != fault.AmbiguousCall {
		t.Errorf("a bare name leads to %v with candidates %q", err, fault.From(err).Candidates)
	}
}

func TestOfTooManyToolsEachServerKeepsAFairShareAndTheOthersAreReported(t *testing.T) {
	var tools []*catalog.Tool
	for i := range 200 {
		tools = append(tools, newTool("big", fmt.Sprintf("t%03d", i), "", ""))
	}
	for _, server := range []string{"a", "z"} {
		for i := range 3 {
			tools = append(tools, newTool(server, fmt.Sprintf("t%d", i), "", ""))
		}
	}
	x := export(t, "openai", tools...)
	if len(x.Tools) != 128 || len(x.items) != 128 || len(x.Report) != 206 {
		t.Fatalf("%d tools, %d entries", len(x.Tools), len(x.Report))
	}
	for i, e := range x.Report[:206-128] { // the others are of schemas that are missing
		if want := fmt.Sprintf("t%03d", 122+i); e.Code != "tool_limit" || e.Server != "big" || e.Tool != want || string(e.Before) != "206" || string(e.After) != "128" || !e.Lossy {
			t.Fatalf("entry %d is %+v, want %s of big", i, e, want)
		}
	}
	for _, it := range x.items {
		if it.tool.Source.Server == "big" && it.tool.Source.OriginalName > "t121" {
			t.Errorf("%s is offered", it.name)
		}
	}
	if _, err := x.Decode("mcp__big__t199", "{}"); err == nil || fault.From(err).Code != fault.ToolNotFound {
		t.Errorf("a tool that was left out: %v", err)
	}
	slices.Reverse(tools)
	if y := export(t, "openai", tools...); !bytes.Equal(x.JSON(), y.JSON()) || !cmp.Equal(x.Report, y.Report) {
		t.Error("another order of tools gives another choice")
	}
	if y := export(t, "anthropic", tools...); len(y.Tools) != 206 || slices.ContainsFunc(y.Report, func(e Entry) bool { return e.Code == "tool_limit" }) {
		t.Errorf("a profile without a limit offers %d", len(y.Tools))
	}
}

func TestNamesThatDifferByCaseAloneAreToldApartWithoutIt(t *testing.T) {
	a, b := newTool("fs", "Read", "", ""), newTool("fs", "read", "", "")
	for _, profile := range Profiles() {
		x := export(t, profile, a, b)
		if len(x.items) != 2 || strings.EqualFold(x.items[0].name, x.items[1].name) {
			t.Fatalf("%s: %+v", profile, x.items)
		}
		for _, tool := range []*catalog.Tool{a, b} {
			if call, err := x.Decode(x.Name(tool.ID()), "{}"); err != nil || call.ID != tool.ID() {
				t.Errorf("%s: %q leads to %+v, %v", profile, x.Name(tool.ID()), call, err)
			}
		}
	}
}

func TestTheExportOfOneServerHasTheNamesOfTheWholeCatalogue(t *testing.T) {
	var cache Cache
	a, b := newTool("files", "t", "", ""), newTool("Files", "t", "", "")
	table := catalog.NewTable(DefaultPrefix, []*catalog.Tool{a, b})
	for _, prefix := range []string{"", "p"} {
		all, err := cache.Export(table, "", Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range []*catalog.Tool{a, b} {
			one, err := cache.Export(table, tool.Source.Server, Options{Prefix: prefix})
			if err != nil || one.Name(tool.ID()) != all.Name(tool.ID()) {
				t.Errorf("%q and %q, %v", one.Name(tool.ID()), all.Name(tool.ID()), err)
			}
		}
	}
}

func TestAFormerNameIsRepaired(t *testing.T) {
	tool := newTool("com.example.search", "get-sum", "", "")
	x := export(t, "openai", tool)
	call, err := x.Decode("mcp__com_example_search__get-sum_9234c2e4", "{}")
	if err != nil || call.ID != tool.ID() || !slices.Equal(call.Repairs, []string{`the tool "mcp__com_example_search__get-sum_9234c2e4" is now called "mcp__com_example_search__get-sum"`}) {
		t.Errorf("%+v, %v", call, err)
	}
}

func TestARootThatIsNoObjectIsReported(t *testing.T) {
	for _, schema := range []string{`{"type":"string"}`, `{"type":"array","items":{}}`, `{"type":["null","integer"]}`} {
		x := export(t, "openai", newTool("s", "t", "", schema))
		if len(x.Report) == 0 || x.Report[0].Code != "root_not_object" || x.Report[0].Pointer != "/type" || !x.Report[0].Lossy {
			t.Errorf("%s: %+v", schema, x.Report)
		}
	}
}

func TestACacheConvertsOnlyWhatChanged(t *testing.T) {
	var cache Cache
	a := newTool("a", "t", "d", `{"type":"object","properties":{"x":{"type":"int"}}}`)
	b := newTool("b", "t", "d", `{"type":"object","properties":{"y":{"type":"string"}}}`)
	one, err := New([]*catalog.Tool{a, b}, Options{Cache: &cache})
	if err != nil {
		t.Fatal(err)
	}
	changed := newTool("b", "t", "d", `{"type":"object","properties":{"z":{"type":"string"}}}`)
	two, err := New([]*catalog.Tool{a, changed}, Options{Cache: &cache})
	if err != nil {
		t.Fatal(err)
	}
	if one.byID[a.ID()].result != two.byID[a.ID()].result || one.byID[b.ID()].result == two.byID[b.ID()].result {
		t.Error("the wrong tools were converted again")
	}
	if fresh := export(t, "openai", a, changed); !bytes.Equal(fresh.JSON(), two.JSON()) || !cmp.Equal(fresh.Report, two.Report) {
		t.Error("a cached conversion differs from a fresh one")
	}
	other, err := New([]*catalog.Tool{a}, Options{Cache: &cache, Profile: "typed"})
	if err != nil || other.items[0].result == one.byID[a.ID()].result {
		t.Errorf("two profiles share a conversion, %v", err)
	}
}

func TestAnExportOfTheSameTableIsMadeOnce(t *testing.T) {
	var cache Cache
	a, b := newTool("a", "t", "d", `{"type":"object"}`), newTool("b", "t", "d", `{"type":"object"}`)
	table := catalog.NewTable(DefaultPrefix, []*catalog.Tool{a, b})
	get := func(table *catalog.Table, server string, opts Options) *Export {
		t.Helper()
		x, err := cache.Export(table, server, opts)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	all := get(table, "", Options{})
	if get(table, "", Options{}) != all {
		t.Error("the catalogue was encoded anew")
	}
	if want := export(t, "openai", a, b); !bytes.Equal(all.JSON(), want.JSON()) || all.Fingerprint() != want.Fingerprint() {
		t.Errorf("it is %s", all.JSON())
	}
	if one := get(table, "b", Options{}); len(one.Tools) != 1 || one.Name(b.ID()) == "" {
		t.Errorf("the export of one server has %d tools", len(one.Tools))
	}
	for name, opts := range map[string]Options{"profile": {Profile: "openai-responses"}, "prefix": {Prefix: "p"}, "reserved names": {Reserved: []string{"mcp__a__t"}}} {
		if bytes.Equal(get(table, "", opts).JSON(), all.JSON()) {
			t.Errorf("another %s gives the same export", name)
		}
	}
	if _, err := cache.Export(table, "", Options{Profile: "no such"}); err == nil {
		t.Error("an unknown profile is no error")
	}
	if next := get(catalog.NewTable(DefaultPrefix, []*catalog.Tool{a}), "", Options{}); len(next.Tools) != 1 {
		t.Errorf("a new table gives %d tools", len(next.Tools))
	}
	for i := range 2 * cacheExports {
		get(table, "", Options{Prefix: fmt.Sprint("p", i)})
	}
	if n := len(cache.exports); n > cacheExports {
		t.Errorf("it holds %d exports", n)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	var cache Cache
	for i := range 3 * cacheSize {
		cache.convert("openai", json.RawMessage(fmt.Sprintf(`{"title":"%d"}`, i)), &rules.Rules{})
	}
	if n := len(cache.young) + len(cache.old); n > 2*cacheSize {
		t.Errorf("it holds %d conversions", n)
	}
}

func TestConcurrentDecodingIsSafe(t *testing.T) {
	x := export(t, "openai-strict", newTool("s", "t", "d", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}`))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				call, err := x.Decode("mcp__s__t", `{"a":"x","b":null}`)
				if err != nil || string(call.Arguments) != `{"a":"x"}` {
					t.Errorf("%+v, %v", call, err)
				}
			}
		})
	}
	wg.Wait()
}
