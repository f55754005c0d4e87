package jsontext_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/internal/jsontext"

	"github.com/google/go-cmp/cmp"
)

// walked are the members of an object by Members, one a line.
func walked(b []byte) (list string, ok bool) {
	var out strings.Builder
	ok = jsontext.Members(b, func(name, value []byte) bool {
		fmt.Fprintf(&out, "%s=%s\n", name, value)
		return true
	})
	return out.String(), ok
}

func TestMembersAreFoundInOrderAndKeepTheirBytes(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:    "",
		` { } `: "",
		"{ \"b\" :\t9007199254740993.10,\"a\":{\"b\": 1, \"a\":[ ]} ,\n\"b\":\"\\u00e9\" }": "b=9007199254740993.10\na={\"b\": 1, \"a\":[ ]}\nb=\"\\u00e9\"\n",
		`{"\u0069d":3,"":null,"\ud800\"":4}`:                                                "id=3\n=null\n\uFFFD\"=4\n",
	} {
		if got, ok := walked([]byte(in)); !ok || got != want {
			t.Errorf("%s: %q, %v", in, got, ok)
		}
	}
	for _, bad := range []string{``, `[]`, `1`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1}x`, `{"a":1 "b":2}`, `{a:1}`, `{,}`, `{"\x":1}`, `{}{}`, `null`} {
		if got, ok := walked([]byte(bad)); ok {
			t.Errorf("%s was taken for an object: %q", bad, got)
		}
	}
	seen := 0
	if ok := jsontext.Members([]byte(`{"a":1,"b":2,`), func(_, _ []byte) bool { seen++; return seen < 2 }); !ok || seen != 2 {
		t.Errorf("a walk that f ended: %v, %d members", ok, seen)
	}
}

func TestElementsAreFoundInOrderAndKeepTheirBytes(t *testing.T) {
	var got []string
	ok := jsontext.Elements([]byte(` [ 1, {"a":[]} ,"x" ] `), func(v []byte) bool { got = append(got, string(v)); return true })
	if d := cmp.Diff([]string{"1", `{"a":[]}`, `"x"`}, got); !ok || d != "" {
		t.Error(ok, d)
	}
	for _, bad := range []string{"", "[", "[1,]", "[1]x", "{}", "[1 2]"} {
		if jsontext.Elements([]byte(bad), func([]byte) bool { return true }) {
			t.Errorf("%q was taken for an array", bad)
		}
	}
	seen := 0
	if ok := jsontext.Elements([]byte(`[1,2,`), func([]byte) bool { seen++; return seen < 2 }); !ok || seen != 2 {
		t.Errorf("a walk that f ended: %v, %d elements", ok, seen)
	}
}

func TestAValueIsGotByThePathOfItsNames(t *testing.T) {
	raw := []byte(`{"a":{"b":1,"\u0062":{"c":[2]}},"A":3,"n":null}`)
	for want, path := range map[string][]string{
		`{"c":[2]}`: {"a", "b"}, `[2]`: {"a", "b", "c"}, `3`: {"A"}, `null`: {"n"}, string(raw): nil,
	} {
		if got := jsontext.Get(raw, path...); string(got) != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	for _, path := range [][]string{{"b"}, {"a", "c"}, {"A", "b"}, {"a", "b", "c", "2"}, {""}} {
		if got := jsontext.Get(raw, path...); got != nil {
			t.Errorf("%q: %s, want nothing", path, got)
		}
	}
}

func TestStringsAreTheNamesAndTheTexts(t *testing.T) {
	var got []string
	take := func(s []byte) bool { got = append(got, string(s)); return len(got) < 4 }
	jsontext.Strings([]byte(`{"a\"":["x",1,{"\\":true}],"b":"never seen"}`), take)
	if d := cmp.Diff([]string{`"a\""`, `"x"`, `"\\"`, `"b"`}, got); d != "" {
		t.Error(d)
	}
	got = nil
	for _, odd := range []string{``, `1`, `"`, `"\`, `{"a`} {
		jsontext.Strings([]byte(odd), take)
	}
	if got != nil {
		t.Errorf("found %q", got)
	}
}

func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"id":1,"a":{"a":[1,2,{"b":null}]},"a":"x"}`, `{"\u0061":1 , "a":2}`, `{"a":1,}`, `{"a" 1}`, `[]`, `null`, "{\"\xff\":1}", `{"a":tru}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var want map[string]json.RawMessage
		err := json.Unmarshal(b, &want)
		got := map[string]json.RawMessage{}
		ok := jsontext.Members(b, func(name, value []byte) bool {
			got[string(name)] = value
			return true
		})
		if ok != (err == nil && want != nil) {
			t.Fatalf("Members(%q) = %v, encoding/json says %v", b, ok, err)
		}
		if !ok || !utf8.Valid(b) {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q has the members %q, encoding/json says %q", b, got, want)
		}
		for name, value := range want {
			if !bytes.Equal(got[name], value) || !bytes.Equal(jsontext.Get(b, name), value) {
				t.Fatalf("in %q %q is %q, encoding/json says %q", b, name, got[name], value)
			}
		}
	})
}

