package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARequestIsReadStrictly(t *testing.T) {
	for in, want := range map[string]string{
		`{"name":"s.t","arguments":{"n":12345678901234567890},"timeout_ms":5,"wait":true,"approval":"A","idempotency_key":"k","provenance":["a","b"]}`: "",
		"\n{\"name\":\"s.t\"}\n":                     "",
		`{"name":"s.t","timeout":5}`:                 `line 1: unknown member "timeout"; did you mean "timeout_ms"?`,
		"{\n \"name\":\"s.t\",\n \"argments\":{}}":   `line 3: unknown member "argments"; did you mean "arguments"?`,
		`{"Name":"s.t"}`:                             `did you mean "name"?`,
		`{"name":"s.t","approved_by":"Ada"}`:         `unknown member "approved_by"`, // by whoever can write a file
		`{"name":"s.t","urgent":true}`:               "the members are approval, arguments, baggage, id,",
		"{\"name\":\"s.t\",\n\"name\":\"s.u\"}":      `line 2: a second "name"`,
		`{"name":"s.t","wait":"yes"}`:                `"wait" is not true or false`,
		`{"name":"s.t","provenance":"a"}`:            `"provenance" is not a list of texts`,
		`{"name":"s.t","timeout_ms":1.5}`:            `"timeout_ms" is not a whole number`,
		`{"name":"s.t","timeout_ms":99999999999}`:    `it is from 0 to 86400000`,
		`{"name":"s.t","timeout_ms":-1}`:             `it is from 0 to`,
		`{"name":"s.t"} {}`:                          "something follows",
		`{"name":"s.t",`:                             "ends in the middle",
		"{\n\n\"name\":\"s.t\",}":                    "line 3: ",
		`[1]`:                                        "not one JSON object",
		`null`:                                       "not one JSON object",
		``:                                           "line 1: it ends in the middle",
		`{"arguments":{}}`:                           `"name" is missing`,
		`{"name":"s.t","id":"other"}`:                `the file's name says "x"`,
		"{\"name\":\"s.t\",\"\\u001b[2J\\u202e\":1}": `unknown member "\x1b[2J\u202e"`,
		`{"name":"s.t","` + strings.Repeat("x", 5000) + `":true}`: `unknown member "xxx`,
	} {
		path := filepath.Join(t.TempDir(), "call_x.json")
		if err := os.WriteFile(path, []byte(in), 0o600); err != nil {
			t.Fatal(err)
		}
		req, err := readRequest(path, "x")
		switch {
		case want == "" && err != nil:
			t.Errorf("%.80s: %v", in, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300):
			t.Errorf("%.80s: got %v, want %q", in, err, want)
		case want == "" && req.Name != "s.t":
			t.Errorf("%.80s: got %+v", in, req)
		}
	}
	req := new(Request)
	if err := strict.Object([]byte(`{"name":"s.t","arguments":{"n":12345678901234567890},"timeout_ms":5,"wait":true,"approval":"A","idempotency_key":"k","provenance":["a","b"]}`), req); err != nil {
		t.Fatal(err)
	}
	c := req.call("id")
	if got := fmt.Sprintf("%s %s %s %s %v %v %s %s", c.ID, c.Name, c.Arguments, c.Entrance, c.Timeout, c.Wait, c.Approval, c.IdempotencyKey); got !=
		`id s.t {"n":12345678901234567890} outbox 5ms true A k` || len(c.Provenance) != 2 {
		t.Errorf("the call is %s", got)
	}
}

func FuzzARequestIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"name":"s.t","arguments":{},"wait":true}`))
	f.Add([]byte("{\"name\":\n1e9,\"x\":[}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		req := new(Request)
		err := strict.Object(in, req)
		if err == nil && len(req.Arguments) > 0 && !bytes.Contains(in, req.Arguments) {
			t.Errorf("the arguments %q are not those of %q", req.Arguments, in)
		}
	})
}

// box is an outbox whose calls are answered by do.
type box struct {
	t    *testing.T
	dir  string
	x    *Outbox
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	seen  []string // refused
	calls atomic.Int64
	do    func(ctx context.Context, c host.Call) error
	given map[string]chan ask.Replies // by call

	looked func(folder string) // see Options
}

func open(t *testing.T, do func(ctx context.Context, c host.Call) error) *box {
	b := &box{t: t, dir: t.TempDir(), do: do, given: map[string]chan ask.Replies{}}
	b.start()
	t.Cleanup(b.end)
	return b
}

func (b *box) start() {
	b.t.Helper()
	x, err := New(Options{Dir: b.dir, Caller: b, Sink: b, Answer: b.answer, rescan: 200 * time.Millisecond, looked: b.looked})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b.x, b.stop, b.done = x, stop, make(chan struct{})
	go func() { defer close(b.done); x.Run(ctx) }()
}

func (b *box) end() { b.stop(); <-b.done }

// Call answers as a host does.
func (b *box) Call(ctx context.Context, c host.Call) (*host.Result, error) {
	b.calls.Add(1)
	err := b.do(ctx, c)
	if f := fault.From(err); f != nil && f.Code == fault.ApprovalRequired && ctx.Err() != nil {
		return nil, err
	}
	if c.Answer.Settle != nil {
		if err := c.Answer.Settle(); err != nil {
			b.t.Error(err)
		}
	}
	c.Answer.Recorded()
	return &host.Result{}, err
}

func (b *box) Observe(_ context.Context, s signal.Signal) error {
	if f, ok := s.Data.(*signal.Fault); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen = append(b.seen, f.Sample+": "+f.Detail)
	}
	if s.Ack != nil {
		s.Ack(signal.Ack{})
	}
	return nil
}

func (b *box) path(folder, name string) string { return filepath.Join(b.dir, folder, name) }

func (b *box) put(name, text string) {
	b.t.Helper()
	draft := filepath.Join(b.dir, name)
	if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(draft, b.path(Pending, name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) until(what string, cond func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			all, _ := filepath.Glob(filepath.Join(b.dir, "*", "*"))
			b.t.Fatalf("%s did not come; there is %q", what, all)
		}
	}
}

func (b *box) there(folder, name string) bool {
	_, err := os.Lstat(b.path(folder, name))
	return err == nil
}

func (b *box) count(folder string) int {
	all, err := os.ReadDir(filepath.Join(b.dir, folder))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(all)
}

func TestARequestThatMovesOnBetweenTwoLooksIsNotRunAgain(t *testing.T) {
	const name = "call_twice.json"
	b := &box{t: t, dir: t.TempDir(), do: func(context.Context, host.Call) error { return nil }}
	b.looked = func(string) {
		if err := os.Rename(b.path(Processing, name), b.path(Done, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	b.start()
	t.Cleanup(b.end)
	b.put("call_first.json", `{"name":"s.t"}`)
	b.until("the first, so that nothing is left of an earlier run", func() bool { return b.there(Done, "call_first.json") })
	if err := os.WriteFile(b.path(Processing, name), []byte(`{"name":"s.t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.put(name, `{"name":"s.t"}`)
	b.until("the end of the second request", func() bool { return !b.there(Pending, name) })
	b.until("the refusal", func() bool { return b.there(Failed, name) || b.calls.Load() > 1 })
	if n := b.calls.Load(); n != 1 || !b.there(Done, name) {
		t.Errorf("%d calls; done: %t", n, b.there(Done, name))
	}
}

