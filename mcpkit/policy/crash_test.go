package policy

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/ledger"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// The test binary is also the process that is killed: it works on the store at
// POLICY_STORE and says each step when it is done.
func TestMain(m *testing.M) {
	if path := os.Getenv("POLICY_STORE"); path != "" {
		if err := work(path, os.Args[1:]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const crashPolicy = "trust: {bank: internal}\nrisk: {bank.pay: high}\n"

// payment is the i-th call of the crash tests.
func payment(i int) Request {
	return Request{CallID: fmt.Sprint("call-", i), IdempotencyKey: fmt.Sprint("key-", i), Tool: pay(), Arguments: args(fmt.Sprintf(`{"n":%d}`, i))}
}

// work makes approved payments until it is killed.
func work(path string, _ []string) error {
	ctx := context.Background()
	s, err := OpenStore(ctx, path, StoreOptions{})
	if err != nil {
		return err
	}
	r, err := rules.Parse("policy.yaml", []byte(crashPolicy))
	if err != nil {
		return err
	}
	g := NewGate(s, r, nil)
	for i := 0; ; i++ {
		req := payment(i)
		v, err := g.Decide(ctx, req)
		if err != nil {
			return err
		}
		fmt.Println("asked", i, v.Approval)
		if _, err := g.Approvals.Approve(ctx, v.Approval, approval.Once, "anna"); err != nil {
			return err
		}
		fmt.Println("approved", i, v.Approval)
		if v, err = g.Decide(ctx, req); err != nil || v.Action != rules.Allow {
			return fmt.Errorf("%s: %w", v.Reason, err)
		}
		fmt.Println("used", i, v.Approval)
		run, err := g.Begin(ctx, req, v)
		if err != nil {
			return err
		}
		fmt.Println("sent", i)
		if err := run.Complete(ctx, ledger.Result{Raw: args(`{"ok":true}`)}); err != nil {
			return err
		}
		fmt.Println("completed", i)
	}
}

// killAfter runs a worker and kills it as soon as it has said so many lines. It
// returns all that was said.
func killAfter(t *testing.T, path string, lines int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "POLICY_STORE="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		said = append(said, sc.Text())
		if len(said) == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || strings.HasPrefix(said[len(said)-1], "error") {
		t.Fatalf("the worker ended by itself: %v, %s", err, said[len(said)-1])
	}
	return said
}

func TestKilledAtAnyMomentNothingThatWasToldIsLostAndNothingRunsTwice(t *testing.T) {
	for lines := 1; lines <= 15; lines += 2 {
		t.Run(fmt.Sprint(lines), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "policy.db")
			said := killAfter(t, path, lines)
			g := openGate(t, path, crashPolicy)
			step, used := map[int]string{}, map[string]bool{}
			last := 0
			for _, line := range said {
				var what, id string
				var i int
				if n, _ := fmt.Sscan(line, &what, &i, &id); n < 2 {
					t.Fatalf("the worker said %q", line)
				}
				step[i], last = what, i
				if what == "used" {
					used[id] = true
				}
			}
			for i := 0; i <= last; i++ {
				e, err := g.Ledger.Find(t.Context(), "key:"+payment(i).IdempotencyKey)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case step[i] == "completed" && (e == nil || e.State != ledger.Completed):
					t.Errorf("payment %d was completed and is %+v", i, e)
				case step[i] == "sent" && (e == nil || e.State == ledger.InFlight):
					t.Errorf("payment %d was sent and is %+v", i, e)
				case e != nil && e.State == ledger.InFlight:
					t.Errorf("payment %d is in flight without a process", i)
				}
				if e == nil {
					continue
				}
				// The same call again: its answer of then, or a refusal. Never a run.
				v := decide(t, g, payment(i), rules.Allow)
				run, err := g.Begin(t.Context(), payment(i), v)
				f := fault.From(err)
				switch {
				case e.State == ledger.Completed && (f != nil || run.Replay == nil):
					t.Errorf("payment %d again: %+v, %v", i, run, f)
				case e.State == ledger.Unknown && (f == nil || f.Outcome != fault.OutcomeUnknown || f.Retryable):
					t.Errorf("payment %d again: %+v, %v", i, run, f)
				}
			}
			all, err := g.Approvals.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]approval.State{}
			for _, a := range all {
				found[a.ID] = a.State
				if used[a.ID] && a.State != approval.Used {
					t.Errorf("%s was used and is %s", a.ID, a.State)
				}
				if _, err := g.Approvals.Use(t.Context(), a.ID, a.Call); a.State != approval.Approved && err == nil {
					t.Errorf("%s is %s and was used again", a.ID, a.State)
				}
			}
			for _, line := range said {
				var what, id string
				var i int
				if n, _ := fmt.Sscan(line, &what, &i, &id); n == 3 && found[id] == "" {
					t.Errorf("%q was told and is lost", line)
				}
			}
		})
	}
}
