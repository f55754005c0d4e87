// Package crashtest is a test kit for what a bus does when its process dies: the
// test binary runs itself again as a publisher that is killed or exits at a step,
// and appends to a log what it tries and what was acknowledged. What arrived is
// then held against the log.
//
//	func TestMain(m *testing.M) {
//		crashtest.RunIfAsked(publisher) // does not return in a publisher
//		os.Exit(m.Run())
//	}
//
//	cmd, out := crashtest.Start(t, spec)
//	…
//	crashtest.Judge(t, log, taken, disordered).MustBeClean(t)
//
// What a publisher does, and how a Brain reads, is the bus's own.
package crashtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const childEnv = "BUS_TEST_PUBLISHER"

// Crashed is the exit code of a publisher that ended itself at a step.
const Crashed = 7

// RunIfAsked is the publisher, and ends the process, where the environment has a
// spec for one. Elsewhere it does nothing.
func RunIfAsked(publisher func(spec string) error) {
	spec := os.Getenv(childEnv)
	if spec == "" {
		return
	}
	if err := publisher(spec); err != nil {
		fmt.Fprintln(os.Stderr, "publisher:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Env is what to add to the environment of a publisher with that spec.
func Env(t testing.TB, spec any) string {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return childEnv + "=" + string(raw)
}

// Start starts a publisher, which dies with this process, and returns what it
// prints.
func Start(t testing.TB, spec any) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), Env(t, spec))
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

// Produce publishes n events (0: until killed), the ith under the id name(i), and
// logs each. After each second one it publishes an earlier one again, as an app
// does that missed an acknowledgement.
func Produce(log *os.File, n int, name func(i int) string, publish func(id string, i int) error) error {
	for i := 0; n == 0 || i < n; i++ {
		if _, err := fmt.Fprintf(log, "try %s\n", name(i)); err != nil {
			return err
		}
		ids := []string{name(i)}
		if i%2 == 1 {
			ids = append(ids, name(i/2), name(i))
		}
		for _, id := range ids {
			if err := publish(id, i); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(log, "ack %s\n", name(i)); err != nil {
			return err
		}
	}
	return nil
}

// Verdict counts events: those acknowledged, and what is wrong with those that
// arrived.
type Verdict struct {
	Acked   int
	Lost    int // acknowledged, and did not arrive
	Twice   int // arrived more than once
	Unknown int // arrived, and nobody tried
	Order   int // arrived before an earlier one of their source
}

// Judge holds what arrived, how often by id, against what the publishers logged.
// How many came out of order is the caller's to count.
func Judge(t testing.TB, log string, arrived map[string]int, order int) Verdict {
	t.Helper()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	v, tried := Verdict{Order: order}, map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		what, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "try":
			tried[id] = true
		case "ack":
			v.Acked++
			if arrived[id] == 0 {
				v.Lost++
			}
		}
	}
	for id, n := range arrived {
		if n > 1 {
			v.Twice++
		}
		if !tried[id] {
			v.Unknown++
		}
	}
	return v
}

// MustBeClean fails the test unless nothing is wrong, and returns how many events
// were acknowledged.
func (v Verdict) MustBeClean(t testing.TB) (acked int) {
	t.Helper()
	if v.Lost+v.Twice+v.Unknown+v.Order > 0 {
		t.Fatalf("%d acknowledged: %d lost, %d twice, %d never tried, %d out of order", v.Acked, v.Lost, v.Twice, v.Unknown, v.Order)
	}
	return v.Acked
}

// Long scales a number of rounds by AURORA_LONG, for nightly runs.
func Long(n int) int {
	if f, err := strconv.Atoi(os.Getenv("AURORA_LONG")); err == nil && f > 0 {
		return n * f
	}
	return n
}
