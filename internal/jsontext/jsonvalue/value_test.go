package jsonvalue

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

func TestParseKeepsOrderAndDigits(t *testing.T) {
	const in = `{"b":9007199254740993,"a":[1.50,1e2,-0,"é\u0041\n\"","<&>",null,true,false],"":{},"b2":"\u2028"}`
	v, err := Parse([]byte(" \n"+in+"\t"), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"b":9007199254740993,"a":[1.50,1e2,-0,"éA\n\"","<&>",null,true,false],"":{},"b2":"\u2028"}`
	if got := string(Append(nil, v)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseRefusesWhatIsNotOneValue(t *testing.T) {
	for _, in := range []string{``, ` `, `{`, `{"a":1}{}`, `[1,]`, `nul`, `"\x"`, `01`, `{"a" 1}`} {
		if v, err := Parse([]byte(in), Limits{}); err == nil {
			t.Errorf("%q became %v", in, v)
		}
	}
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	if _, err := Parse([]byte(deep), Limits{Depth: 100}); !errors.Is(err, jsontext.ErrDepth) {
		t.Errorf("200 levels: %v", err)
	}
	if _, err := Parse([]byte(`{"a":1,"a":2}`), Limits{Strict: true}); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a key twice: %v", err)
	}
	if v, err := Parse([]byte(`{"a":1,"b":0,"a":2}`), Limits{}); err != nil || string(Append(nil, v)) != `{"a":2,"b":0}` {
		t.Errorf("the last value wins in the first place: %s, %v", Append(nil, v), err)
	}
}

func TestEqualIsAboutValuesNotSpelling(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1}`, true},
		{`1e2`, `100`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`"1"`, `1`, false},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":1}`, `{"a":1,"b":1}`, false},
		{`1e999999999`, `1e999999998`, false},
		{`null`, `false`, false},
	} {
		a, errA := Parse([]byte(c.a), Limits{})
		b, errB := Parse([]byte(c.b), Limits{})
		if errA != nil || errB != nil || Equal(a, b) != c.want {
			t.Errorf("Equal(%s, %s) = %v", c.a, c.b, !c.want)
		}
	}
}

func TestAnObjectKeepsPlacesWhenKeysChange(t *testing.T) {
	o := NewObject("a", "1", "b", "2", "c", "3")
	keys := o.Keys()
	copied := o.Shallow()
	o.Rename("b", "x")
	o.Delete("a", "none")
	o.Set("c", "4")
	o.Set("d", nil)
	if got := string(Append(nil, o)); got != `{"x":"2","c":"4","d":null}` {
		t.Errorf("got %s", got)
	}
	if got := string(Append(nil, copied)); got != `{"a":"1","b":"2","c":"3"}` || strings.Join(keys, "") != "abc" {
		t.Errorf("a copy changed: %s, %q", got, keys)
	}
}

func FuzzParseAgreesWithTheStandardLibrary(f *testing.F) {
	for _, s := range []string{`{"a":[1,"x",null]}`, `"\ud800"`, "\"\xff\"", `-0.0e-1`, ` [ ] `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Parse(in, Limits{})
		var std any
		d := json.NewDecoder(strings.NewReader(string(in)))
		d.UseNumber()
		if (err == nil) != json.Valid(in) && !errors.Is(err, jsontext.ErrDepth) {
			t.Fatalf("%q: %v", in, err)
		}
		if err != nil {
			return
		}
		if err := d.Decode(&std); err != nil {
			t.Fatal(err)
		}
		ours, err1 := json.Marshal(Plain(v))
		theirs, err2 := json.Marshal(std)
		if err1 != nil || err2 != nil || string(ours) != string(theirs) {
			t.Fatalf("%q: %s and %s", in, ours, theirs)
		}
		again, err := Parse(Append(nil, v), Limits{})
		if err != nil || !Equal(v, again) {
			t.Fatalf("%q does not survive: %s", in, Append(nil, v))
		}
	})
}
