package child_test

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/child"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/proc"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/stderrlog"
)

func TestMain(m *testing.M) {
	sandbox.RunIfAsked()
	proc.RunGuardIfAsked()
	os.Exit(m.Run())
}

const patience = 30 * time.Second

// start runs a script as a child, and returns it with its first line and its log.
func start(t *testing.T, script string) (*child.Child, string, *stderrlog.Log) {
	t.Helper()
	const prefix = "childtest/"
	log := slog.New(slog.DiscardHandler)
	forks := proc.NewForks()
	guard := proc.NewGuard(prefix, "", forks, log)
	t.Cleanup(func() { guard.Close(); forks.Stop() })
	s := &child.Spawner{Forks: forks, Tree: proc.NewTree(prefix), Guard: guard}
	said := stderrlog.New(stderrlog.Options{Logger: log})
	p, err := s.Spawn(child.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Dir: t.TempDir(), Env: os.Environ(),
		Token: prefix + "1", Title: "start 1", Stderr: said, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(line), said
}

func TestTheEndOfAChildIsTheEndOfWhatItStarted(t *testing.T) {
	p, line, said := start(t, `sleep 600 & echo $!; echo gone wrong >&2; exit 3`)
	select {
	case <-p.Exited():
	case <-time.After(patience):
		t.Fatal("the child did not end")
	}
	state := p.End(nil, nil, child.Stop{Kind: child.Dead, TermWait: patience}, nil)
	if state.ExitCode() != 3 {
		t.Errorf("exit: %v", state)
	}
	grandchild, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !errors.Is(syscall.Kill(grandchild, 0), syscall.ESRCH); { // its reaping is not ours
		if time.Now().After(deadline) {
			t.Fatal("what the child started lives on")
		}
		<-time.After(5 * time.Millisecond)
	}
	if lines := said.Lines(1); len(lines) != 1 || !strings.HasSuffix(lines[0], "gone wrong") {
		t.Errorf("stderr: %q", lines)
	}
}

func TestAChildThatIgnoresEverythingIsKilledAtOnceWhereThereIsNoTime(t *testing.T) {
	p, _, _ := start(t, `trap "" TERM; echo ready; while :; do sleep 1; done`)
	hurry := make(chan struct{})
	close(hurry)
	state := p.End(nil, nil, child.Stop{CloseWait: time.Hour, TermWait: time.Hour}, hurry)
	if state.Status.Signal() != syscall.SIGKILL {
		t.Errorf("exit: %v", state)
	}
}
