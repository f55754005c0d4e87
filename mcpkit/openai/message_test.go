package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestEveryAnswerGetsOneMessageWhateverTheServerSent(t *testing.T) {
	x := export(t, "openai", newTool("s", "t", "", ""))
	id := catalog.ID{Server: "s", Tool: "t"}
	for _, c := range []struct {
		result string
		failed bool
		holds  string
	}{
		{``, true, "no tool result"},
		{`null`, false, "no content"},
		{`[]`, true, "no tool result"},
		{`{"content":"text"}`, true, "no tool result"},
		{`{"isError":"yes"}`, true, "no tool result"},
		{`{"content":[7,{"type":"text","text":"kept"}]}`, true, "kept"},
		{`{"content":[{"type":"image","mimeType":"image/png","data":"***"}]}`, false, "not base64"},
		{`{"content":[{"type":"image","mimeType":"image/svg+xml","data":"AAAA"}]}`, false, "image/svg+xml, 3 bytes, cannot be shown"},
		{`{"content":[{"type":"audio","mimeType":"audio/wav","data":"AAAA"}]}`, false, "audio/wav, 3 bytes"},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///b","mimeType":"application/pdf","blob":"AAAA"}}]}`, false, "file:///b; application/pdf, 3 bytes"},
		{`{"content":[{"type":"resource"}]}`, true, "without content"},
		{`{"content":[{"type":"text","text":"x","annotations":{"audience":["user"]}}]}`, false, "for the person"},
		{`{"content":[],"structuredContent":null}`, false, "null"},
		{`{"content":[{"type":"text","text":"42"}],"structuredContent":{"result":42}}`, false, "\n42\n"},
		{`{"resultType":"novel","content":[{"type":"text","text":"kept"}]}`, true, "kept"},
		{`{"structuredContent":{"n":9007199254740993}}`, false, `{"n":9007199254740993}`},
		{`{"content":[{"type":"text","text":""}]}`, false, "(no content)"},
		{`{"Content":[{"type":"text","text":"unseen"}]}`, false, "no content"},
		{`{"content":[{"type":"text","Text":"unseen"}]}`, false, "(no content)"},
		{`{"content":[{"type":"resource","resource":{"uri":"u","text":"unseen"},"resource":{"uri":"u","Text":"unseen"}}]}`, false, "(embedded resource u)"},
	} {
		m, images := x.ToolMessage(Answer{CallID: "c", Call: id, Result: json.RawMessage(c.result)})
		want := "[mcp:s:t] result <<"
		if c.failed {
			want = "[mcp:s:t] error <<"
		}
		if !strings.HasPrefix(m.Content, want) || !strings.Contains(m.Content, c.holds) || len(images) > 0 || strings.TrimSpace(inside(t, m.Content)) == "" {
			t.Errorf("%s became %q", c.result, m.Content)
		}
		if strings.Contains(m.Content, "unseen") {
			t.Errorf("%s shows what the gate has not looked through: %q", c.result, m.Content)
		}
	}
}

func TestAFaultKeepsItsShapeForTheModel(t *testing.T) {
	x := export(t, "openai", newTool("s", "t", "", ""))
	e := fault.New(fault.Timeout, "no answer\u202e in 30 s").Unknown()
	m, _ := x.ToolMessage(Answer{CallID: "c", Call: catalog.ID{Server: "s\n]", Tool: "t"}, Err: fmt.Errorf("calling: %w", e)})
	if want := `{"ok":false,"error_code":"timeout","message":"no answer in 30 s","retryable":false,"outcome":"unknown"}`; inside(t, m.Content) != want {
		t.Errorf("got %s", m.Content)
	}
	if !strings.HasPrefix(m.Content, "[mcp:s ):t] error <<") {
		t.Errorf("a server's name forges the marker: %q", m.Content)
	}
	m, _ = x.ToolMessage(Answer{CallID: "c", Err: errors.New("odd")})
	if !strings.Contains(m.Content, `"error_code":"internal"`) {
		t.Errorf("got %s", m.Content)
	}
	m, _ = x.ToolMessage(Answer{CallID: "c", Err: &fault.Error{Code: "x", Message: "y", Data: json.RawMessage(`{`)}})
	if !strings.Contains(m.Content, `"error_code":"x"`) {
		t.Errorf("broken data hides the fault: %s", m.Content)
	}
}

