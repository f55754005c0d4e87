package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// encoded is s as encoding/json writes it without escapes for HTML.
func encoded(t *testing.T, s string) string {
	t.Helper()
	b, err := Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMarshalWritesAsEncodingJSONButForHTML(t *testing.T) {
	got, err := Marshal(map[string]any{"a": "<b> & c", "n": json.RawMessage("1.0")})
	if err != nil || string(got) != `{"a":"<b> & c","n":1.0}` {
		t.Errorf("it is %s, %v", got, err)
	}
	if got, err := Marshal(json.RawMessage(`{"a"`)); err == nil || got != nil {
		t.Errorf("what is no JSON is %s", got)
	}
}

func TestAStringIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	for i := range 0x120 {
		for _, s := range []string{string(rune(i)), "12345678" + string(rune(i)) + "90", string([]byte{byte(i), 'x'}), "\u2027\u2028\u2029\u202a \uFFFD 😀\xe2\x80" + string(rune(i))} {
			if got, want := string(AppendQuote([]byte("x"), s)), "x"+encoded(t, s); got != want {
				t.Errorf("%q is written %s, want %s", s, got, want)
			}
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "<&>\x00\b\f\n\r\t\"\\\x7f", "\u2028\xff\xe2\x80 😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Quote(s)
		if want := encoded(t, s); string(got) != want || string(AppendQuote(nil, []byte(s))) != want {
			t.Fatalf("%q is written %s, want %s", s, got, want)
		}
		if back, want := String(got), string(bytes.ToValidUTF8([]byte(s), nil)); utf8.ValidString(s) && back != want {
			t.Fatalf("%q comes back as %q", s, back)
		}
	})
}

func TestAStringIsReadUpToALimitAndEndsBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		raw   string
		limit int
		want  string
	}{
		{`"plain"`, 100, "plain"},
		{`"plain"`, 2, "pl"},
		{`"a\nb\u00e9c"`, 100, "a\nbéc"},
		{`"a\nb\u00e9c"`, 2, "a"},
		{`"a\nb\u00e9c"`, 3, "a\n"},
		{`"a\nb\u00e9c"`, 8, "a\nb"},
		{`"\\\\\\"`, 3, `\`},
		{`17`, 5, ""},
		{`"天气"`, 4, "天"},
		{`"a\u00e9b"`, 6, "a"},
		{`"a\u00e9b"`, 7, "aé"},
		{`"\ud83d\ude00\ud800x"`, 99, "😀\uFFFDx"},
		{"\"\xffa\xc3\"", 9, "\uFFFDa\uFFFD"},
		{`""`, 9, ""},
		{`null`, 9, ""},
		{`"`, 9, ""},
		{``, 9, ""},
	} {
		if got := string(AppendUnquote([]byte("> "), []byte(c.raw), c.limit)); got != "> "+c.want {
			t.Errorf("%s up to %d: %q, want %q", c.raw, c.limit, got, c.want)
		}
	}
}

func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`"a\"\\\/\b\f\n\r\t\u0041"`, `"\ud83d\ude00\ud83d"`, "\"\xff\"", `1`} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		var want string
		if json.Unmarshal(raw, &want) != nil || raw[0] != '"' || raw[len(raw)-1] != '"' {
			return
		}
		if got := String(raw); got != want {
			t.Fatalf("%q means %q, want %q", raw, got, want)
		}
		if limit < 0 {
			return
		}
		// Of a cut pair of surrogates the first half may be left.
		got := string(AppendUnquote(nil, raw, limit))
		if !strings.HasPrefix(want, strings.TrimSuffix(got, "\uFFFD")) || !utf8.ValidString(got) {
			t.Fatalf("%q up to %d means %q, the whole %q", raw, limit, got, want)
		}
	})
}

func TestCleanReplacesBadBytesAndLoneSurrogates(t *testing.T) {
	for in, want := range map[string]string{
		"\"ok \xff \xc3 \"":           "\"ok \uFFFD \uFFFD \"",
		`"\ud800 end"`:                `"\ufffd end"`,
		`"\ud83d\ude00 \ude00\ud83d"`: `"\ud83d\ude00 \ufffd\ufffd"`,
		`"\\ud800 \\\ud800"`:          `"\\ud800 \\\ufffd"`,
		`"\`:                          `"\`,
	} {
		if got := string(Clean([]byte(in))); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{`"\ud800"`, "\"\xff\"", `{"a":"\ud83d\ude00\\"}`, `\`, `\ud`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		valid := json.Valid(b)
		clean := Clean(bytes.Clone(b))
		if !utf8.Valid(clean) || valid && (!json.Valid(clean) || LoneSurrogate(clean)) {
			t.Fatalf("Clean(%q) = %q", b, clean)
		}
	})
}

func TestHalfACharacterIsFoundHoweverItIsEscaped(t *testing.T) {
	for raw, want := range map[string]bool{
		`"\ud800"`: true, `"\uDFFF"`: true, `{"a":["x\uD83D"]}`: true, `{"\udc00":1}`: true, `"\ude00\ud83d"`: true, `"\ud83dx\ude00"`: true, `"\ud83d\ud83d\ude00"`: true,
		`"\ud83d\ude00"`: false, `"\uD83D\uDE00\uD83D\uDE00"`: false, `"\\ud800"`: false, `"\ud7ff\ue000"`: false, `"😀"`: false, `"\n\u0041"`: false, `1`: false, `"\\"`: false,
		`"\\\ud800"`: true,
	} {
		if got := LoneSurrogate([]byte(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func FuzzLoneSurrogate(f *testing.F) {
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
		if got, want := LoneSurrogate(raw), bytes.ContainsRune(out, '\uFFFD'); got != want && !hasDuplicate(raw) {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	})
}

func hasDuplicate(raw []byte) bool { _, found := Duplicate(raw); return found }
