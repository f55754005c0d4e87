package natsbus

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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

// The crash tests run this test binary again as a publisher that is killed or
// exits at a step. It appends to a log what it tries and what was acknowledged.
const childEnv = "NATSBUS_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := publisher(spec); err != nil {
			fmt.Fprintln(os.Stderr, "publisher:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A server that is stopped in the middle of a batch leaves the goroutines of
	// the store it gathered the batch in.
	const store = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction(store+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(store+".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(store+"/ats.Register.func1"))
}

// childSpec is what a child publisher does.
type childSpec struct {
	URL, Dir  string
	Log       string // tries and acknowledgements, one line each
	Round     int
	Producers int
	Each      int    // events per producer; 0: until killed
	CrashAt   string // step at which it exits
	Nth       int    // the how manieth time
	NoIDs     bool   // a negative control: forgets ids at once
}

const (
	crashed = 7 // exit code of a child that ended itself at a step
	window  = 100 * time.Millisecond
)

func publisher(spec string) error {
	var s childSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	opt := Options{URLs: []string{s.URL}, Retry: 5 * time.Millisecond, Batch: 16, DuplicateWindow: window, CloseTimeout: patience,
		Journal: journalOptions(s.Dir)}
	opt.Journal.SegmentBytes = 64 << 10
	var steps atomic.Int64
	opt.Fault = func(step string) error {
		if step == s.CrashAt && steps.Add(1) == int64(s.Nth) {
			os.Exit(crashed)
		}
		return nil
	}
	if s.NoIDs {
		opt.Journal.MaxIDs = 1
	}
	log, err := os.OpenFile(s.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	b, err := Open(context.Background(), opt)
	if err != nil {
		return err
	}
	fmt.Println("open")
	var wg sync.WaitGroup
	errs := make([]error, s.Producers)
	for p := range s.Producers {
		wg.Go(func() { errs[p] = produce(b, log, s, p) })
	}
	wg.Wait()
	return errors.Join(append(errs, b.Close())...)
}

// produce publishes events; after each second one an earlier one again, as an
// app does that missed an acknowledgement.
func produce(b *Bus, log *os.File, s childSpec, p int) error {
	name := func(i int) string { return fmt.Sprintf("r%d-p%d-%06d", s.Round, p, i) }
	for i := 0; s.Each == 0 || i < s.Each; i++ {
		if _, err := fmt.Fprintf(log, "try %s\n", name(i)); err != nil {
			return err
		}
		ids := []string{name(i)}
		if i%2 == 1 {
			ids = append(ids, name(i/2), name(i))
		}
		for _, id := range ids {
			if _, err := b.Publish(context.Background(), event(fmt.Sprint("app", p), id, i)); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(log, "ack %s\n", name(i)); err != nil {
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

// verdict holds what the stream has against what the publishers said:
// acknowledged and lost, stored twice, never tried, out of order.
func verdict(t testing.TB, js jetstream.JetStream, logPath string) (lost, twice, unknown, order, acked int) {
	t.Helper()
	raw, err := os.ReadFile(logPath)
	if err != nil {
		t.Fatal(err)
	}
	count, lastSeq := map[string]int{}, map[string]uint64{}
	for _, e := range envelopes(t, stored(t, js, "AURORA", "aurora"), "aurora") {
		app := e.Header.Source.App
		if e.Header.Seq <= lastSeq[app] {
			order++
		}
		lastSeq[app] = max(lastSeq[app], e.Header.Seq)
		count[e.Header.MessageID]++
	}
	tried := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		what, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "try":
			tried[id] = true
		case "ack":
			acked++
			if count[id] == 0 {
				lost++
			}
		}
	}
	for id, n := range count {
		if n > 1 {
			twice++
		}
		if !tried[id] {
			unknown++
		}
	}
	return lost, twice, unknown, order, acked
}

func mustBeClean(t testing.TB, js jetstream.JetStream, log string) (acked int) {
	t.Helper()
	lost, twice, unknown, order, acked := verdict(t, js, log)
	if lost+twice+unknown+order > 0 {
		t.Fatalf("%d acknowledged: %d lost, %d twice, %d never tried, %d out of order", acked, lost, twice, unknown, order)
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

func TestACrashAtAnyStepLosesNothingAndRepeatsNothing(t *testing.T) {
	for _, step := range []string{"nats send", "nats acknowledged", "nats checkpoint", "journal sync", "journal synced"} {
		t.Run(strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			for _, nth := range []int{1, 3} {
				server := startBroker(t)
				dir := t.TempDir()
				log := filepath.Join(dir, "log")
				for round, s := range []childSpec{{CrashAt: step, Nth: nth}, {CrashAt: step, Nth: nth}, {}} { // the last one runs through
					s.URL, s.Dir, s.Log, s.Round, s.Producers, s.Each = server.url(), dir, log, round, 4, 25
					cmd, out := startChild(t, s)
					for out.Scan() {
					}
					var exit *exec.ExitError
					if err := cmd.Wait(); s.CrashAt == "" && err != nil || s.CrashAt != "" && (!errors.As(err, &exit) || exit.ExitCode() != crashed) {
						t.Fatalf("round %d at %s %d: %v", round, step, nth, err)
					}
				}
				if acked := mustBeClean(t, server.admin(), log); acked < 100 {
					t.Errorf("only %d events acknowledged", acked)
				}
				server.stop()
			}
		})
	}
}

// killRounds kills publishers, and now and then stops the server for a while.
func killRounds(t *testing.T, rounds int, s childSpec) (*broker, string) {
	server := startBroker(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	s.URL, s.Dir, s.Log, s.Producers = server.url(), dir, log, 4
	for round := range rounds {
		s.Round = round
		cmd, out := startChild(t, s)
		if !out.Scan() {
			t.Fatalf("round %d: the child did not open the bus: %v", round, cmd.Wait())
		}
		if round%3 == 1 {
			server.stop()
		}
		<-time.After(time.Duration(rand.IntN(300)) * time.Millisecond) // the moment of the kill
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() // killed
		if server.s == nil {
			server.start()
		}
	}
	s.Round, s.Each = rounds, 1 // completes what is left
	cmd, out := startChild(t, s)
	for out.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return server, log
}

func TestKillingThePublisherAtRandomMomentsLosesNothingAndRepeatsNothing(t *testing.T) {
	server, log := killRounds(t, long(12), childSpec{})
	t.Logf("%d events acknowledged", mustBeClean(t, server.admin(), log))
}

func TestTheCheckerCatchesABusThatForgetsIDs(t *testing.T) {
	server, log := killRounds(t, 3, childSpec{NoIDs: true})
	if _, twice, _, _, _ := verdict(t, server.admin(), log); twice == 0 {
		t.Error("a bus that sent everything twice went unnoticed")
	}
}
