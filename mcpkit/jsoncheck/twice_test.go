package jsoncheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

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
		if got, found := Twice([]byte(raw)); got != want || found != (want != "") {
			t.Errorf("%.80s: got %.80q, %v, want %.80q", raw, got, found, want)
		}
	}
}

func FuzzTwice(f *testing.F) {
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
		if at, got := Twice(raw); got != want || !got && at != "" {
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

func BenchmarkTwice(b *testing.B) {
	raw := []byte(`{"city":"Reykjavík","days":3,"units":"metric","options":{"hourly":true,"fields":["temperature","wind","rain"]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, found := Twice(raw); found {
			b.Fatal("found")
		}
	}
}

func TestHalfACharacterIsFoundHoweverItIsEscaped(t *testing.T) {
	for raw, want := range map[string]bool{
		`"\ud800"`: true, `"\uDFFF"`: true, `{"a":["x\uD83D"]}`: true, `{"\udc00":1}`: true, `"\ude00\ud83d"`: true, `"\ud83dx\ude00"`: true, `"\ud83d\ud83d\ude00"`: true,
		`"\ud83d\ude00"`: false, `"\uD83D\uDE00\uD83D\uDE00"`: false, `"\\ud800"`: false, `"\ud7ff\ue000"`: false, `"😀"`: false, `"\n\u0041"`: false, `1`: false, `"\\"`: false,
		`"\\\ud800"`: true,
	} {
		if got := Lone([]byte(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func FuzzLone(f *testing.F) {
	for _, s := range []string{`"\ud800"`, `{"a":"\ud83d\ude00\\"}`, `["\u0041\\u"]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || !utf8.Valid(raw) || bytes.ContainsRune(raw, '\uFFFD') || bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) {
			return
		}
		var v any
		if json.Unmarshal(raw, &v) != nil {
			return // a number beyond what fits
		}
		out, _ := json.Marshal(v) // which has U+FFFD for half a character
		if got, want := Lone(raw), bytes.ContainsRune(out, '\uFFFD'); got != want && !twice(raw) {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	})
}

func twice(raw []byte) bool { _, found := Twice(raw); return found }