func TestAFolderThatWasRemovedIsMadeAnewForTheNextRequest(t *testing.T) {
	b := open(t, func(context.Context, host.Call) error { return nil })
	for i, folder := range []string{Processing, Done} {
		if err := os.RemoveAll(b.path(folder, "")); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("call_%d.json", i)
		b.put(name, `{"name":"s.t"}`)
		b.until(name+" in done", func() bool { return b.there(Done, name) })
	}
	if n := b.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestWhatIsNoFileIsRefusedAndTouchesNothing(t *testing.T) {
	b := open(t, func(context.Context, host.Call) error { return nil })
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, []byte(`{"name":"s.t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	// A reason that is a link would write to where it points.
	if err := os.Symlink(outside, b.path(Failed, "call_link.json.reason")); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"call_link.json":   func(p string) error { return os.Symlink(outside, p) },
		"call_pipe.json":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"call_folder.json": func(p string) error { return os.Mkdir(p, 0o700) },
		"call_..%2f.json":  func(p string) error { return os.WriteFile(p, []byte(`{"name":"s.t"}`), 0o600) },
		"\x1b[2Jx.json":    func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		if err := make(b.path(Pending, name)); err != nil {
			t.Fatal(err)
		}
		b.until(name+" in failed/", func() bool { return b.there(Failed, name) && b.there(Failed, name+".reason") })
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != `{"name":"s.t"}` {
		t.Errorf("the link's target has %q, %v", got, err)
	}
	if err := os.Mkdir(b.path(Pending, "call_pipe.json"), 0o700); err != nil { // where a file is in failed/
		t.Fatal(err)
	}
	b.until("a second folder put aside", func() bool { return b.count(Pending) == 0 })
	b.end()
	if n := b.calls.Load(); n > 0 {
		t.Errorf("%d calls were made", n)
	}
	for _, s := range b.seen {
		if strings.ContainsAny(s, "\x1b\n") {
			t.Errorf("the announcement is %q", s)
		}
	}
	if len(b.seen) != 6 {
		t.Errorf("%d refusals were announced: %q", len(b.seen), b.seen)
	}
}

// The rule is to rename it; but a shell's redirection does not.
func TestAFinishedRequestIsRememberedFromItsEndOnHoweverOldItsFileIs(t *testing.T) {
	b := open(t, func(context.Context, host.Call) error { return nil })
	put := func() {
		draft := filepath.Join(b.dir, "draft")
		if err := os.WriteFile(draft, []byte(`{"name":"s.t"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-10 * keep)
		if err := errors.Join(os.Chtimes(draft, old, old), os.Rename(draft, b.path(Pending, "call_a.json"))); err != nil {
			t.Fatal(err)
		}
	}
	put()
	b.until("the end", func() bool { return b.there(Done, "call_a.json") })
	b.end()
	b.start() // which forgets what is old
	put()
	b.until("the refusal", func() bool { return b.there(Failed, "call_a.json.reason") })
	if n := b.calls.Load(); n != 1 {
		t.Errorf("the request ran %d times", n)
	}
	b.end()
	x, err := New(Options{Dir: b.dir, Caller: b, Sink: b})
	if err != nil {
		t.Fatal(err)
	}
	x.prune(time.Now().Add(keep + time.Minute))
	if n := b.count(Done) + b.count(Failed); n != 0 {
		t.Errorf("%d files are there for good", n)
	}
	b.start()
}

// A folder that was listed may name a request that was carried out since.
func TestWhatIsNotThereAnyMoreIsNotRefused(t *testing.T) {
	var said bytes.Buffer
	b := &box{t: t, dir: t.TempDir(), do: func(context.Context, host.Call) error { return nil }}
	x, err := New(Options{Dir: b.dir, Caller: b, Sink: b, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path(Done, "call_a.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.slots <- struct{}{}
	x.take(t.Context(), "call_a.json", "a")
	if said.Len() > 0 || len(b.seen) > 0 || b.count(Failed) > 0 {
		t.Errorf("said was %s; announced %q", &said, b.seen)
	}
}

func TestAFileWithTheLongestNameIsRefusedWithItsReason(t *testing.T) {
	b := open(t, func(context.Context, host.Call) error { return nil })
	name := "call_" + strings.Repeat("n", maxFile-10) + ".json"
	b.put(name, "{}")
	b.until("the reason", func() bool { return b.there(Failed, name[:maxFile-len(".reason")]+".reason") })
}

func TestARequestThatIsWrittenUnderItsLastNameIsReadWhenItIsWhole(t *testing.T) {
	b := open(t, func(context.Context, host.Call) error { return nil })
	f, err := os.Create(b.path(Pending, "call_slow.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(text string) {
		later := time.Now().Add(time.Hour) // however slow this machine is
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f.Name(), later, later); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	b.put("call_quick.json", `{"name":"s.t"}`)
	b.until("a look at both", func() bool { return b.there(Done, "call_quick.json") })
	write(`{"name":`)
	b.put("call_next.json", `{"name":"s.t"}`)
	b.until("another look", func() bool { return b.there(Done, "call_next.json") })
	write(`"s.t"}`)
	b.until("the answer", func() bool { return b.there(Done, "call_slow.json") })

	if err := os.WriteFile(b.path(Pending, "call_half.json"), []byte(`{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.until("the refusal of what does not go on", func() bool { return b.there(Failed, "call_half.json") })
}

func TestRequestsThatWaitForAPersonAreInNobodysWay(t *testing.T) {
	answer := make(chan struct{})
	b := open(t, func(ctx context.Context, c host.Call) error {
		if !c.Wait {
			return nil
		}
		select {
		case <-answer:
			return nil
		case <-ctx.Done():
			return fault.New(fault.ApprovalRequired, "a person is asked")
		}
	})
	const more = maxAtOnce + 2 // than may wait: enough to take all slots, again and again
	for i := range maxWaiting + more {
		b.put(fmt.Sprintf("call_w%d.json", i), `{"name":"s.t","wait":true}`)
	}
	b.until("all waiting that may", func() bool { return b.count(Waiting) == maxWaiting })
	b.put("call_quick.json", `{"name":"s.t"}`)
	b.until("the answer to another one", func() bool { return b.there(Done, "call_quick.json") })
	b.until("the rest being left alone in pending/", func() bool {
		left, err := os.ReadDir(filepath.Join(b.dir, Pending))
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == more && !slices.ContainsFunc(left, func(e os.DirEntry) bool { return b.x.due(Pending, e.Name()) })
	})
	b.end()
	if n := b.count(Waiting); n != maxWaiting {
		t.Errorf("after the end %d requests wait, want %d", n, maxWaiting)
	}
	if n := b.count(Done); n != 1 {
		t.Errorf("after the end %d are done, want 1", n)
	}
	b.put("call_w0.json", `{"name":"s.t","wait":true}`) // while the first waits
	b.start()
	close(answer)
	b.until("all answered", func() bool { return b.count(Done) == maxWaiting+more+1 })
	b.until("the second of one id refused", func() bool { return b.there(Failed, "call_w0.json") })
	if n := b.calls.Load(); n != 2*maxWaiting+1+more {
		t.Errorf("%d calls were made", n)
	}
}
