package queue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
)

// The test binary runs again as a consumer that claims and is killed.
const childEnv = "QUEUE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		c, err := Dir(dir).Consumer(ConsumerOptions{Lease: shortLease})
		if err == nil {
			for claimed := 0; err == nil; {
				var events []*Event
				if events, err = c.Claim(context.Background(), 2); err == nil {
					if claimed += len(events); claimed == 2 {
						fmt.Println("2 claimed")
						select {} // until killed
					}
				}
			}
		}
		fmt.Println(err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

const shortLease = 300 * time.Millisecond

var epoch = time.Now().Add(-time.Hour)

func newDir(t testing.TB) Dir {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "inbox")
	if problems, err := Prepare(dir); err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	return Dir(dir)
}

// put makes the nth event visible as the platform does.
func put(t testing.TB, d Dir, n int, change ...func(*amp.Envelope)) Entry {
	t.Helper()
	e := &amp.Envelope{
		Header: amp.Header{Protocol: amp.Protocol, Method: amp.MethodEvent, MessageID: fmt.Sprintf("id-%06d", (n*7919)%1_000_003),
			Timestamp: amp.Now(), Source: amp.Source{App: fmt.Sprint("app", n%2)}, Seq: uint64(n/2 + 1)},
		Payload: amp.Payload{Type: "test.event"},
	}
	for _, fn := range change {
		fn(e)
	}
	raw, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return putRaw(t, d, amp.FileName(e.Payload.Type, e.Header.MessageID), raw, epoch.Add(time.Duration(n)*time.Microsecond))
}

func putRaw(t testing.TB, d Dir, name string, raw []byte, at time.Time) Entry {
	t.Helper()
	tmp := d.path(Tmp, name)
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(tmp, at, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, d.path(Pending, name)); err != nil {
		t.Fatal(err)
	}
	typ, id, _ := amp.ParseFileName(name)
	return Entry{Pending, name, typ, id, at, int64(len(raw))}
}

