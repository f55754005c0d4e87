package format

import (
	"errors"
	"testing"
)

func TestOnlyAHigherVersionOfTheSameFormatIsNewer(t *testing.T) {
	for head, newer := range map[string]bool{
		"aurtest3 and more": true, "aurtest9": true,
		"aurtest2 and more": false, "aurtest1": false, "aurtest:": false, "aurtestq": false, "another3": false, "aurtest": false, "": false,
	} {
		if err := Check("file", []byte(head), "aurtest2"); errors.Is(err, ErrNewer) != newer || (err == nil) == newer {
			t.Errorf("%q: %v", head, err)
		}
	}
}
