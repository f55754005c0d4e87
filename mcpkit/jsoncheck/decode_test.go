package jsoncheck

import (
	"encoding/json"
	"strings"
	"testing"

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

func FuzzDecode(f *testing.F) {
	for _, raw := range values[:len(values)-3] {
		f.Add([]byte(raw))
	}
	f.Fuzz(same)
}

func same(t *testing.T, raw []byte) {
	got, err := Decode(raw)
	if valid := json.Valid(raw); valid != (err == nil) || valid != Valid(raw) {
		t.Fatalf("%.60q: %v, valid %v", raw, err, Valid(raw))
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