func consumer(t testing.TB, d Dir, opt ConsumerOptions) *Consumer {
	t.Helper()
	if opt.Poll == 0 {
		opt.Poll = 20 * time.Millisecond
	}
	c, err := d.Consumer(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func claim(t testing.TB, c *Consumer, n int) []*Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events, err := c.Claim(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func nothing(t testing.TB, c *Consumer) {
	t.Helper()
	if events, _, err := c.tryClaim(1); err != nil || len(events) > 0 {
		t.Fatalf("claimed %v, %v", events, err)
	}
}

func in(t testing.TB, d Dir, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(d.path(folder, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestEventsAreClaimedInTheOrderOfPublicationAndAcknowledged(t *testing.T) {
	for name, opt := range map[string]ConsumerOptions{"kept": {}, "deleted": {Delete: true}} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			const n = 200
			for _, i := range []int{150, 10, 199} { // made visible in any order
				put(t, d, i)
			}
			for i := range n {
				put(t, d, i)
			}
			c := consumer(t, d, opt)
			for next := 0; next < n; {
				events := claim(t, c, 30)
				for _, e := range events {
					if want := epoch.Add(time.Duration(next) * time.Microsecond); !e.Time.Equal(want) || e.Envelope.Header.Seq != uint64(next/2+1) || e.Attempts != 1 {
						t.Fatalf("event %d is %+v", next, e)
					}
					next++
				}
				if err := c.Ack(events...); err != nil {
					t.Fatal(err)
				}
			}
			nothing(t, c)
			want := map[string]int{Pending: 0, Processing: 0, Done: n, Leases: 0}
			if opt.Delete {
				want[Done] = 0
			}
			for folder, files := range want {
				if got := len(in(t, d, folder)); got != files {
					t.Errorf("%s holds %d files, want %d", folder, got, files)
				}
			}
		})
	}
}

func TestAnEventHasOneOwnerHoweverManyConsumersWantIt(t *testing.T) {
	d := newDir(t)
	const n = 300
	for i := range n {
		put(t, d, i)
	}
	var mu sync.Mutex
	owners := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		c := consumer(t, d, ConsumerOptions{})
		for range 2 {
			wg.Go(func() {
				for {
					events, err := c.Claim(ctx, 7)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					for _, e := range events {
						owners[e.ID]++
					}
					done := len(owners) == n
					mu.Unlock()
					if err := c.Ack(events...); err != nil {
						t.Error(err)
					}
					if done {
						cancel()
					}
				}
			})
		}
	}
	wg.Wait()
	for id, count := range owners {
		if count != 1 {
			t.Errorf("%s had %d owners", id, count)
		}
	}
	if len(owners) != n || len(in(t, d, Done)) != n {
		t.Errorf("%d claimed, %d done", len(owners), len(in(t, d, Done)))
	}
}

func TestTheEventsOfAKilledConsumerComeBackAndAreGivenUpInTheEnd(t *testing.T) {
	d := newDir(t)
	put(t, d, 1)
	put(t, d, 2)
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+string(d))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(out)
		said.Scan()
		if said.Text() != "2 claimed" {
			t.Fatalf("the child said %q", said.Text())
		}
		if got := len(in(t, d, Processing)); got != 2 {
			t.Fatalf("%d in processing", got)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // killed
	}
	c := consumer(t, d, ConsumerOptions{Lease: shortLease, MaxAttempts: 3})
	events := claim(t, c, 2)
	if len(events) == 1 { // the leases ran out one after the other
		events = append(events, claim(t, c, 1)...)
	}
	if events[0].Attempts != 3 || events[1].Attempts != 3 {
		t.Fatalf("claimed %d, attempts %d", len(events), events[0].Attempts)
	}
	if err := c.Ack(events[0]); err != nil {
		t.Fatal(err)
	}
	wait(t, "the event nobody acknowledges is a dead letter", func() bool {
		nothing(t, c)
		return len(in(t, d, Failed)) == 2
	})
	it, err := d.Show(events[1].ID)
	if err != nil || it.Folder != Failed || !strings.Contains(it.Reason, "after 3 attempts") {
		t.Errorf("got %+v, %v", it, err)
	}
}

func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func TestAConsumerWhoseLeaseRanOutCannotAcknowledge(t *testing.T) {
	d := newDir(t)
	put(t, d, 1)
	slow := consumer(t, d, ConsumerOptions{Lease: time.Millisecond})
	quick := consumer(t, d, ConsumerOptions{})
	lost := claim(t, slow, 1)[0]
	var won *Event
	wait(t, "the other consumer gets it", func() bool {
		events, _, err := quick.tryClaim(1)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 1 {
			won = events[0]
		}
		return won != nil
	})
	for what, err := range map[string]error{"Ack": slow.Ack(lost), "Nack": slow.Nack(lost, 0, ""), "DeadLetter": slow.DeadLetter(lost, ""), "Renew": slow.Renew(lost, time.Hour)} {
		if !errors.Is(err, ErrLost) {
			t.Errorf("%s of a lost event: %v", what, err)
		}
	}
	if err := quick.Ack(won); err != nil {
		t.Error(err)
	}
	if err := quick.Ack(won); !errors.Is(err, ErrLost) {
		t.Errorf("acknowledged twice: %v", err)
	}
	if got := len(in(t, d, Done)); got != 1 {
		t.Errorf("%d done", got)
	}
}

func TestARenewedLeaseHolds(t *testing.T) {
	d := newDir(t)
	put(t, d, 1)
	c := consumer(t, d, ConsumerOptions{Lease: time.Millisecond})
	e := claim(t, c, 1)[0]
	if err := c.Renew(e, time.Hour); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond) // longer than the first lease
	nothing(t, c)
	if err := c.Ack(e); err != nil {
		t.Error(err)
	}
}

