package jsontext

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
		a, errA := AppendCanonical(nil, []byte(tc.a))
		b, errB := AppendCanonical(nil, []byte(tc.b))
		if errA != nil || errB != nil || bytes.Equal(a, b) != tc.same {
			t.Errorf("%s and %s: same is %v, want %v (%v, %v)", tc.a, tc.b, bytes.Equal(a, b), tc.same, errA, errB)
		}
	}
}

func TestAValueThatReadersUnderstandDifferentlyHasNoForm(t *testing.T) {
	for _, bad := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":1}`, `[{"x":{"y":0,"y":0}}]`, `{`, `{"a":1}{}`, `nul`, strings.Repeat("[", 600) + strings.Repeat("]", 600)} {
		if form, err := AppendCanonical(nil, []byte(bad)); err == nil {
			t.Errorf("%s has the form %s", bad, form)
		}
	}
}

func TestTheCanonicalFormIsWhatItHasAlwaysBeen(t *testing.T) {
	for in, want := range map[string]string{
		` {"b" : 1.0 , "a": ["\u0041", {}, [ ], null, true] } `: `{"a":["A",{},[],null,true],"b":1.0}`,
		`"<b> & \/ \u2028 \u00e9 \b\f\u0007\u007f"`:             `"\u003cb\u003e \u0026 / \u2028 é \b\f\u0007` + "\x7f" + `"`,
		`{"a!":1,"a":2,"a b":3}`:                                `{"a b":3,"a!":1,"a":2}`, // by the name as it is written, with its quotes
		`{"z":{"y":1,"x":2},"\u00e9":0,"<":9,"A":{}}`:           `{"A":{},"\u003c":9,"z":{"x":2,"y":1},"é":0}`,
		`["\ud800\u0041", "\ufffd\u0041"]`:                      `["\ud800\u0041","\ufffd\u0041"]`, // as it is written
	} {
		got, err := AppendCanonical([]byte("> "), []byte(in))
		if err != nil || string(got) != "> "+want {
			t.Errorf("%s: %s, %v, want %s", in, got, err, want)
		}
	}
	if _, err := AppendCanonical(nil, []byte(strings.Repeat("[", 500)+strings.Repeat("]", 500))); err != nil {
		t.Errorf("500 levels: %v", err)
	}
}

func FuzzCompact(f *testing.F) {
	for _, s := range []string{"{ \"a b\" : [ 1 , -2.5e3 ,\ttrue ] }\n", `"\\\" "`, `[1,2]`, `{`, "\"\xff\"", ` `,
		`{"a":[1,-0.5e+3,"x\u00e9\n",true,false,null,{}],"b":[]}`, `01`, `-`, `1.`, `1e`, `"\x"`, `"\u12g4"`, `{"a"}`, `[1,]`, `{,}`, `tru`,
		`{"a":1`, ` 1`, `1 `, "\"\x01\"", `[[[[]]]]`, ``, `{"a":1}{`, `"`, `"\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want bytes.Buffer
		err := json.Compact(&want, raw)
		got, ours := AppendCompact([]byte("> "), raw)
		if (err == nil) != (ours == nil) {
			t.Fatalf("%q: %v, encoding/json says %v", raw, ours, err)
		}
		if err == nil && string(got) != "> "+want.String() {
			t.Fatalf("%q became %q, want %q", raw, got, want.String())
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":[1,{"a":"\u0041\ud800"}],"a":-1.5e3}`, `"\\\""`, `[[],{}]`, " 0 ", "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := AppendCanonical(nil, raw)
		if err != nil || len(raw) == 0 {
			return
		}
		if s := String(raw); raw[0] == '"' && raw[len(raw)-1] == '"' && !strings.ContainsRune(s, '\uFFFD') {
			if want, _ := json.Marshal(s); !bytes.Equal(once, want) {
				t.Fatalf("%q became %s, want %s", raw, once, want)
			}
		}
		if !json.Valid(once) {
			t.Fatalf("%q became %q, which is not JSON", raw, once)
		}
		twice, err := AppendCanonical(nil, once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q became %q and then %q (%v)", raw, once, twice, err)
		}
	})
}
