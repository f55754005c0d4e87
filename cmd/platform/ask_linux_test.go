package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/modeltest"
)

// terminal is a pseudo terminal; shown is what was written to it, once it is closed.
func terminal(t *testing.T) (tty *os.File, shown func() string) {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there is no pseudo terminal: %v", err)
	}
	fd := int(ptmx.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var all bytes.Buffer
	wg.Go(func() { all.ReadFrom(ptmx) }) // ends with EIO when the terminal closes
	t.Cleanup(func() { tty.Close(); ptmx.Close(); wg.Wait() })
	return tty, func() string {
		tty.Close()
		wg.Wait()
		return strings.ReplaceAll(all.String(), "\r\n", "\n")
	}
}

func TestOnATerminalTheAnswerStreamsAndEachCallIsALine(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	data, _ := platformWith(t, "echo", trusting)
	model(t,
		modeltest.Turn{Status: 429, Header: map[string]string{"Retry-After": "0"}, Body: `{"error":{"message":"slow down","type":"rate_limit_error"}}`},
		modeltest.Turn{Text: "I look.", Calls: []modeltest.Call{
			{ID: "c1", Name: "mcp__echo__echo", Arguments: `{"message":"hi"}`}, {ID: "c2", Name: "mcp__echo__fly", Arguments: `{}`}}},
		modeltest.Turn{Text: "It is\nfine.\x1b[2J"},
	)
	tty, shown := terminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if code := execute(ctx, []string{"ask", "Well?", "--model", "m", "--data", data}, strings.NewReader(""), tty, tty); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(shown(), "\n")
	for i, want := range []string{
		"… the endpoint answered 429 Too Many Requests: slow down; again in 0 ms",
		"I look.", "  ms", "  ms", "It is", `fine.\x1b[2J`, "",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], strings.TrimSpace(want)) {
			t.Fatalf("line %d is not %q in\n%s", i, want, strings.Join(lines, "\n"))
		}
	}
	calls := strings.Join(lines[2:4], "\n")
	for _, part := range []string{"✓ mcp__echo__echo  ", "✗ mcp__echo__fly  0 ms  tool_not_found: "} {
		if !strings.Contains(calls, part) {
			t.Errorf("%q is not in\n%s", part, calls)
		}
	}
}

func TestOnATerminalACallWaitsForApprovalAndSaysHow(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	data, _ := platformWith(t, "echo", "review: {first: {unknown: pin}}\n")
	model(t,
		modeltest.Turn{Calls: []modeltest.Call{{ID: "c1", Name: "mcp__echo__echo", Arguments: `{"message":"may I"}`}}},
		modeltest.Turn{Text: "Done."},
	)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	verb := func(args ...string) string {
		var out bytes.Buffer
		if code := execute(ctx, append(args, "--data", data), strings.NewReader(""), &out, &out); code != cli.ExitDone {
			t.Errorf("%q: exit code %d, %s", args, code, &out)
		}
		return out.String()
	}
	var id string
	var wg sync.WaitGroup
	wg.Go(func() { // the person at another terminal
		var list struct{ Approvals []struct{ ID string } }
		for ; len(list.Approvals) == 0; time.Sleep(10 * time.Millisecond) {
			if err := json.Unmarshal([]byte(verb("approvals", "ls", "--json")), &list); err != nil {
				t.Error(err)
				cancel()
				return
			}
		}
		id = list.Approvals[0].ID
		verb("approvals", "approve", id)
	})
	tty, shown := terminal(t)
	code := execute(ctx, []string{"ask", "Well?", "--model", "m", "--data", data}, strings.NewReader(""), tty, tty)
	wg.Wait()
	text := shown()
	if code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	for _, part := range []string{"? mcp__echo__echo waits", "\n  platform approvals approve " + id + " --data ", "✓ mcp__echo__echo  ", "\nDone.\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}
