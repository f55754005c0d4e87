package calls

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestAPersonIsAskedForEachFieldInTheServersOrder(t *testing.T) {
	in := signal.Input{Server: "dice\x1b[2J", Questions: []signal.Question{
		{ID: "f", Kind: ask.FormQuestion, Message: "How\x1b[31m many?", Schema: json.RawMessage(`{"type":"object","required":["n","who"],"properties":{
			"who":{"type":"string","title":"Your name"},"n":{"type":"integer"},"sure":{"type":"boolean","default":true},
			"side":{"type":"string","enum":["heads","tails"]},"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}},"more":{"type":"string"}}}`)},
		{ID: "u", Kind: ask.URLQuestion, Message: "Sign in", URL: "https://example.com/", Host: "example.com", Warning: "odd"},
		{ID: "d", Kind: ask.FormQuestion, Message: "And this?", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
		{ID: "e", Kind: ask.FormQuestion, Message: "And then?", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}}
	var out bytes.Buffer
	c := cli.New(strings.NewReader("perhaps\ny\nAda\nmany\n2\n\nedge\ntails\na, b\n\nyes\nn\n"), nil, &out)
	got, err := askPerson(c, in)
	if err != nil {
		t.Fatal(err)
	}
	want := ask.Replies{
		"f": {Action: ask.Accept, Content: json.RawMessage(`{"n":2,"side":"tails","sure":true,"tags":["a","b"],"who":"Ada"}`)},
		"u": {Action: ask.Accept}, "d": {Action: ask.Decline}, "e": {Action: ask.Cancel},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answers (-want +got):\n%s", diff)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("a server steers the terminal: %q", out.String())
	}
	for _, text := range []string{"on a page of example.com", "careful: odd", "that is no number", "choose of heads, tails", "Your name"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is not shown in %s", text, out.String())
		}
	}
}