func TestRepairsAreOnlyOfWhatCanMeanOneThing(t *testing.T) {
	x := export(t, "openai", newTool("s", "t", "", `{"type":"object","properties":{"n":{"type":"integer"},"b":{"type":["boolean","null"]},
		"any":{},"s":{"type":["string","object"]},"o":{"type":"object","properties":{"d":{"type":"array","items":{"type":"integer"}}}}}}`))
	for args, want := range map[string]string{ // "" where it must be an error
		`{"n":"12"}`:                           `{"n":12}`,
		`{"n":"9007199254740993"}`:             `{"n":9007199254740993}`,
		`{"n":"12 "}`:                          `{"n":12}`,
		`{"n":"twelve"}`:                       ``,
		`{"n":"1.5"}`:                          ``,
		`{"b":"true"}`:                         `{"b":true}`,
		`{"b":"yes"}`:                          ``,
		`{"any":"{\"a\":1}"}`:                  `{"any":"{\"a\":1}"}`,
		`{"s":"{\"a\":1}"}`:                    `{"s":"{\"a\":1}"}`,
		`{"o":"{\"d\":\"[\\\"7\\\"]\"}"}`:      `{"o":{"d":[7]}}`,
		`{"o":"{\"d\":[1],\"d\":[2]}"}`:        ``,
		"```\n{\"n\":1}\n```":                  `{"n":1}`,
		"```python\n{\"n\":1}\n```":            ``,
		"here: ```json\n{}\n```":               ``,
		"```json\n{}\n```\n```json\n{}\n```":   ``,
		`{"any":",}","n":1,}`:                  `{"any":",}","n":1}`,
		"{\"any\":\"a\n\tb\",}":                `{"any":"a\n\tb"}`,
		"{\"any\":\"a\\\nb\"}":                 ``,
		`{"n":null,"b":null}`:                  `{"b":null}`,
		`{"o":{"d":null}}`:                     `{"o":{}}`,
		`{"arguments":{"n":1}}`:                `{"n":1}`,
		`{"name":"t","arguments":{"n":1}}`:     `{"n":1}`,
		`{"parameters":{"n":"1"}}`:             `{"n":1}`,
		`{"arguments":{"n":"x"}}`:              ``,
		`{"arguments":{"n":1},"b":true}`:       `{"arguments":{"n":1},"b":true}`,
		`{"arguments":7}`:                      `{"arguments":7}`,
		`{"any":"\ud83d"}`:                     ``,
		`"{\"any\":\"\\udc00\"}"`:              ``,
		"{\"any\":\"\xff\"}":                   ``,
		`{"any":[1,2,],}`:                      `{"any":[1,2]}`,
		`{,}`:                                  ``,
		`{"n":1,,}`:                            ``,
		`{'n':1}`:                              ``,
		`{"n":1`:                               ``,
		`{"n":NaN}`:                            ``,
		`"\"{}\""`:                             ``,
		`{"any":` + strings.Repeat("[", 600):   ``,
		"\ufeff{}":                             ``,
		`{"o":{"d":[]},"n":1} // and a remark`: ``,
	} {
		call, err := x.Decode("mcp__s__t", args)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s became %s", args, call.Arguments)
		case want != "" && err != nil:
			t.Errorf("%s: %v", args, err)
		case err == nil && string(call.Arguments) != want:
			t.Errorf("%s became %s", args, call.Arguments)
		case err == nil && want != args && len(call.Repairs) == 0:
			t.Errorf("%s was repaired silently", args)
		}
	}
}

func TestANullForWhatIsRequiredStaysAnError(t *testing.T) {
	for _, profile := range []string{"openai", "openai-strict", "gemini", "mistral"} {
		x := export(t, profile, newTool("s", "t", "", `{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"},"m":{"type":["string","null"]}},"required":["q"]}`))
		if _, err := x.Decode("mcp__s__t", `{"q":null}`); err == nil {
			t.Errorf("%s: a null for a required parameter was taken", profile)
		}
		call, err := x.Decode("mcp__s__t", `{"q":"x","n":null,"m":null}`)
		if err != nil || string(call.Arguments) != `{"q":"x","m":null}` {
			t.Errorf("%s: nulls for optional parameters became %+v, %v", profile, call, err)
		}
	}
}

func TestArgumentsOfAFreeObjectAreNotUnwrapped(t *testing.T) {
	for _, schema := range []string{`{"type":"object"}`, `{"type":"object","properties":{"arguments":{"type":"object"}}}`} {
		x := export(t, "openai", newTool("s", "t", "", schema))
		call, err := x.Decode("mcp__s__t", `{"arguments":{"a":1}}`)
		if err != nil || string(call.Arguments) != `{"arguments":{"a":1}}` {
			t.Errorf("%s: they became %+v, %v", schema, call, err)
		}
	}
}

func TestANameIsUnderstoodWithWhatModelsPutAroundIt(t *testing.T) {
	x := export(t, "openai", newTool("s", "t", "", `{"type":"object"}`))
	for _, name := range []string{"functions.mcp__s__t:0", "functions.mcp__s__t", " mcp__s__t\n", "mcp__s__t:12", "default_api:mcp__s__t"} {
		call, err := x.Decode(name, "{}")
		if err != nil || call.ID.Tool != "t" || len(call.Repairs) != 1 {
			t.Errorf("%q is %+v, %v", name, call, err)
		}
	}
	for _, name := range []string{"mcp__s__t:x", "mcp__s__t:", ":0", ""} {
		if call, err := x.Decode(name, "{}"); err == nil {
			t.Errorf("%q is %+v", name, call)
		}
	}
}

func TestKeysAreRenamedBackInEveryBranchThatFits(t *testing.T) {
	x := export(t, "anthropic", newTool("s", "t", "", `{"type":"object","properties":{"a":{"anyOf":[{"type":"object"},{"type":"object","properties":{"x[y]":{"type":"string"}}}]}}}`))
	const key = "x_y_f445b366"
	if !strings.Contains(string(x.JSON()), key) {
		t.Fatalf("the key is another one in %s", x.JSON())
	}
	call, err := x.Decode("mcp__s__t", `{"a":{"`+key+`":"v"}}`)
	if err != nil || string(call.Arguments) != `{"a":{"x[y]":"v"}}` {
		t.Errorf("got %+v, %v", call, err)
	}
}
