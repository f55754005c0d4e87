package outbox

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
)

// locked makes a file that for now nobody can open without waiting.
func locked(t *testing.T, path, text string) (unlock func()) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	const setLease = 1024 // F_SETLEASE of fcntl(2)
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setLease, syscall.F_WRLCK); errno != 0 {
		t.Skipf("this file system knows no leases: %v", errno)
	}
	return func() { f.Close() }
}

func (b *box) announced(start string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.seen, func(s string) bool { return strings.HasPrefix(s, start) })
}

func TestWhatCannotBeReadForAWhileIsToldAndReadOnceItCan(t *testing.T) {
	b := open(t, func(context.Context, host.Call) error { return nil })
	b.end()
	b.mu.Lock()
	b.given["open"] = make(chan ask.Replies, 1)
	b.mu.Unlock()
	names := map[string]string{ // and where they begin
		"call_new.json": Pending, "answer_open.json": Pending, "call_ran.json": Processing, "call_waited.json": Waiting,
	}
	var unlock []func()
	for name, folder := range names {
		text := `{"name":"s.t"}`
		if name == "answer_open.json" {
			text = `{"action":"cancel"}`
		}
		unlock = append(unlock, locked(t, b.path(folder, name), text))
	}
	b.start()
	b.put("call_other.json", `{"name":"s.t"}`)
	b.until("the answer to a file that can be read", func() bool { return b.there(Done, "call_other.json") })
	for name, folder := range names {
		b.until("word of "+name, func() bool { return b.announced(name + ": it cannot be read just now: ") })
		if !b.there(folder, name) {
			t.Errorf("%s is not in %s/ any more", name, folder)
		}
	}
	for _, f := range unlock {
		f()
	}
	for name := range names {
		b.until(name+" in done/", func() bool { return b.there(Done, name) })
	}
	if n := b.calls.Load(); n != 3 { // call_ran is answered, not called
		t.Errorf("%d calls were made", n)
	}
	if n := b.count(Failed); n != 0 {
		t.Errorf("%d files failed", n)
	}
	if len(b.seen) != len(names) {
		t.Errorf("announced is %q", b.seen)
	}
}