func TestAnEventGivenBackComesAgainAfterItsDelayAndIsADeadLetterInTheEnd(t *testing.T) {
	d := newDir(t)
	put(t, d, 1)
	c := consumer(t, d, ConsumerOptions{MaxAttempts: 3})
	var given time.Time
	for attempt := 1; attempt <= 3; attempt++ {
		e := claim(t, c, 1)[0]
		if e.Attempts != attempt {
			t.Fatalf("attempt %d says %d", attempt, e.Attempts)
		}
		if attempt > 1 && time.Since(given) < 30*time.Millisecond {
			t.Errorf("attempt %d came early", attempt)
		}
		given = time.Now() // the delay begins after this
		if err := c.Nack(e, 30*time.Millisecond, "the moon is wrong"); err != nil {
			t.Fatal(err)
		}
	}
	if got := in(t, d, Failed); len(got) != 2 || len(in(t, d, Pending))+len(in(t, d, Processing))+len(in(t, d, Leases)) != 0 {
		t.Fatalf("failed holds %v", got)
	}
	r, err := d.readReason(in(t, d, Failed)[0])
	if err != nil || r.Attempts != 3 || r.Reason != "given up after 3 attempts: the moon is wrong" {
		t.Errorf("reason %+v, %v", r, err)
	}
	put(t, d, 2)
	if err := c.DeadLetter(claim(t, c, 1)[0], "cannot be helped"); err != nil {
		t.Fatal(err)
	}
	if got := in(t, d, Failed); len(got) != 4 {
		t.Errorf("failed holds %v", got)
	}
}

