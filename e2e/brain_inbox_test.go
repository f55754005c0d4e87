//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
)

// pythonInbox is the folder of the module inbox.
func pythonInbox() string { return filepath.Join(root, "examples", "brain") }

// pending is an inbox with n events, whose ids it returns in order.
func pending(t *testing.T, n int) (dir string, ids []string) {
	t.Helper()
	dir = t.TempDir()
	x, err := inbox.Open(inbox.Options{Dir: dir, Journal: journal.Options{Dir: filepath.Join(dir, "journal")}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		got, err := x.Publish(t.Context(), bus.Item{Envelope: &amp.Envelope{
			Header:  amp.Header{Protocol: amp.Protocol, Method: amp.MethodEvent, Timestamp: amp.Timestamp{Time: time.Now()}, Source: amp.Source{App: "test"}},
			Payload: amp.Payload{Type: "test.event", Summary: fmt.Sprint(i)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got[0].ID)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, ids
}

// Consumers in Python are killed at random while one in Go works beside them.
func TestConsumersInPythonAndGoShareAnInboxAcrossKills(t *testing.T) {
	dir, ids := pending(t, 1500)
	log := filepath.Join(t.TempDir(), "taken")
	take := func() *exec.Cmd {
		cmd := exec.Command("python3", "testdata/take.py", dir, log, "3", pythonInbox())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("the consumer said %q, %v", line, err)
		}
		return cmd
	}
	q, err := queue.Dir(dir).Consumer(queue.ConsumerOptions{Lease: time.Second, MaxAttempts: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	stop, cancel := context.WithCancel(t.Context())
	inGo := make(chan map[string]int, 1)
	go func() {
		taken := make(map[string]int) // claims so far
		defer func() { inGo <- taken }()
		for {
			events, err := q.Claim(stop, 1)
			if err != nil {
				return
			}
			taken[events[0].ID] = events[0].Attempts
			if err := q.Ack(events...); err != nil {
				t.Errorf("acknowledging: %v", err)
			}
			time.Sleep(2 * time.Millisecond) // so that the others get some
		}
	}()
	one := take()
	for range 8 * long {
		other := take()
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		one.Process.Kill()
		one.Wait()
		one = other
	}
	until(t, 2*time.Minute, "all dealt with", func() (bool, any) {
		n := 0
		for _, folder := range []string{"pending", "processing"} {
			files, err := filepath.Glob(filepath.Join(dir, folder, "event_*"))
			if err != nil {
				t.Fatal(err)
			}
			n += len(files)
		}
		return n == 0, n
	})
	if err := one.Wait(); err != nil {
		t.Errorf("the last consumer ended with %v", err)
	}
	cancel()
	taken := <-inGo
	byGo := len(taken)
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for line := range strings.Lines(string(raw)) {
		var id string
		var attempts int
		if _, err := fmt.Sscan(line, &id, &attempts); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if before := taken[id]; before == attempts {
			t.Errorf("two have claimed %s for the %dth time", id, attempts)
		} else if before > 0 {
			again++
		}
		taken[id] = attempts
	}
	for _, id := range ids {
		if taken[id] == 0 {
			t.Errorf("%s was lost", id)
		}
	}
	done, err := filepath.Glob(filepath.Join(dir, "done", "event_*.json"))
	if err != nil || len(done) != len(ids) || len(taken) != len(ids) {
		t.Errorf("%d events, %d taken, %d done, %v", len(ids), len(taken), len(done), err)
	}
	if byGo == 0 || byGo == len(ids) {
		t.Errorf("of %d events Go took %d", len(ids), byGo)
	}
	t.Logf("%d events, %d taken in Go, %d again after a kill", len(ids), byGo, again)
}

// What one language writes of a claim the other understands.
func TestClaimsDelaysAndDeadLettersMeanTheSameInPythonAndGo(t *testing.T) {
	dir, ids := pending(t, 6)
	script := `
import json, sys, time
sys.path.insert(0, sys.argv[2])
from inbox import Inbox, Lost, Taken
with Inbox(sys.argv[1], lease=30, attempts=2) as inbox:
    a, b, c, d, e, g = inbox.claim(9)
    inbox.ack(a)
    inbox.nack(b, delay=3600, reason="later")
    inbox.dead_letter(c, "no use")
    inbox.nack(d, reason="again")
    try:
        inbox.ack(a)
        sys.exit("acknowledged twice")
    except Lost:
        pass
    f, = inbox.claim(1)
    assert f.id == d.id and f.attempts == 2, (f.id, f.attempts)
    inbox.nack(f, reason="and again")
    inbox.renew(g, 7200)
    try:
        Inbox(sys.argv[1], alone=True)
        sys.exit("alone beside another")
    except Taken:
        pass
    assert inbox.claim(1, wait=0) == []
    print(json.dumps([x.id for x in (a, b, c, d, e, g)]))
`
	out, err := exec.Command("python3", "-c", script, dir, pythonInbox()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("claimed %v, published %v", got, ids)
	}
	in := func(folder, id string) bool {
		_, err := os.Stat(filepath.Join(dir, folder, amp.FileName("test.event", id)))
		return err == nil
	}
	for i, folder := range []string{"done", "pending", "failed", "failed", "processing", "processing"} {
		if !in(folder, ids[i]) {
			t.Errorf("event %d is not in %s", i, folder)
		}
	}
	for id, want := range map[string]string{ids[2]: "no use", ids[3]: "given up after 2 attempts: and again"} {
		item, err := queue.Dir(dir).Show(id)
		if err != nil || item.Reason != want {
			t.Errorf("the reason of %s is %q, %v", id, item.Reason, err)
		}
	}
	// Go: nothing can be claimed before the leases and the delay have run out.
	q, err := queue.Dir(dir).Consumer(queue.ConsumerOptions{Lease: 30 * time.Second, Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if events, err := q.Claim(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("claimed %v, %v", events, err)
	}
}
