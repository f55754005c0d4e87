package signal

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

func TestAStepIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	values := map[reflect.Type][]any{
		reflect.TypeFor[string]():          {"a <b> & \"c\"\n\u2028é", "\xff"},
		reflect.TypeFor[int64]():           {int64(-7)},
		reflect.TypeFor[bool]():            {true},
		reflect.TypeFor[[]string]():        {[]string{}, []string{"one"}, []string{"one", "two <"}},
		reflect.TypeFor[json.RawMessage](): {json.RawMessage(` { "a" : [ 1.0 , "<" ] } `), json.RawMessage{}},
	}
	same := func(s Step) {
		t.Helper()
		got, err := s.AppendJSON(nil)
		want, wrong := jsontext.Marshal(&s)
		if err != nil || wrong != nil || string(got) != string(want) {
			t.Errorf("a step is written as\n%s, %v, want\n%s, %v", got, err, want, wrong)
		}
	}
	same(Step{})
	all := reflect.TypeFor[Step]()
	whole := Step{}
	for i := range all.NumField() {
		of := values[all.Field(i).Type]
		if of == nil {
			t.Fatalf("the test has no value for %s, a %s", all.Field(i).Name, all.Field(i).Type)
		}
		for _, v := range of {
			var one Step
			reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(v))
			same(one)
		}
		reflect.ValueOf(&whole).Elem().Field(i).Set(reflect.ValueOf(of[0]))
	}
	same(whole)
}

func TestAStepWithAValueThatIsNoJSONIsNotWritten(t *testing.T) {
	for _, s := range []Step{{Arguments: json.RawMessage(`{"a"`)}, {Artifact: json.RawMessage(`x`)}, {Result: json.RawMessage(`1 2`)}} {
		if got, err := s.AppendJSON(nil); err == nil {
			t.Errorf("%s was written", got)
		}
	}
}
