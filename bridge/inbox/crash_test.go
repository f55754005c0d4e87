package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/bustest/crashtest"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

func TestMain(m *testing.M) {
	crashtest.RunIfAsked(publisher)
	goleak.VerifyTestMain(m)
}

// childSpec is what a child publisher does.
type childSpec struct {
	Dir       string
	Log       string // tries and acknowledgements, one line each
	Round     int
	Producers int
	Each      int    // events per producer; 0: until killed
	CrashAt   string // step of the disk at which it exits
	Nth       int    // the how manieth time
	NoSyncFS  bool
	NoIDs     bool // a negative control: forgets ids at once
	Mark      bool // when it begins and ends to publish, by a system call that is easy to see
}

const mark = "/a-mark-in-the-trace"

func publisher(spec string) error {
	var s childSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	opt := options(s.Dir)
	opt.NoSyncFS = s.NoSyncFS
	opt.Journal.SegmentBytes = 16 << 10
	if s.NoIDs {
		opt.Journal.MaxIDs = 1
	}
	var steps atomic.Int64
	if s.CrashAt != "" {
		opt.Fault = func(step string) error {
			if step == s.CrashAt && steps.Add(1) == int64(s.Nth) {
				os.Exit(crashtest.Crashed)
			}
			return nil
		}
	}
	log, err := os.OpenFile(s.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	x, err := Open(opt)
	if err != nil {
		return err
	}
	fmt.Println("open")
	if s.Mark {
		for !x.pending.Listed() {
			time.Sleep(time.Millisecond)
		}
		unix.Unlink(mark)
	}
	var wg sync.WaitGroup
	errs := make([]error, s.Producers)
	for p := range s.Producers {
		wg.Go(func() { errs[p] = produce(x, log, s, p) })
	}
	wg.Wait()
	if s.Mark { // what was put off is part of publishing
		if err := x.Flush(context.Background()); err != nil {
			return err
		}
		unix.Unlink(mark)
	}
	return errors.Join(append(errs, x.Close())...)
}

// produce publishes the events of one app, which carry a checksum.
func produce(x *Inbox, log *os.File, s childSpec, p int) error {
	name := func(i int) string { return fmt.Sprintf("r%d-p%d-%06d", s.Round, p, i) }
	return crashtest.Produce(log, s.Each, name, func(id string, _ int) error {
		text := strings.Repeat(id, 20)
		sum := sha256.Sum256([]byte(text))
		e := bustest.Event(fmt.Sprint("app", p), "test.event", map[string]any{"text": text, "sum": hex.EncodeToString(sum[:])})
		e.Header.MessageID = id
		_, err := x.Publish(context.Background(), bus.Item{Envelope: e})
		return err
	})
}

// checker is a Brain that takes files away, in part by deleting them, and holds
// what it was given against what the publishers said.
type checker struct {
	t       testing.TB
	opt     Options
	taken   map[string]int
	lastSeq map[string]uint64
	order   int
}

func newChecker(t testing.TB, opt Options) *checker {
	return &checker{t: t, opt: opt, taken: map[string]int{}, lastSeq: map[string]uint64{}}
}

// take takes the first n visible files (n < 0: all) in the order of their times.
func (c *checker) take(n int) {
	c.t.Helper()
	pending := filepath.Join(c.opt.Dir, queue.Pending)
	for _, e := range firstVisible(c.t, c.opt, queue.Pending, n) {
		var data struct{ Text, Sum string }
		if err := json.Unmarshal(e.Payload.Data, &data); err != nil {
			c.t.Fatal(err)
		}
		if sum := sha256.Sum256([]byte(data.Text)); hex.EncodeToString(sum[:]) != data.Sum {
			c.t.Errorf("%s is not whole", e.Header.MessageID)
		}
		id, app := e.Header.MessageID, e.Header.Source.App
		c.taken[id]++
		if e.Header.Seq <= c.lastSeq[app] {
			c.order++
		}
		c.lastSeq[app] = max(c.lastSeq[app], e.Header.Seq)
		name := amp.FileName(e.Payload.Type, id)
		var err error
		if len(c.taken)%3 == 0 {
			err = os.Remove(filepath.Join(pending, name))
		} else {
			err = os.Rename(filepath.Join(pending, name), filepath.Join(c.opt.Dir, queue.Done, name))
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *checker) verdict(log string) crashtest.Verdict {
	c.t.Helper()
	return crashtest.Judge(c.t, log, c.taken, c.order)
}

// steps are all places where the disk is touched, with how often each comes up
// before the child is through, at least.
var steps = map[string][]int{
	"journal create":      {1, 2},
	"journal folder sync": {1, 2},
	"spare sync":          {1, 3}, // of the segment that is made ahead
	"spare rename":        {1, 3},
	"spare folder sync":   {1, 3},
	"journal write":       {1, 5},
	"journal sync":        {1, 5},
	"journal synced":      {1, 5},
	"inbox write":         {1, 20},
	"inbox sync":          {1}, // a quick disk makes one batch of all
	"inbox intent":        {1},
	"inbox rename":        {1, 20},
	"inbox folder sync":   {1},
	"inbox checkpoint":    {1},
	"inbox done":          {1},
}

func TestACrashAtAnyStepLosesNothingAndRepeatsNothing(t *testing.T) {
	for step, counts := range steps {
		t.Run(strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if crashtest.Long(1) == 1 {
				counts = counts[len(counts)-1:]
			}
			for _, nth := range counts {
				dir := t.TempDir()
				opt, log := options(dir), filepath.Join(dir, "log")
				check := newChecker(t, opt)
				for round, s := range []childSpec{
					{CrashAt: step, Nth: nth}, {CrashAt: step, Nth: nth}, {}, // the last one runs through
				} {
					s.NoSyncFS = round == 1
					s.Dir, s.Log, s.Round, s.Producers, s.Each = dir, log, round, 8, 8
					if s.CrashAt != "" {
						s.Each = 500 // whether a segment was made ahead in time is chance
					}
					cmd, out := crashtest.Start(t, s)
					for out.Scan() {
					}
					var exit *exec.ExitError
					if err := cmd.Wait(); s.CrashAt == "" && err != nil || s.CrashAt != "" && (!errors.As(err, &exit) || exit.ExitCode() != crashtest.Crashed) {
						t.Fatalf("round %d at %s %d: %v", round, step, nth, err)
					}
					check.take(rand.IntN(12)) // of what is visible after the crash
				}
				check.take(-1)
				if acked := check.verdict(log).MustBeClean(t); acked < 64 {
					t.Errorf("only %d events acknowledged", acked)
				}
			}
		})
	}
}

func killRounds(t *testing.T, rounds int, s childSpec) (*checker, string) {
	dir := t.TempDir()
	opt, log := options(dir), filepath.Join(dir, "log")
	check := newChecker(t, opt)
	for round := range rounds {
		s.Dir, s.Log, s.Round, s.Producers = dir, log, round, 4
		cmd, out := crashtest.Start(t, s)
		if !out.Scan() {
			t.Fatalf("round %d: the child did not open the inbox: %v", round, cmd.Wait())
		}
		deadline := time.After(time.Duration(rand.IntN(300)) * time.Millisecond)
		for alive := true; alive; { // the Brain takes files while the platform lives
			select {
			case <-deadline:
				alive = false
			default:
				check.take(rand.IntN(50))
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // killed
		check.take(rand.IntN(50))
	}
	open(t, opt).Close() // completes what is left
	check.take(-1)
	return check, log
}

func TestKillingThePublisherAtRandomMomentsLosesNothingAndRepeatsNothing(t *testing.T) {
	check, log := killRounds(t, crashtest.Long(12), childSpec{})
	t.Logf("%d events acknowledged", check.verdict(log).MustBeClean(t))
}

func TestTheCheckerCatchesAnInboxThatForgetsIDs(t *testing.T) {
	check, log := killRounds(t, 3, childSpec{NoIDs: true})
	if check.verdict(log).Twice == 0 {
		t.Error("a publisher that sends everything twice to an inbox without memory went unnoticed")
	}
}
