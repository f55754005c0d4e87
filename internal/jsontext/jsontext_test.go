package jsontext_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"

	"github.com/google/go-cmp/cmp"
)

var values = []string{
	`{}`, `[]`, ` { "a" : [ 1 , -0.5e+3 , true , false , null , "x" ] , "a" : {"b":{}} } `, `"\u00e9\ud83d\ude00\ud800"`, `"天气"`, "\"\xff\"", `12345678901234567890.0`,
	``, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[1 2]`, `01`, `-`, `1.`, `1e`, `+1`, `.5`, `tru`, `nullx`, `"\x"`, `"\u12"`, "\"\n\"", `"a`, `"\"`, `{} {}`, `{1:2}`, "\u00a0{}",
	strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat("[", 1<<20),
}

func TestAValueIsReadAsEncodingJSONReadsIt(t *testing.T) {
	for _, raw := range values {
		same(t, []byte(raw))
	}
}

func TestAnErrorNamesTheByteThatWasNotExpected(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":1,}`: "unexpected byte '}' at 7", `[1 2]`: "unexpected byte '2' at 3", `tru!`: "unexpected byte '!' at 3", `{} x`: "unexpected byte 'x' at 3",
		`01`: "unexpected byte '1' at 1", `-a`: "unexpected byte 'a' at 1", `1.e`: "unexpected byte 'e' at 2", `"a\x"`: "unexpected byte 'x' at 3",
		`"\u12g4"`: "unexpected byte 'g' at 5", "\"a\n\"": "unexpected byte '\\n' at 2", `{1:2}`: "unexpected byte '1' at 1", `{"a"}`: "unexpected byte '}' at 4",
		"\x00": "unexpected byte '\\x00' at 0", "[1]\x00": "unexpected byte '\\x00' at 3",
		``: "unexpected EOF", ` {"a":[1`: "unexpected EOF", `"a`: "unexpected EOF", `"\u12`: "unexpected EOF", `-`: "unexpected EOF",
		strings.Repeat(`[`, 10_001): "nested too deep at byte 10000",
	} {
		if err := jsontext.Check([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", raw, err, want)
		}
		if _, err := jsonvalue.Decode([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("decoding %.40q: %v, want %s", raw, err, want)
		}
	}
}

func TestTheDepthIsThatOfTheDeepestValue(t *testing.T) {
	for raw, want := range map[string]int{`1`: 0, `"[["`: 0, `[]`: 1, `{"a":[],"b":{"c":[1]},"d":2}`: 3, `[[[`: 3, `[[1],x[[[`: 2} {
		if got := jsontext.Depth([]byte(raw)); got != want {
			t.Errorf("%s: %d, want %d", raw, got, want)
		}
	}
}

func TestNestingIsLimitedInsideMembersToo(t *testing.T) {
	deep := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat(`[{"b":`, n/2) + "1" + strings.Repeat("}]", n/2) + "}")
	}
	for n, want := range map[int]bool{2000: true, 9_998: true, 10_000: false, 1_000_000: false} {
		raw := deep(n)
		if got := jsontext.Members(raw, func(_, _ []byte) bool { return true }); got != want || jsontext.Valid(raw) != want {
			t.Errorf("%d levels in an object: %v, valid %v", n, got, jsontext.Valid(raw))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, raw := range values[:len(values)-3] {
		f.Add([]byte(raw))
	}
	f.Fuzz(same)
}

func same(t *testing.T, raw []byte) {
	got, err := jsonvalue.Decode(raw)
	if valid := json.Valid(raw); valid != (err == nil) || valid != jsontext.Valid(raw) || valid != (jsontext.Check(raw) == nil) {
		t.Fatalf("%.60q: %v, valid %v", raw, err, jsontext.Valid(raw))
	}
	if err != nil {
		return
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil {
		t.Fatalf("%.60q: %v", raw, err)
	}
	if len(raw) > 1<<10 {
		return // too deep to be compared
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%.60q: %s", raw, diff)
	}
}