func many(n int, last string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"n%d":{"x":[1]},`, i)
	}
	return "{" + b.String() + `"` + last + `":0}`
}

func TestAMemberThatOccursTwiceIsFoundWhereverItStands(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":1,"b":2,"a":3}`:                           "/a",
		` { "a" : "x\"," , "\u0061" : [ ] } `:           "/a",
		`{"l":[true,-1.5e3,{"b":{"c":null,"c":null}}]}`: "/l/2/b/c",
		`[[],[{"":1,"":2}]]`:                            "/1/0/",
		`{"a/b~":{"天":1,"天":2}}`:                        "/a~1b~0/天",
		many(40, "n3"):                                  "/n3",
		many(40, "n39"):                                 "/n39",
		many(40, "n40"):                                 "",
		`{"a":{"a":[{"a":"a"},{"a":"a"}]},"A":"a"}`:     "",
		`{"\\":1,"\"":2,"\\\"":"}{"}`:                   "",
		`{}`:                                            "", `[]`: "", `7`: "", `"x"`: "", `null`: "",
		strings.Repeat(`[{"a":`, 4000) + `{"b":1,"b":2}` + strings.Repeat(`}]`, 4000): strings.Repeat("/0/a", 4000) + "/b",
	} {
		if got, found := jsontext.Duplicate([]byte(raw)); got != want || found != (want != "") {
			t.Errorf("%.80s: got %.80q, %v, want %.80q", raw, got, found, want)
		}
	}
}

func FuzzDuplicate(f *testing.F) {
	for _, raw := range values[:len(values)-3] {
		f.Add([]byte(raw))
	}
	f.Add([]byte(many(20, "n3")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		want := false
		dec := json.NewDecoder(bytes.NewReader(raw))
		repeats(t, dec, &want)
		if at, got := jsontext.Duplicate(raw); got != want || !got && at != "" {
			t.Errorf("%q: got %q, %v, want %v", raw, at, got, want)
		}
	})
}

// repeats reads a value token by token and tells whether a name in it comes twice.
func repeats(t *testing.T, dec *json.Decoder, found *bool) {
	tok, err := dec.Token()
	if err != nil {
		t.Skip() // nested too deep for the decoder
	}
	names := map[any]bool{}
	for open := tok; (open == json.Delim('{') || open == json.Delim('[')) && dec.More(); {
		if open == json.Delim('{') {
			name, err := dec.Token()
			if err != nil {
				t.Skip()
			}
			*found = *found || names[name]
			names[name] = true
		}
		repeats(t, dec, found)
	}
	if tok == json.Delim('{') || tok == json.Delim('[') {
		dec.Token()
	}
}

func BenchmarkDuplicate(b *testing.B) {
	raw := []byte(`{"city":"Reykjavík","days":3,"units":"metric","options":{"hourly":true,"fields":["temperature","wind","rain"]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, found := jsontext.Duplicate(raw); found {
			b.Fatal("found")
		}
	}
}

func TestFieldsAreThoseOfTheirExactNameAndTheLastOfThem(t *testing.T) {
	for raw, want := range map[string]struct {
		text string
		n    int
		fail bool
	}{
		`{"text":"a","n":1}`:                     {text: "a", n: 1},
		`{"Text":"a","TEXT":"b","n":2}`:          {n: 2},
		`{"text":"a","Text":"b"}`:                {text: "a"},
		`{"text":"a","text":"b"}`:                {text: "b"},
		`{"te\u0078t":"a"}`:                      {text: "a"},
		`{"text":null}`:                          {},
		`null`:                                   {},
		`{"text":1}`:                             {fail: true},
		`[]`:                                     {fail: true},
		`{"text":"a"`:                            {fail: true},
		`{"text":"a","other":{"text":"nested"}}`: {text: "a"},
	} {
		var text string
		var n int
		err := jsontext.Fields([]byte(raw), map[string]any{"text": &text, "n": &n})
		if (err != nil) != want.fail || !want.fail && (text != want.text || n != want.n) {
			t.Errorf("%s: %q, %d, %v", raw, text, n, err)
		}
	}
	var kept struct{ A, B json.RawMessage }
	if err := jsontext.Fields([]byte(`{"o":{"a":1},"o":{"b":2}}`), map[string]any{"o": &kept}); err != nil || kept.A != nil {
		t.Errorf("two objects were mixed: %s, %s, %v", kept.A, kept.B, err)
	}
}
