package render

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestALongResultKeepsHeadAndTail(t *testing.T) {
	text := strings.Repeat("ä", MaxText) + strings.Repeat("🎯", 10)
	got := shorten(text, MaxText)
	if !utf8.ValidString(got) || !strings.HasPrefix(got, "ää") || !strings.HasSuffix(got, "ä🎯🎯🎯🎯🎯🎯🎯🎯🎯🎯") || !strings.Contains(got, "(… 10 characters omitted …)") {
		t.Errorf("got %.50q … %q", got, got[len(got)-60:])
	}
	if s := strings.Repeat("x", 10); shorten(s, 10) != s {
		t.Error("a text that fits was cut")
	}
}

func TestResultsAreSaidInWords(t *testing.T) {
	for raw, want := range map[string]Rendered{
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`: {Text: "a\nb"},
		`{"content":[]}`:   {Text: "(the tool returned no content)"},
		`{"isError":true}`: {Text: "The tool failed and did not say why.", Failed: true},
		`{"content":[{"type":"text","text":"a","annotations":{"audience":["user"]}}]}`:    {Text: "(the result is for the person, not for the model)"},
		`{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1.0}}`: {Text: `{"a": 1}`},
		`{"content":[{"type":"text","text":"a"}],"structuredContent":{"b":[1]}}`:          {Text: "a\n{\"b\":[1]}"},
		`{"content":[{"Type":"text","text":"a"}]}`:                                        {Text: `(a part of the result has the unknown type "" and is not shown)`, Failed: true},
		`{"resultType":"later"}`: {Text: `The server answered with a result of the unknown type "later".`, Failed: true},
	} {
		got := Result(json.RawMessage(raw), false)
		if got.Text != want.Text || got.Failed != want.Failed || len(got.Images) > 0 {
			t.Errorf("%s became %+v", raw, got)
		}
	}
}

func TestWhatIsNoResultIsAFailure(t *testing.T) {
	for _, raw := range []string{`7`, `[]`, `{"content":7}`, `{`} {
		if got := Result(json.RawMessage(raw), false); !got.Failed || !strings.HasPrefix(got.Text, "The server's answer is no tool result: ") {
			t.Errorf("%s became %+v", raw, got)
		}
	}
}

func TestImagesStandBesideTheTextForAModelThatSees(t *testing.T) {
	raw := json.RawMessage(`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`)
	got := Result(raw, false)
	if len(got.Images) != 1 || got.Images[0].ImageURL.URL != "data:image/png;base64,AAAA" || !strings.Contains(got.Text, "3 bytes") {
		t.Errorf("%+v", got)
	}
	if blind := Result(raw, true); len(blind.Images) != 0 || !strings.Contains(blind.Text, "cannot be shown") {
		t.Errorf("%+v", blind)
	}
}

func TestAFaultKeepsItsCode(t *testing.T) {
	got := Fault(fault.New(fault.Denied, "no"))
	var f fault.Error
	if err := json.Unmarshal([]byte(got.Text), &f); err != nil || !got.Failed || f.Code != fault.Denied {
		t.Errorf("%+v, %v", got, err)
	}
	odd := fault.New(fault.Denied, "no")
	odd.Data = json.RawMessage("{")
	if !json.Valid([]byte(Fault(odd).Text)) {
		t.Errorf("%s is no JSON", Fault(odd).Text)
	}
}
