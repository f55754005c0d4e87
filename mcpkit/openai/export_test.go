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
	if !strings.HasPrefix(name, "mcp__files__read_") || len(name) != len("mcp__files__read_")+8 {
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

func TestTooManyToolsAreReportedAndNoneIsDropped(t *testing.T) {
	var tools []*catalog.Tool
	for i := range 129 {
		tools = append(tools, newTool("s", fmt.Sprintf("t%d", i), "", ""))
	}
	x := export(t, "openai", tools...)
	last := x.Report[len(x.Report)-1]
	if len(x.Tools) != 129 || last.Code != "too_many_tools" || string(last.Before) != "129" || string(last.After) != "128" {
		t.Errorf("%d tools, %+v", len(x.Tools), last)
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
