package toolcall

import (
	"strings"
	"testing"
)

func TestMembersAreReadByTheirExactNamesAndTheLastOfTwoCounts(t *testing.T) {
	for raw, want := range map[string]Result{
		`{"isError":true,"iserror":false,"IsError":false}`:                       {isError: true},
		`{"isError":false,"isError":true}`:                                       {isError: true},
		`{"isError":"true"}`:                                                     {},
		`{"resultType":"input_required","ResultType":"complete"}`:                {typ: "input_required"},
		`{"resultType":"input_requ\u0069red"}`:                                   {typ: "input_required"},
		`{"resultType":7}`:                                                       {},
		`{"structuredContent":{"a":1},"StructuredContent":2}`:                    {structured: []byte(`{"a":1}`)},
		`{"structuredContent":{"a":1},"structuredContent":{"a":2}}`:              {structured: []byte(`{"a":2}`)},
		`{"structuredContent":{"a":1},"structuredContent":null}`:                 {},
		`{"content":[{"type":"text","text":"x"}],"Content":[],"later":{"b":[]}}`: {content: []byte(`[{"type":"text","text":"x"}]`)},
	} {
		r := Read([]byte(raw))
		if r.IsError() != want.isError || r.Type() != want.typ || r.NeedsInput() != (want.typ == InputRequired) ||
			string(r.Structured()) != string(want.structured) || string(r.Content()) != string(want.content) {
			t.Errorf("%s was read as %+v", raw, r)
		}
		if string(r.Raw) != raw {
			t.Errorf("%s became %s", raw, r.Raw)
		}
	}
}

func TestOnlyAnObjectIsAResult(t *testing.T) {
	for raw, want := range map[string]bool{`{}`: true, " \n{}": true, `[]`: false, `null`: false, `"{}"`: false, ``: false} {
		if Read([]byte(raw)).IsObject() != want {
			t.Errorf("%q is an object: %v", raw, !want)
		}
	}
}

func TestTheTextNamesPartsThatAreNoTextAndTellsTheirWordsBeside(t *testing.T) {
	for raw, want := range map[string][2]string{
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`:                                           {"a\nb", ""},
		`{"content":[{"type":"text","Text":"b","text":"a"}]}`:                                                           {"a", ""},
		`{"content":[{"type":"te\u0078t","text":"a"}]}`:                                                                 {"a", ""},
		`{"content":[{"type":"resource_link","uri":"x:y","name":"n","title":"t","description":"d","mimeType":"m"}]}`:    {"[resource_link x:y]", "n\nt\nd\nm\n"},
		`{"content":[{"type":"resource","text":"mine","resource":{"uri":"x:y","text":"its","mimeType":"text/plain"}}]}`: {"[resource x:y]\nits", "text/plain\n"},
		`{"content":[],"structuredContent":{"a":1}}`:                                                                    {`{"a":1}`, ""},
		`{"content":7}`: {"", ""},
	} {
		if text, beside := Read([]byte(raw)).Text(); text != want[0] || beside != want[1] {
			t.Errorf("%s is %q beside %q, want %q", raw, text, beside, want)
		}
	}
	if text, _ := Read([]byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 3*MaxText) + `"}]}`)).Text(); len(text) > MaxText {
		t.Errorf("%d bytes of text", len(text))
	}
}

func TestTheStructuredTextHasNamesAndValues(t *testing.T) {
	if got := Read([]byte(`{"structuredContent":{"na\u006de":["a",1,{"b":"c"}]}}`)).StructuredText(); got != "name\na\nb\nc\n" {
		t.Errorf("it is %q", got)
	}
}

func TestAFailureIsReadWhereItHasTheOneShape(t *testing.T) {
	f := Read([]byte(`{"isError":true,"structuredContent":{"ok":false,"error_code":"gone","message":"it is gone","retryable":true}}`)).Failure()
	if f == nil || f.Code != "gone" || f.Message != "it is gone" || !f.Retryable {
		t.Errorf("got %+v", f)
	}
	for _, raw := range []string{`{"isError":true}`, `{"structuredContent":{"error":"no"}}`, `{"structuredContent":"no"}`} {
		if f := Read([]byte(raw)).Failure(); f != nil {
			t.Errorf("%s has the failure %+v", raw, f)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, raw := range []string{`{"content":[{"type":"text","text":"a\"b"}],"structuredContent":{"a":"\\"}}`, `{"content":[{},[1]]}`, `{"structuredContent":["x`, `[{}]`, `{"a"`, `"`, `{"":{`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := Read(raw)
		if text, _ := r.Text(); len(text) > 3*MaxText+len(raw) {
			t.Errorf("%q is shown in %d bytes", raw, len(text))
		}
		if string(r.Raw) != string(raw) {
			t.Errorf("%q was changed", raw)
		}
		r.StructuredText()
		r.Failure()
	})
}
