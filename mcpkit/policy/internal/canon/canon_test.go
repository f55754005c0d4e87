package canon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestEqualValuesHaveOneFormAndDifferentOnesDoNot(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[true,null,"x"]}`, "{ \"b\" :[ true,null , \"\\u0078\" ],\n\"a\": 1 }", true},
		{``, ` null `, true},
		{`{}`, ` { } `, true},
		{`"\/"`, `"/"`, true},
		{`"\ud83d\ude00"`, `"😀"`, true},
		{`{"\u0061":1}`, `{"a":1}`, true},
		{`1`, `1.0`, false},
		{`100`, `1e2`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`"\ud800"`, `"\ud801"`, false},
		{`"\ud800"`, `"\ufffd"`, false},
		{"\"\xff\"", "\"\xfe\"", false},
		{`[1,2]`, `[2,1]`, false},
		{`["a","b"]`, `["a,b"]`, false},
		{`{"a":"1"}`, `{"a":1}`, false},
		{`{"a":{"b":1}}`, `{"a":{},"b":1}`, false},
		{`"a"`, `"A"`, false},
	} {
		a, errA := Sum([]byte(tc.a))
		b, errB := Sum([]byte(tc.b))
		if errA != nil || errB != nil || (a == b) != tc.same {
			t.Errorf("%s and %s: same is %v, want %v (%v, %v)", tc.a, tc.b, a == b, tc.same, errA, errB)
		}
	}
}

func TestAValueThatReadersUnderstandDifferentlyHasNoForm(t *testing.T) {
	for _, bad := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":1}`, `[{"x":{"y":0,"y":0}}]`, `{`, `{"a":1}{}`, `nul`, strings.Repeat("[", 600) + strings.Repeat("]", 600)} {
		if sum, err := Sum([]byte(bad)); err == nil {
			t.Errorf("%s has the sum %s", bad, sum)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"b":[1,{"a":"\u0041\ud800"}],"a":-1.5e3}`, `"\\\""`, `[[],{}]`, " 0 ", "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := JSON(raw)
		if err != nil {
			return
		}
		if !json.Valid(once) {
			t.Fatalf("%q became %q, which is not JSON", raw, once)
		}
		twice, err := JSON(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q became %q and then %q (%v)", raw, once, twice, err)
		}
	})
}
