package wire

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestRetryAfterIsReadInEveryForm(t *testing.T) {
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "3", 3 * time.Second},
		{"Retry-After", "0.25", 250 * time.Millisecond},
		{"Retry-After-Ms", "120", 120 * time.Millisecond},
		{"Retry-After", "Tue, 28 Jul 2026 12:00:09 GMT", 9 * time.Second},
		{"Retry-After", "Tue, 28 Jul 2026 11:00:00 GMT", 0},
		{"Retry-After", "soon", -1},
		{"Retry-After", "-5", -1},
		{"Retry-After", "1e300", -1},
		{"Retry-After", "NaN", -1},
		{"X-Other", "1", -1},
	} {
		h := http.Header{}
		h.Set(c.name, c.value)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%s: %s is %v, want %v", c.name, c.value, got, c.want)
		}
	}
}

func TestOnlyDataLinesOfAStreamAreReadWhateverItsPieces(t *testing.T) {
	in := ": keep\r\n\r\nevent: x\ndata:{\"a\":1}\n\nid: 4\ndata:   {\"error\":null}\r\nretry: 9\ndata: [DONE]"
	want := "data: {\"a\":1}\ndata: {\"error\":null}\ndata: [DONE]\n"
	for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
		got, err := io.ReadAll(iotest.OneByteReader(newDataLines(r, func([]byte) {})))
		if err != nil || string(got) != want {
			t.Errorf("%v: %q", err, got)
		}
	}
	broken := errors.New("broken")
	for _, before := range []string{"", "data: {}\n", "data: {}\ndata: {\"half"} {
		r := io.MultiReader(strings.NewReader(before), iotest.ErrReader(broken))
		got, err := io.ReadAll(newDataLines(r, func([]byte) {}))
		if !errors.Is(err, broken) || strings.Contains(string(got), "half") {
			t.Errorf("a stream that breaks after %q ends with %v and is %q", before, err, got)
		}
	}
	failed := strings.NewReader("data: {\"a\":1}\ndata: {\"id\":\"x\",\"error\":{\"message\":\"lost\"}}\ndata: {\"b\":2}\n")
	if got, err := io.ReadAll(newDataLines(failed, func([]byte) {})); err == nil || err.Error() != "lost" || string(got) != "data: {\"a\":1}\n" {
		t.Errorf("a stream that says an error ends with %v and is %q", err, got)
	}
	long := io.MultiReader(strings.NewReader("data: "), strings.NewReader(strings.Repeat("x", maxSSELine)))
	if _, err := io.ReadAll(newDataLines(long, func([]byte) {})); err == nil || !strings.Contains(err.Error(), "a line of the endpoint's answer exceeds") {
		t.Errorf("a line without end ends with %v", err)
	}
}

func TestAnAnswerWithoutEndIsRefused(t *testing.T) {
	c := &capped{r: strings.NewReader(strings.Repeat("x", 100)), left: 10}
	got, err := io.ReadAll(c)
	if len(got) != 10 || err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("%d bytes, then %v", len(got), err)
	}
}
