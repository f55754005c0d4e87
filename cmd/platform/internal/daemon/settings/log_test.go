package settings

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestDurationsInTheLogHaveAUnitInBothFormats(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		Log{Level: "info", Format: format}.Logger(&out).Info("slow", "took", 1500*time.Millisecond)
		if !strings.Contains(out.String(), "1.5s") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
