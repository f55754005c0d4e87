package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/client/internal/sse"
)

// all reads every event of a stream.
func all(r io.Reader, max int) (events []sse.Event, err error) {
	for reader := sse.NewReader(r, max); ; {
		e, err := reader.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func TestEventsAreReadAsTheStandardSays(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []sse.Event
	}{
		"plain":                      {"data: {}\n\n", []sse.Event{{Data: []byte("{}"), Retry: -1}}},
		"crlf":                       {"event: message\r\nid: 7\r\ndata: {}\r\n\r\n", []sse.Event{{Name: "message", ID: "7", Data: []byte("{}"), Retry: -1}}},
		"no blank after the colon":   {"data:x\n\n", []sse.Event{{Data: []byte("x"), Retry: -1}}},
		"one blank alone is dropped": {"data:  x\n\n", []sse.Event{{Data: []byte(" x"), Retry: -1}}},
		"lines of data are joined":   {"data: a\ndata: b\ndata\n\n", []sse.Event{{Data: []byte("a\nb\n"), Retry: -1}}},
		"comments and unknown":       {": hello\nfoo: bar\n\n: x\n\ndata: 1\n\n", []sse.Event{{Data: []byte("1"), Retry: -1}}},
		"a priming event":            {"id: 1\nretry: 500\ndata:\n\n", []sse.Event{{ID: "1", Retry: 500 * time.Millisecond, Data: []byte{}}}},
		"retry alone":                {"retry: 10\n\n", []sse.Event{{Retry: 10 * time.Millisecond}}},
		"retry that is none":         {"retry: soon\ndata: 1\n\n", []sse.Event{{Retry: -1, Data: []byte("1")}}},
		"an id with NUL":             {"id: a\x00b\ndata: 1\n\n", []sse.Event{{Retry: -1, Data: []byte("1")}}},
		"byte order mark":            {"\uFEFFdata: 1\n\n", []sse.Event{{Retry: -1, Data: []byte("1")}}},
		"without its end":            {"id: 3\ndata: {\"a\"", []sse.Event{{Retry: -1, Data: []byte(`{"a"`)}}},
		"U+2028 ends no line":        {"data: a\u2028b\n\n", []sse.Event{{Retry: -1, Data: []byte("a\u2028b")}}},
		"nothing":                    {"", nil},
		"a field of 1 MB":            {"id: " + strings.Repeat("x", 1<<20) + "\ndata: 1\n\n", []sse.Event{{Retry: -1, Data: []byte("1")}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := all(strings.NewReader(c.stream), 1<<10)
			if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
			bytewise, _ := all(iotest.OneByteReader(strings.NewReader(c.stream)), 1<<10)
			if diff := cmp.Diff(got, bytewise); diff != "" {
				t.Errorf("one byte at a time it differs:\n%s", diff)
			}
		})
	}
}

func TestAnEventBeyondTheLimitIsSkippedAndTheNextIsWhole(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	got, err := all(strings.NewReader("data: "+long+"\ndata: "+long+"\n\ndata: ok\n\n"), 80<<10)
	if !errors.Is(err, io.EOF) || len(got) != 2 {
		t.Fatalf("%d events, %v", len(got), err)
	}
	if got[0].Skipped != int64(2*len(long)+1) || !strings.HasPrefix(long, string(got[0].Data)) || len(got[0].Data) != 64<<10 {
		t.Errorf("skipped %d, kept %d bytes", got[0].Skipped, len(got[0].Data))
	}
	if string(got[1].Data) != "ok" || got[1].Skipped != 0 {
		t.Errorf("the next one is %q", got[1].Data)
	}
}

func TestAStreamThatBreaksKeepsItsError(t *testing.T) {
	broken := errors.New("reset")
	got, err := all(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2\n"), iotest.ErrReader(broken)), 1<<10)
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func FuzzReaderKeepsItsLimitAndEnds(f *testing.F) {
	for _, s := range []string{"data: 1\n\n", "id: 1\r\nretry: 5\r\ndata\r\n\r\n", ":\n\n\n", "data: " + strings.Repeat("y", 200)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 64
		events, err := all(strings.NewReader(string(b)), limit)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Skipped == 0 && len(e.Data) > limit || e.Skipped > 0 && e.Skipped <= limit {
				t.Fatalf("%d bytes, %d skipped", len(e.Data), e.Skipped)
			}
			if len(e.ID) > 4<<10 || len(e.Name) > 4<<10 {
				t.Fatal("a field is too long")
			}
		}
	})
}
