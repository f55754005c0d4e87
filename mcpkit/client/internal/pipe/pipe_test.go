package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 2 * time.Minute

// writer is a stdin that keeps what it is given, and counts the writes; while
// it is held nothing is taken.
type writer struct {
	mu     sync.Mutex
	b      bytes.Buffer
	writes int
	hold   chan struct{}
	err    error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.hold != nil {
		<-w.hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.writes++
	return w.b.Write(p)
}

func (w *writer) Close() error { return nil }

func TestMessagesKeepTheirOrderAndGatherWhileTheServerIsSlow(t *testing.T) {
	w := &writer{hold: make(chan struct{})}
	out, outW := io.Pipe()
	p := New(w, out, 100, testTimeout, nil)
	var want strings.Builder
	for i := range 1000 {
		msg := fmt.Sprintf(`{"n":%d}`, i)
		if err := p.Send(t.Context(), []byte(msg)); err != nil {
			t.Fatal(err)
		}
		want.WriteString(msg + "\n")
	}
	close(w.hold)
	p.CloseSend(testTimeout)
	if w.b.String() != want.String() {
		t.Error("messages were lost, changed, or moved")
	}
	if w.writes > 3 {
		t.Errorf("%d writes", w.writes)
	}
	outW.Close()
	if _, err := p.Receive(); err != io.EOF {
		t.Error(err)
	}
	p.Close()
}

func TestSendWaitsForRoomAsLongAsItsCaller(t *testing.T) {
	w := &writer{hold: make(chan struct{})}
	out, _ := io.Pipe()
	p := New(w, out, 100, testTimeout, nil)
	msg := make([]byte, queueLimit/2)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var err error
	sent := 0
	for ; err == nil; sent++ {
		err = p.Send(ctx, msg)
	}
	if !errors.Is(err, context.DeadlineExceeded) || sent > 6 {
		t.Errorf("%d messages of half the queue, then %v", sent, err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- p.Send(t.Context(), msg) }()
	close(w.hold)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	p.Close()
	if err := p.Send(t.Context(), msg); !errors.Is(err, io.ErrClosedPipe) || p.TrySend(msg) {
		t.Errorf("after Close: %v", err)
	}
}

func TestTrySendNeverWaitsAndIsBounded(t *testing.T) {
	w := &writer{hold: make(chan struct{})}
	out, _ := io.Pipe()
	p := New(w, out, 100, testTimeout, nil)
	n := 0
	for p.TrySend(make([]byte, 10_000)) {
		if n++; n > 1000 {
			t.Fatal("there is no bound")
		}
	}
	close(w.hold)
	p.Close()
}

func TestAServerThatTakesNothingIsHung(t *testing.T) {
	for name, open := range map[string]func() (io.WriteCloser, io.Closer){
		"with deadlines": func() (io.WriteCloser, io.Closer) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			return w, r
		},
		"without": func() (io.WriteCloser, io.Closer) {
			r, w := io.Pipe()
			return w, r
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdin, other := open()
			defer other.Close()
			out, outW := io.Pipe()
			defer outW.Close()
			p := New(stdin, out, 100, 100*time.Millisecond, nil)
			if err := p.Send(t.Context(), make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Receive(); !errors.Is(err, ErrHung) {
				t.Errorf("got %v", err)
			}
			p.Close()
		})
	}
}

func TestASlowReaderIsNotHung(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outW := io.Pipe()
	p := New(w, out, 100, 500*time.Millisecond, nil)
	const size = 1 << 20
	if err := p.Send(t.Context(), make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	for got := 0; got < size; {
		time.Sleep(50 * time.Millisecond) // a second in all: longer than the stall time
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	outW.Close()
	if _, err := p.Receive(); err != io.EOF {
		t.Error(err)
	}
	p.Close()
	r.Close()
}

func TestWhatAServerWroteIsReadThoughItReadsNoMore(t *testing.T) {
	w := &writer{err: os.ErrPermission}
	out, outW := io.Pipe()
	p := New(w, out, 100, testTimeout, nil)
	if err := p.Send(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(outW, "last words\n")
		outW.Close()
	}()
	if l, err := p.Receive(); err != nil || string(l.Data) != "last words" {
		t.Errorf("%q, %v", l.Data, err)
	}
	if _, err := p.Receive(); err != io.EOF {
		t.Error(err)
	}
	p.Close()
}

func TestTheEndThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, outW := io.Pipe()
		defer outW.Close()
		p := New(&writer{err: os.ErrPermission}, out, 100, testTimeout, nil)
		if err := p.Send(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Receive(); !errors.Is(err, os.ErrPermission) {
			t.Errorf("got %v", err)
		}
		p.Close()
	})
}

// Senders that wait for room, others that do not, and a pipe that is full most of the
// time: every message arrives whole, each sender's in order.
func TestMessagesOfSeveralSendersKeepTheirOrder(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outW := io.Pipe()
	defer outW.Close()
	p := New(w, out, 100, testTimeout, nil)
	const senders, each = 4, 2000
	pad := strings.Repeat("x", 1000)
	var work sync.WaitGroup
	for s := range senders {
		work.Go(func() {
			for i := range each {
				msg := fmt.Appendf(nil, "%d %d %s", s, i, pad[:i%len(pad)])
				if (i+s)%3 > 0 && p.TrySend(msg) {
					continue
				}
				if err := p.Send(context.Background(), msg); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		work.Wait()
		p.CloseSend(testTimeout)
	}()
	var next [senders]int
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var s, i int
		var rest string
		fmt.Sscan(lines.Text(), &s, &i, &rest)
		if i != next[s] || rest != pad[:i%len(pad)] {
			t.Fatalf("message %d of sender %d came as %q", next[s], s, lines.Text())
		}
		next[s]++
	}
	for s, n := range next {
		if n != each {
			t.Errorf("%d of %d messages of sender %d arrived", n, each, s)
		}
	}
	p.Close()
	r.Close()
}

func TestWhatCannotBeWrittenIsTheWritersToSay(t *testing.T) {
	for name, test := range map[string]struct {
		gone bool // else it reads nothing
		want string
	}{"gone": {true, "writing to the server's stdin"}, "full": {false, ErrHung.Error()}} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if test.gone {
				r.Close()
			}
			out, outW := io.Pipe()
			defer outW.Close()
			p := New(w, out, 100, 100*time.Millisecond, nil)
			for range 100 { // 100 KB, more than a pipe holds
				if !p.TrySend(make([]byte, 1000)) {
					break // the writer has given up
				}
			}
			if _, err := p.Receive(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			p.Close()
		})
	}
}
