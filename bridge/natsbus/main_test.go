package natsbus

import (
	"context"
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

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/bridge/bustest/crashtest"
)

func TestMain(m *testing.M) {
	crashtest.RunIfAsked(publisher)
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

const window = 100 * time.Millisecond

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
			os.Exit(crashtest.Crashed)
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

// produce publishes the events of one app.
func produce(b *Bus, log *os.File, s childSpec, p int) error {
	name := func(i int) string { return fmt.Sprintf("r%d-p%d-%06d", s.Round, p, i) }
	return crashtest.Produce(log, s.Each, name, func(id string, i int) error {
		_, err := b.Publish(context.Background(), event(fmt.Sprint("app", p), id, i))
		return err
	})
}

// verdict holds what the stream has against what the publishers said.
func verdict(t testing.TB, js jetstream.JetStream, log string) crashtest.Verdict {
	t.Helper()
	count, lastSeq, order := map[string]int{}, map[string]uint64{}, 0
	for _, e := range envelopes(t, stored(t, js, "AURORA", "aurora"), "aurora") {
		app := e.Header.Source.App
		if e.Header.Seq <= lastSeq[app] {
			order++
		}
		lastSeq[app] = max(lastSeq[app], e.Header.Seq)
		count[e.Header.MessageID]++
	}
	return crashtest.Judge(t, log, count, order)
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
					cmd, out := crashtest.Start(t, s)
					for out.Scan() {
					}
					var exit *exec.ExitError
					if err := cmd.Wait(); s.CrashAt == "" && err != nil || s.CrashAt != "" && (!errors.As(err, &exit) || exit.ExitCode() != crashtest.Crashed) {
						t.Fatalf("round %d at %s %d: %v", round, step, nth, err)
					}
				}
				if acked := verdict(t, server.admin(), log).MustBeClean(t); acked < 100 {
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
		cmd, out := crashtest.Start(t, s)
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
	cmd, out := crashtest.Start(t, s)
	for out.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return server, log
}

func TestKillingThePublisherAtRandomMomentsLosesNothingAndRepeatsNothing(t *testing.T) {
	server, log := killRounds(t, crashtest.Long(12), childSpec{})
	t.Logf("%d events acknowledged", verdict(t, server.admin(), log).MustBeClean(t))
}

func TestTheCheckerCatchesABusThatForgetsIDs(t *testing.T) {
	server, log := killRounds(t, 3, childSpec{NoIDs: true})
	if verdict(t, server.admin(), log).Twice == 0 {
		t.Error("a bus that sent everything twice went unnoticed")
	}
}
