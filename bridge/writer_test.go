package bridge

import (
	"fmt"
	"strings"
	"testing"
)

func TestWordsThatAreRememberedInABatchStayThemselves(t *testing.T) {
	asked, secret := 0, "hunter2"
	w := &writer{Bridge: New(Options{RedactText: func(s string) string {
		asked++
		return strings.ReplaceAll(s, secret, "[redacted]")
	}})}
	defer w.Close(t.Context())
	var words []string
	for i := range 500 { // more than are remembered
		words = append(words, fmt.Sprintf("word %d is hunter2", i))
	}
	words = append(words, "", strings.Repeat("long ", maxCleaned)+"hunter2")
	for range 3 {
		for _, word := range words {
			for range 2 {
				if got, want := w.clean(word), strings.ReplaceAll(word, secret, "[redacted]"); got != want {
					t.Fatalf("%q becomes %q", word, got)
				}
			}
		}
	}
	if asked > 3*(len(words)+2) {
		t.Errorf("%d looks at %d words", asked, 6*len(words))
	}
	secret = "word"
	w.begin(1)
	if got := w.clean(words[499]); strings.Contains(got, "word") {
		t.Errorf("a secret that became known since the last batch is told: %q", got)
	}
}
