package jsoncheck

import (
	"encoding/json"
	"testing"
)

func TestFieldsAreThoseOfTheirExactNameAndTheLastOfThem(t *testing.T) {
	for raw, want := range map[string]struct {
		text string
		n    int
		fail bool
	}{
		`{"text":"a","n":1}`:                     {text: "a", n: 1},
		`{"Text":"a","TEXT":"b","n":2}`:          {n: 2},
		`{"text":"a","Text":"b"}`:                {text: "a"},
		`{"text":"a","text":"b"}`:                {text: "b"},
		`{"te\u0078t":"a"}`:                      {text: "a"},
		`{"text":null}`:                          {},
		`null`:                                   {},
		`{"text":1}`:                             {fail: true},
		`[]`:                                     {fail: true},
		`{"text":"a"`:                            {fail: true},
		`{"text":"a","other":{"text":"nested"}}`: {text: "a"},
	} {
		var text string
		var n int
		err := Fields([]byte(raw), map[string]any{"text": &text, "n": &n})
		if (err != nil) != want.fail || !want.fail && (text != want.text || n != want.n) {
			t.Errorf("%s: %q, %d, %v", raw, text, n, err)
		}
	}
	var kept struct{ A, B json.RawMessage }
	if err := Fields([]byte(`{"o":{"a":1},"o":{"b":2}}`), map[string]any{"o": &kept}); err != nil || kept.A != nil {
		t.Errorf("two objects were mixed: %s, %s, %v", kept.A, kept.B, err)
	}
}
