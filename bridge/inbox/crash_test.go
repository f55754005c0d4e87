package inbox

import (
	"bufio"
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

// The crash tests run this test binary again as a publisher that is killed or
// exits at a step. It appends to a log what it tries and what was acknowledged.
const childEnv = "INBOX_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := publisher(spec); err != nil {
			fmt.Fprintln(os.Stderr, "publisher:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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

const crashed = 7 // exit code of a child that ended itself at a step

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
				os.Exit(crashed)
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
		for x.census.listing.Load() {
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

// produce publishes events that carry a checksum. After each second one it
// publishes an earlier one again, as an app does that missed an acknowledgement.
func produce(x *Inbox, log *os.File, s childSpec, p int) error {
	name := func(i int) string { return fmt.Sprintf("r%d-p%d-%06d", s.Round, p, i) }
	for i := 0; s.Each == 0 || i < s.Each; i++ {
		id := name(i)
		line := func(what string) error {
			_, err := fmt.Fprintf(log, "%s %s\n", what, id)
			return err
		}
		if err := line("try"); err != nil {
			return err
		}
		ids := []string{id}
		if i%2 == 1 {
			ids = append(ids, name(i/2), id)
		}
		for _, id := range ids {
			text := strings.Repeat(id, 20)
			sum := sha256.Sum256([]byte(text))
			e := bustest.Event(fmt.Sprint("app", p), "test.event", map[string]any{"text": text, "sum": hex.EncodeToString(sum[:])})
			e.Header.MessageID = id
			if _, err := x.Publish(context.Background(), bus.Item{Envelope: e}); err != nil {
				return err
			}
		}
		if err := line("ack"); err != nil {
			return err
		}
	}
	return nil
}

func startChild(t testing.TB, s childSpec) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	spec, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
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

// verdict counts what is wrong: acknowledged and lost, taken twice, never tried, out of order.
func (c *checker) verdict(log string) (lost, twice, unknown, order, acked int) {
	raw, err := os.ReadFile(log)
	if err != nil {
		c.t.Fatal(err)
	}
	tried := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		what, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "try":
			tried[id] = true
		case "ack":
			acked++
			if c.taken[id] == 0 {
				lost++
			}
		}
	}
	for id, n := range c.taken {
		if n > 1 {
			twice++
		}
		if !tried[id] {
			unknown++
		}
	}
	return lost, twice, unknown, c.order, acked
}

func (c *checker) mustBeClean(log string) (acked int) {
	c.t.Helper()
	lost, twice, unknown, order, acked := c.verdict(log)
	if lost+twice+unknown+order > 0 {
		c.t.Fatalf("%d acknowledged: %d lost, %d twice, %d never tried, %d out of order", acked, lost, twice, unknown, order)
	}
	return acked
}

// long scales a number of rounds by the environment, for nightly runs.
func long(n int) int {
	if f, err := strconv.Atoi(os.Getenv("AURORA_LONG")); err == nil && f > 0 {
		return n * f
	}
	return n
}

// steps are all places where the disk is touched, with how often each comes up
// before the child is through.
var steps = map[string][]int{
	"journal create":      {1, 2},
	"journal folder sync": {1, 2},
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
			if long(1) == 1 {
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
					cmd, out := startChild(t, s)
					for out.Scan() {
					}
					var exit *exec.ExitError
					if err := cmd.Wait(); s.CrashAt == "" && err != nil || s.CrashAt != "" && (!errors.As(err, &exit) || exit.ExitCode() != crashed) {
						t.Fatalf("round %d at %s %d: %v", round, step, nth, err)
					}
					check.take(rand.IntN(12)) // of what is visible after the crash
				}
				check.take(-1)
				if acked := check.mustBeClean(log); acked < 64 {
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
		cmd, out := startChild(t, s)
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
	check, log := killRounds(t, long(12), childSpec{})
	t.Logf("%d events acknowledged", check.mustBeClean(log))
}

func TestTheCheckerCatchesAnInboxThatForgetsIDs(t *testing.T) {
	check, log := killRounds(t, 3, childSpec{NoIDs: true})
	if _, twice, _, _, _ := check.verdict(log); twice == 0 {
		t.Error("a publisher that sends everything twice to an inbox without memory went unnoticed")
	}
}
