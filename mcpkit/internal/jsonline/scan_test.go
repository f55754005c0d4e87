package jsonline

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestScanFindsTheTopLevelAndKeepsTheBytes(t *testing.T) {
	line := []byte(`{ "jsonrpc" : "2.0","x":{"id":9,"method":"no"},"result":{"n": 9007199254740993.10, "id":1} ,"id":1073741824 }`)
	m, ok := Scan(line)
	if !ok {
		t.Fatal("a valid message was refused")
	}
	got := []string{string(m.Version), string(m.ID), string(m.Method), string(m.Result)}
	want := []string{`"2.0"`, `1073741824`, ``, `{"n": 9007199254740993.10, "id":1}`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestScanSeesThroughEscapesInNames(t *testing.T) {
	if m, ok := Scan([]byte(`{"\u0069d":3}`)); !ok || string(m.ID) != "3" {
		t.Errorf("got %q, %v", m.ID, ok)
	}
}

func TestNestingBeyondTheLimitIsRefusedWithoutRecursion(t *testing.T) {
	deep := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat(`[{"b":`, n/2) + "1" + strings.Repeat("}]", n/2) + "}")
	}
	if _, ok := Scan(deep(2000)); !ok {
		t.Error("2000 levels were refused")
	}
	if _, ok := Scan(deep(1_000_000)); ok {
		t.Error("a million levels were taken")
	}
}

func TestCleanReplacesBadBytesAndLoneSurrogates(t *testing.T) {
	for in, want := range map[string]string{
		"\"ok \xff \xc3 \"":           "\"ok \uFFFD \uFFFD \"",
		`"\ud800 end"`:                `"\ufffd end"`,
		`"\ud83d\ude00 \ude00\ud83d"`: `"\ud83d\ude00 \ufffd\ufffd"`,
		`"\\ud800 \\\ud800"`:          `"\\ud800 \\\ufffd"`,
	} {
		if got := string(Clean([]byte(in))); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestElementsWalksAnArray(t *testing.T) {
	var got []string
	ok := Elements([]byte(` [ 1, {"a":[]} ,"x" ] `), func(v []byte) { got = append(got, string(v)) })
	if d := cmp.Diff([]string{"1", `{"a":[]}`, `"x"`}, got); !ok || d != "" {
		t.Error(ok, d)
	}
	for _, bad := range []string{"", "[", "[1,]", "[1]x", "{}", "[1 2]"} {
		if Elements([]byte(bad), func([]byte) {}) {
			t.Errorf("%q was taken for an array", bad)
		}
	}
}

func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"id":1,"result":{"a":[1,2,{"b":null}]},"method":"x"}`, `[1,-0.5e+10,"\u00e9\ud800"]`,
		`{"a":01}`, `{"a":1,}`, `{"a" 1}`, `"\x"`, `{"id":1,"id":2}`, `-`, `[[[[`, `{"a":tru}`, " \t{ }\n", `{"error":{},"params":[]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := Valid(b), json.Valid(b); got != want {
			t.Fatalf("Valid(%q) = %v, encoding/json says %v", b, got, want)
		}
		var want map[string]json.RawMessage
		err := json.Unmarshal(b, &want)
		m, ok := Scan(b)
		if ok != (err == nil && want != nil) {
			t.Fatalf("Scan(%q) = %v, encoding/json says %v", b, ok, err)
		}
		if ok {
			for name, part := range map[string][]byte{"jsonrpc": m.Version, "id": m.ID, "method": m.Method, "params": m.Params, "result": m.Result, "error": m.Error} {
				if !bytes.Equal(part, want[name]) {
					t.Fatalf("in %q %s is %q, encoding/json says %q", b, name, part, want[name])
				}
			}
		}
		valid := json.Valid(b)
		clean := Clean(bytes.Clone(b))
		if !utf8.Valid(clean) || valid && !json.Valid(clean) {
			t.Fatalf("Clean(%q) = %q", b, clean)
		}
	})
}
