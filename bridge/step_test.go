package bridge

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

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
	got := b.data(&all)
	if !json.Valid(got) || bytes.Contains(got, []byte("hunter2")) || bytes.Count(got, []byte("my ***")) != 17 {
		t.Errorf("got %s", got)
	}
}

func TestDataOfASignalIsWrittenAsItIsOrSaysWhyNot(t *testing.T) {
	b := New(Options{})
	text := "two\nlines \"quoted\" \\ <b> & é 天气"
	got := b.data(&signal.Step{CallID: "c", Tool: text, Arguments: json.RawMessage(`{"a":"<b>","n":1.0}`)})
	if want := `{"call_id":"c","tool":"two\nlines \"quoted\" \\ <b> & é 天气","arguments":{"a":"<b>","n":1.0}}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var why string
	if err := json.Unmarshal(b.data(&signal.Step{Result: json.RawMessage(`{"a":`)}), &why); err != nil || !strings.Contains(why, "could not be written") {
		t.Errorf("what is no JSON became %q, %v", why, err)
	}
}
