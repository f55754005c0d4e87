package jsonline

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readAll(t *testing.T, src io.Reader, max int) (lines []string, skipped []Line) {
	t.Helper()
	r := NewReader(src, max, nil)
	for {
		l, err := r.Next()
		if err == io.EOF {
			return lines, skipped
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.Skipped > 0 {
			skipped = append(skipped, l)
			continue
		}
		lines = append(lines, string(l.Data))
	}
}

func TestLinesEndAtLineFeedsAlone(t *testing.T) {
	in := "a\u2028b\u0085c\r\n\n{\"x\":1}\rz\nlast"
	for name, src := range map[string]io.Reader{
		"at once":        strings.NewReader(in),
		"byte by byte":   iotest.OneByteReader(strings.NewReader(in)),
		"error with end": iotest.DataErrReader(strings.NewReader(in)),
	} {
		lines, _ := readAll(t, src, 100)
		if d := cmp.Diff([]string{"a\u2028b\u0085c", "", "{\"x\":1}\rz", "last"}, lines); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestALineBeyondTheLimitIsSkippedAndItsIDFoundBehindTheResult(t *testing.T) {
	long := `{"jsonrpc":"2.0","result":{"id":1,"text":"` + strings.Repeat(`x\"y`, 50_000) + `"}, "id" : 1073741830 }`
	in := "before\n" + long + "\r\nafter\n" + `{"method":"aurora/event","params":"` + strings.Repeat("z", 200_000) + "\n"
	for _, src := range []io.Reader{strings.NewReader(in), iotest.HalfReader(strings.NewReader(in))} {
		lines, skipped := readAll(t, src, 1000)
		if d := cmp.Diff([]string{"before", "after"}, lines); d != "" {
			t.Error(d)
		}
		if len(skipped) != 2 || string(skipped[0].ID) != "1073741830" || skipped[0].Skipped < int64(len(long)) {
			t.Fatalf("skipped %+v", skipped)
		}
		if string(skipped[1].Method) != `"aurora/event"` {
			t.Errorf("the method is %q", skipped[1].Method)
		}
	}
}

func TestALineAtTheLimitIsKept(t *testing.T) {
	lines, skipped := readAll(t, strings.NewReader(strings.Repeat("a", 70_000)+"\r\n"+strings.Repeat("b", 70_001)+"\n"), 70_000)
	if len(lines) != 1 || len(lines[0]) != 70_000 || len(skipped) != 1 {
		t.Errorf("%d lines, %d skipped", len(lines), len(skipped))
	}
}

func TestALargeBufferIsGivenAwayWithItsLine(t *testing.T) {
	r := NewReader(strings.NewReader(strings.Repeat("a", 1<<20)+"\nb\n"), 16<<20, nil)
	l, err := r.Next()
	if err != nil || !l.Owned || len(l.Data) != 1<<20 {
		t.Fatalf("%d bytes, owned %v, %v", len(l.Data), l.Owned, err)
	}
	if len(r.buf) > keepBuffer {
		t.Errorf("the reader keeps %d bytes", len(r.buf))
	}
	if next, err := r.Next(); err != nil || string(next.Data) != "b" || l.Data[0] != 'a' {
		t.Errorf("then %q, %v", next.Data, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbb\r\n\n"+strings.Repeat("c", 200)+"\nd"), uint64(1))
	f.Add([]byte(`{"id":1,"result":"`+strings.Repeat("x", 300)+`"}`+"\n"), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		const limit = 100
		r := NewReader(&chopped{b, rand.New(rand.NewPCG(seed, 0))}, limit, nil)
		want := bytes.Split(b, []byte("\n"))
		if last := want[len(want)-1]; len(last) == 0 {
			want = want[:len(want)-1]
		}
		for i, w := range want {
			w = bytes.TrimSuffix(w, []byte("\r"))
			l, err := r.Next()
			switch {
			case err != nil:
				t.Fatalf("line %d: %v", i, err)
			case len(w) > limit:
				id, method := Head(w)
				if l.Skipped < int64(len(w)) || !bytes.Equal(l.ID, id) || !bytes.Equal(l.Method, method) {
					t.Fatalf("line %d, %q: %+v", i, w, l)
				}
			case !bytes.Equal(l.Data, w) || l.Skipped != 0:
				t.Fatalf("line %d is %q, want %q", i, l.Data, w)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

// chopped reads pieces of random length.
type chopped struct {
	b   []byte
	rnd *rand.Rand
}

func (c *chopped) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:1+c.rnd.IntN(len(c.b))])
	c.b = c.b[n:]
	return n, nil
}
