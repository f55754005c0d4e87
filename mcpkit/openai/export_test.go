package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
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
