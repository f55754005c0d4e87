package jsonline

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

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

func FuzzScanAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"id":1,"result":{"a":[1,2,{"b":null}]},"method":"x"}`, `[1,-0.5e+10,"\u00e9\ud800"]`,
		`{"a":01}`, `{"a":1,}`, `{"a" 1}`, `"\x"`, `{"id":1,"id":2}`, `-`, `[[[[`, `{"a":tru}`, " \t{ }\n", `{"error":{},"params":[]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
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
	})
}
