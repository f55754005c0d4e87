package bridge

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestAStepIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	texts := []string{"", "plain", "two\nlines \"quoted\" \\ <b> & é 天气 \u2028 \x01 \xff"}
	raws := []json.RawMessage{nil, json.RawMessage(`{"a":"<b>","n":1.0}`), json.RawMessage(`null`)}
	var steps []*signal.Step
	members := reflect.TypeFor[signal.Step]().NumField()
	for i := range 3 {
		all := &signal.Step{}
		for j := range members {
			one := &signal.Step{}
			for _, s := range []*signal.Step{one, all} {
				switch p := reflect.ValueOf(s).Elem().Field(j).Addr().Interface().(type) {
				case *string:
					*p = texts[i]
				case *int64:
					*p = int64(i - 1)
				case *bool:
					*p = i == 1
				case *json.RawMessage:
					*p = raws[i]
				case *[]string:
					*p = texts[:i]
				default:
					t.Fatalf("a step has a member of type %T", p)
				}
			}
			steps = append(steps, one)
		}
		steps = append(steps, all)
	}
	w := &writer{Bridge: New(Options{})}
	for _, s := range steps {
		got, err := w.step(s)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != want.String() {
			t.Fatalf("got  %s\nwant %s", got, want.Bytes())
		}
	}
	if _, err := w.step(&signal.Step{Result: json.RawMessage(`{"a":`)}); err == nil {
		t.Error("what is no JSON was written")
	}
}

func TestNoPartOfAStepKeepsASecret(t *testing.T) {
	b := New(Options{
		Redact:     func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter2"), []byte("***")) },
		RedactText: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") },
	})
	var all signal.Step
	for i := range reflect.TypeFor[signal.Step]().NumField() {
		switch p := reflect.ValueOf(&all).Elem().Field(i).Addr().Interface().(type) {
		case *string:
			*p = "my hunter2"
		case *json.RawMessage:
			*p = json.RawMessage(`{"a":"my hunter2"}`)
		case *[]string:
			*p = []string{"my hunter2"}
		}
	}
	w := &writer{Bridge: b}
	got, err := w.step(&all)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(got) || bytes.Contains(got, []byte("hunter2")) || bytes.Count(got, []byte("my ***")) != 17 {
		t.Errorf("got %s", got)
	}
}