func TestFilesThatAreNoEventsAreNotClaimedAndExpiredOnesPassUnseen(t *testing.T) {
	d := newDir(t)
	putRaw(t, d, "event_t_torn.json", []byte(`{"header":`), epoch)
	putRaw(t, d, "event_t_other.json", []byte(`{"header":{"protocol":"amp/1.0","method":"m","message_id":"x","timestamp":"2026-06-17T14:30:00Z","source":{"app":"a"}},"payload":{"type":"t"}}`), epoch)
	for _, name := range []string{"note.txt", ".hidden", "event_t_x.json.part"} {
		if err := os.WriteFile(d.path(Pending, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", d.path(Pending, "event_t_link.json")); err != nil {
		t.Fatal(err)
	}
	late := put(t, d, 1, func(e *amp.Envelope) { e.Payload.ExpireAt = &amp.Timestamp{Time: epoch} })
	put(t, d, 2)
	c := consumer(t, d, ConsumerOptions{})
	if events := claim(t, c, 10); len(events) != 1 || events[0].Envelope.Header.Seq != 2 {
		t.Errorf("claimed %+v", events)
	}
	nothing(t, c)
	if got := in(t, d, Done); !slices.Equal(got, []string{late.Name}) {
		t.Errorf("done holds %v", got)
	}
	it, err := d.Show("torn")
	if err != nil || it.Folder != Failed || !strings.Contains(it.Reason, "not an envelope") || it.Problem == nil {
		t.Errorf("the torn file: %+v, %v", it, err)
	}
	if got := in(t, d, Pending); len(got) != 4 {
		t.Errorf("pending holds %v", got)
	}
}

func TestAConsumerWithTheInboxToItselfKeepsOthersOut(t *testing.T) {
	d := newDir(t)
	f, err := os.Create(filepath.Join(string(d), "consumer.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if c, err := d.Consumer(ConsumerOptions{}); !errors.Is(err, ErrTaken) {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestWhatAnotherKindOfConsumerLeftInProcessingIsTakenUpAfterALease(t *testing.T) {
	d := newDir(t)
	e := put(t, d, 1)
	if err := os.Rename(d.path(Pending, e.Name), d.path(Processing, e.Name)); err != nil {
		t.Fatal(err)
	}
	patient := consumer(t, d, ConsumerOptions{Lease: time.Hour})
	nothing(t, patient)
	hasty := consumer(t, d, ConsumerOptions{Lease: time.Millisecond})
	if got := claim(t, hasty, 1)[0]; got.ID != e.ID || got.Attempts != 2 {
		t.Errorf("claimed %+v", got)
	}
}

func TestAListIsSortedPagedAndFiltered(t *testing.T) {
	d := newDir(t)
	const n = 230
	for i := range n {
		put(t, d, (i*37)%n, func(e *amp.Envelope) {
			if i%10 == 0 {
				e.Payload.Type = "lifecycle.started"
			}
		})
	}
	seq := func(f Filter, p Page) (all []Entry) {
		for {
			page, err := d.List(f, p)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > p.Size {
				t.Fatalf("a page of %d", len(page))
			}
			if len(page) == 0 {
				return all
			}
			all = append(all, page...)
			p.After = &page[len(page)-1]
		}
	}
	oldest := seq(Filter{}, Page{Size: 50})
	if len(oldest) != n || !slices.IsSortedFunc(oldest, Compare) {
		t.Errorf("%d entries, sorted %v", len(oldest), slices.IsSortedFunc(oldest, Compare))
	}
	newest := seq(Filter{}, Page{Size: 7, Newest: true})
	slices.Reverse(newest)
	if !slices.Equal(oldest, newest) {
		t.Error("newest first is not the reverse")
	}
	for name, tc := range map[string]struct {
		filter Filter
		want   int
	}{
		"type":        {Filter{Type: "lifecycle.started"}, n / 10},
		"type prefix": {Filter{Type: "Lifecycle.*"}, n / 10},
		"source":      {Filter{Source: "app1"}, n / 2},
		"since":       {Filter{Since: oldest[100].Time}, n - 100},
		"until":       {Filter{Until: oldest[100].Time}, 100},
		"folder":      {Filter{Folders: []string{Done}}, 0},
	} {
		if got := len(seq(tc.filter, Page{Size: 40})); got != tc.want {
			t.Errorf("%s: %d entries, want %d", name, got, tc.want)
		}
	}
	if _, err := d.List(Filter{Folders: []string{"../.."}}, Page{}); err == nil {
		t.Error("a folder outside the inbox was listed")
	}
	stats, err := d.Stats()
	if err != nil || stats[Pending].Files != n || stats[Pending].Types["lifecycle.started"] != n/10 || !stats[Pending].Oldest.Equal(oldest[0].Time) {
		t.Errorf("stats %+v, %v", stats, err)
	}
}

func TestAnEventIsShownByTheBeginningOfItsID(t *testing.T) {
	d := newDir(t)
	first, second := put(t, d, 1), put(t, d, 2)
	if err := os.Rename(d.path(Pending, second.Name), d.path(Done, second.Name)); err != nil {
		t.Fatal(err)
	}
	it, err := d.Show(strings.ToUpper(second.ID))
	if err != nil || it.Folder != Done || it.Envelope.Header.MessageID != second.ID {
		t.Errorf("got %+v, %v", it, err)
	}
	if _, err := d.Show("id-"); err == nil || !strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), second.ID) {
		t.Errorf("an ambiguous prefix: %v", err)
	}
	if _, err := d.Show("zz"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unknown prefix: %v", err)
	}
	if it, err := d.Load(second); err != nil || it.Folder != Done {
		t.Errorf("an entry that has moved: %+v, %v", it, err)
	}
}

func TestAFollowerSeesEachEventOnceInOrderWhileAConsumerTakesThem(t *testing.T) {
	d := newDir(t)
	const before, n = 100, 1200
	for i := range before {
		put(t, d, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := consumer(t, d, ConsumerOptions{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := before; i < n; i++ {
			put(t, d, i)
		}
	})
	wg.Go(func() {
		for {
			events, err := c.Claim(ctx, 100)
			if err != nil {
				return
			}
			if err := c.Ack(events...); err != nil {
				t.Error(err)
			}
		}
	})
	next := 0
	for e, err := range d.Follow(ctx, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := epoch.Add(time.Duration(next) * time.Microsecond); !e.Time.Equal(want) {
			t.Fatalf("event %d is of %v, want %v", next, e.Time, want)
		}
		if next++; next == n {
			break
		}
	}
	cancel()
	wg.Wait()
	if next != n {
		t.Errorf("followed %d of %d", next, n)
	}
}

func TestAFollowerThatMissedNoticesLooksAgain(t *testing.T) {
	d := newDir(t)
	put(t, d, 0)
	const n = 1500 // more than notices are kept for
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := 0
	for e, err := range d.Follow(ctx, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := epoch.Add(time.Duration(next) * time.Microsecond); !e.Time.Equal(want) {
			t.Fatalf("event %d is of %v, want %v", next, e.Time, want)
		}
		if next == 0 { // it reads nothing meanwhile
			for i := 1; i < n; i++ {
				put(t, d, i)
			}
		}
		if next++; next == n {
			break
		}
	}
	if next != n {
		t.Errorf("followed %d of %d", next, n)
	}
}

func TestAFollowerEndsWithItsContext(t *testing.T) {
	d := newDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		n := 0
		for range d.Follow(ctx, time.Now()) {
			n++
		}
		ended <- n
	}()
	cancel()
	if n := <-ended; n != 0 {
		t.Errorf("gave %d", n)
	}
}

func TestPruningRemovesOldFinishedThingsAndNothingElse(t *testing.T) {
	d := newDir(t)
	old := time.Now().Add(-48 * time.Hour)
	for folder, count := range map[string]int{Pending: 3, Processing: 3, Done: 10, Failed: 4} {
		for i := range count {
			e := putRaw(t, d, amp.FileName("t", fmt.Sprint(folder, i)), make([]byte, 100), old.Add(time.Duration(i)*time.Hour*5))
			if err := os.Rename(d.path(Pending, e.Name), d.path(folder, e.Name)); err != nil {
				t.Fatal(err)
			}
			if folder == Failed {
				if err := d.writeJSON(d.path(Failed, reasonName(e.Name)), reason{Reason: "x"}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := d.Prune(map[string]Policy{Pending: {Age: 1}}, false); err == nil {
		t.Error("pending was pruned")
	}
	info, err := os.Stat(d.path(Done, in(t, d, Done)[0]))
	if err != nil {
		t.Fatal(err)
	}
	block := onDisk(info)
	for name, tc := range map[string]struct {
		policy Policy
		want   int64
	}{
		"none":  {Policy{}, 0},
		"age":   {Policy{Age: 25 * time.Hour}, 5}, // 48, 43, 38, 33 and 28 hours old
		"files": {Policy{Files: 4}, 6},
		"bytes": {Policy{Bytes: 3*block + block/2}, 7},
		"both":  {Policy{Files: 9, Age: 25 * time.Hour}, 5},
	} {
		got, err := d.Prune(map[string]Policy{Done: tc.policy}, true)
		if err != nil || len(got) != 1 || got[0].Files != tc.want || got[0].Bytes != 100*tc.want {
			t.Errorf("%s: %+v, %v, want %d", name, got, err, tc.want)
		}
	}
	if got := len(in(t, d, Done)); got != 10 {
		t.Fatalf("a dry run left %d", got)
	}
	policies := map[string]Policy{Done: {Files: 4}, Failed: {Files: 1}, Rejected: {Age: 1}}
	would, err1 := d.Prune(policies, true)
	did, err2 := d.Prune(policies, false)
	if err := errors.Join(err1, err2); err != nil || !cmp.Equal(would, did) {
		t.Fatalf("would remove %v, did remove %v, %v", would, did, err)
	}
	for folder, want := range map[string]int{Pending: 3, Processing: 3, Done: 4, Failed: 2} {
		if got := len(in(t, d, folder)); got != want {
			t.Errorf("%s holds %d, want %d", folder, got, want)
		}
	}
	if got, want := in(t, d, Failed), amp.FileName("t", "failed3"); !slices.Contains(got, want) || !slices.Contains(got, reasonName(want)) {
		t.Errorf("failed holds %v", got)
	}
}

func TestFoldersAreMadeForTheOwnerAloneAndOthersAreReported(t *testing.T) {
	d := newDir(t)
	for _, folder := range append(folders, "") {
		info, err := os.Stat(d.path(folder, ""))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%q: %v, %v", folder, info.Mode(), err)
		}
	}
	if err := os.Chmod(d.path(Pending, ""), 0o755); err != nil {
		t.Fatal(err)
	}
	problems, err := Prepare(string(d))
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], "pending is open to others (mode 0755, want 0700)") {
		t.Errorf("problems %q, %v", problems, err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(d.path(Done, ""), 12345, -1); err != nil {
			t.Fatal(err)
		}
		if problems, err := Prepare(string(d)); err != nil || len(problems) != 2 || !strings.Contains(problems[1], "belongs to user 12345") {
			t.Errorf("problems %q, %v", problems, err)
		}
	}
}

func fewAreMany(t *testing.T) {
	many0, some0, page0 := many, some, followPage
	many, some, followPage = 500, 100, 300
	t.Cleanup(func() { many, some, followPage = many0, some0, page0 })
}

// manyEvents puts n events into pending/, of the milliseconds from start on.
// Each tenth is of source rare until half of them are there; ids at the places in
// other are those given there.
func manyEvents(t *testing.T, d Dir, start time.Time, n int, other map[int]string) (ids []string) {
	t.Helper()
	for i := range n {
		at := start.Add(time.Duration(i) * time.Millisecond)
		id, app := ulid.MustNew(ulid.Timestamp(at), bytes.NewReader(make([]byte, 10))).String(), "often"
		if own, ok := other[i]; ok {
			id = own
		}
		if i%10 == 0 && i < n/2 {
			app = "rare"
		}
		e := &amp.Envelope{Header: amp.Header{Protocol: amp.Protocol, Method: amp.MethodEvent, MessageID: id,
			Timestamp: amp.Timestamp{Time: at}, Source: amp.Source{App: app, Instance: "1"}}, Payload: amp.Payload{Type: "a"}}
		body, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		path := d.path(Pending, amp.FileName("a", id))
		if err := errors.Join(os.WriteFile(path, body, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func TestAPageOfManyFilesIsTheSameAsOneOfAFew(t *testing.T) {
	d := newDir(t)
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	const n = 2000
	ids := manyEvents(t, d, start, n, map[int]string{
		n - 3: "5a2f1d5e-52a8-4d0c-9f25-1f7f5a0c9e11",                                                                       // no time is in it
		n - 5: fmt.Sprintf("%08x-%04x-7abc-8def-0123456789ab", (start.UnixMilli()+n-5)>>16, (start.UnixMilli()+n-5)&0xffff), // in this one there is
		7:     "0e1d5e5a-52a8-4d0c-9f25-1f7f5a0c9e11",
	})
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Millisecond) }
	for name, c := range map[string]struct {
		filter Filter
		page   Page
		want   int
	}{
		"the newest":                        {Filter{}, Page{Size: 10, Newest: true}, 10},
		"the oldest":                        {Filter{}, Page{Size: 10}, 10},
		"since":                             {Filter{Since: at(n - 8)}, Page{Size: 30, Newest: true}, 8},
		"since long":                        {Filter{Since: at(5)}, Page{Size: 30, Newest: true}, 30},
		"since, from its beginning":         {Filter{Since: at(100)}, Page{Size: 30}, 30},
		"until":                             {Filter{Until: at(9)}, Page{Size: 30}, 9},
		"until, from its end":               {Filter{Until: at(1000)}, Page{Size: 30, Newest: true}, 30},
		"of a source":                       {Filter{Source: "often"}, Page{Size: 20, Newest: true}, 20},
		"of a source that is silent of old": {Filter{Source: "rare"}, Page{Size: 20, Newest: true}, 20},
		"of a source, since":                {Filter{Source: "rare", Since: at(985)}, Page{Size: 20, Newest: true}, 1},
		"of nobody, since":                  {Filter{Source: "nobody", Since: at(n - 50)}, Page{Size: 20, Newest: true}, 0},
		"the page after":                    {Filter{}, Page{Size: 10, Newest: true, After: &Entry{Time: at(n - 10), Name: "event"}}, 10},
	} {
		list := func() (got []string) {
			t.Helper()
			entries, err := d.List(c.filter, c.page)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				got = append(got, e.ID)
			}
			return got
		}
		few := list()
		if len(few) != c.want {
			t.Errorf("%s: %d events, want %d", name, len(few), c.want)
		}
		func() {
			many0, some0 := many, some
			defer func() { many, some = many0, some0 }()
			many, some = 500, 100
			if diff := cmp.Diff(few, list()); diff != "" {
				t.Errorf("%s (-few +many):\n%s", name, diff)
			}
		}()
	}
	if page, err := d.List(Filter{}, Page{Size: 5, Newest: true}); err != nil || page[2].ID != ids[n-3] || page[4].ID != ids[n-5] {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestAFollowerReadsManyEventsPageByPage(t *testing.T) {
	fewAreMany(t)
	d := newDir(t)
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	ids := manyEvents(t, d, start, 1500, nil)
	var got []string
	for e, err := range d.Follow(t.Context(), start.Add(99*time.Millisecond+1)) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.ID); len(got) == 1400 {
			break
		}
	}
	if diff := cmp.Diff(ids[100:], got); diff != "" {
		t.Error(diff)
	}
}

func TestAFollowerOfWhatComesFromNowOnDoesNotLookAtManyFilesOneByOne(t *testing.T) {
	fewAreMany(t)
	d := newDir(t)
	manyEvents(t, d, time.Now().Add(-time.Hour), 1000, nil)
	// Only a look at each file finds this one: its id is older than it is.
	late := manyEvents(t, d, time.Now().Add(time.Hour), 1, map[int]string{0: ulid.MustNew(1, nil).String()})
	last := Entry{Time: time.Now()}
	if got, err := d.after(last, true); err != nil || len(got) > 0 {
		t.Errorf("a quick look found %v, %v", got, err)
	}
	newer := manyEvents(t, d, time.Now().Add(2*time.Hour), 1, nil)
	for _, quick := range []bool{true, false} {
		got, err := d.after(last, quick)
		if err != nil || len(got) != 2 || got[0].ID != late[0] || got[1].ID != newer[0] {
			t.Errorf("quick %v: %+v, %v", quick, got, err)
		}
	}
}

func TestAFolderOfManyFilesIsListedAndCountedByItsNames(t *testing.T) {
	fewAreMany(t)
	d := newDir(t)
	const n = 2000
	var ids []string
	for i := range n {
		id := ulid.MustNew(uint64(1_000_000+i), bytes.NewReader(make([]byte, 10))).String()
		name := amp.FileName([]string{"a", "b"}[i%2], id)
		if err := os.WriteFile(d.path(Pending, name), []byte(strings.Repeat("x", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.UnixMilli(int64(1_000_000 + i))
		if err := os.Chtimes(d.path(Pending, name), at, at); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	got := func(f Filter, p Page) (got []string) {
		t.Helper()
		entries, err := d.List(f, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			got = append(got, e.ID)
		}
		return got
	}
	newest := slices.Clone(ids[n-30:])
	slices.Reverse(newest)
	if diff := cmp.Diff(newest, got(Filter{}, Page{Size: 30, Newest: true})); diff != "" {
		t.Error("newest:", diff)
	}
	if diff := cmp.Diff(ids[:50], got(Filter{}, Page{})); diff != "" {
		t.Error("oldest:", diff)
	}
	if diff := cmp.Diff([]string{ids[1], ids[3]}, got(Filter{Type: "b"}, Page{Size: 2})); diff != "" {
		t.Error("of a type:", diff)
	}
	stats, err := d.Stats()
	if err != nil {
		t.Fatal(err)
	}
	c := stats[Pending]
	if c.Files != n || c.Types["a"] != n/2 || c.Types["b"] != n/2 {
		t.Errorf("counted %d files, %v", c.Files, c.Types)
	}
	if c.Sampled == 0 || c.Sampled == n || c.Bytes < 90*n || c.Bytes > 110*n || c.Oldest.IsZero() {
		t.Errorf("estimated %+v", c)
	}
	if s := stats[Done].Sampled; s != 0 {
		t.Errorf("an empty folder was sampled: %d", s)
	}
}
