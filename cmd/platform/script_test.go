package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

func TestMain(m *testing.M) {
	serverkit.RunGuardIfAsked()
	fakeserver.RunIfAsked()
	testscript.Main(m, map[string]func(){
		"platform": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"platform-wait":   waitReady,
		"approve-first":   approveFirst,
		"revoke-standing": revokeStanding,
		"answer-first":    answerFirst,
		"usage":           usage,
		"history-reaches": historyReaches,
		"show-latest":     showLatest,
		"with-model":      withModel,
	})
}

// usage runs a command line that is to be refused as one.
func usage() {
	if code := execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); code != cli.ExitUsage {
		fmt.Fprintf(os.Stderr, "the exit code is %d\n", code)
		os.Exit(1)
	}
}

// historyReaches waits until the history of DATA's platform has all events, among them
// N records of calls.
func historyReaches() {
	want, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	client, err := control.Dial(os.Args[1])
	if err != nil {
		panic(err)
	}
	var page history.Page
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		page, err = client.History(context.Background(), store.Filter{Kind: "call"}, store.Page{Limit: 100})
		records := 0
		for _, e := range page.Entries {
			records += len(e.Records)
		}
		if err == nil && page.Behind == 0 && records >= want {
			return
		}
	}
	fmt.Fprintln(os.Stderr, "the history has no such calls:", err, page)
	os.Exit(1)
}

// showLatest shows the latest call of DATA's history that a person allowed.
func showLatest() {
	var list bytes.Buffer
	if code := execute(context.Background(), []string{"history", "export", "--kind", "approval", "--outcome", "ok", "--data", os.Args[1]}, os.Stdin, &list, os.Stderr); code != cli.ExitDone {
		os.Exit(code)
	}
	var e entry.Entry
	for dec := json.NewDecoder(&list); dec.More(); {
		if err := dec.Decode(&e); err != nil {
			panic(err)
		}
	}
	os.Exit(execute(context.Background(), []string{"history", "show", e.CallID, "--data", os.Args[1]}, os.Stdin, os.Stdout, os.Stderr))
}

// waitReady waits until DATA's platform has N servers that are ready.
func waitReady() {
	want, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	client, err := control.Dial(os.Args[1])
	if err != nil {
		panic(err)
	}
	var servers []control.Server
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var ready int
		servers, err = client.Servers(context.Background())
		for _, s := range servers {
			if s.Phase == "ready" {
				ready++
			}
		}
		if err == nil && ready == want {
			return
		}
	}
	fmt.Fprintln(os.Stderr, "not ready:", err, servers)
	os.Exit(1)
}

// approveFirst approves what waits first on DATA's platform, once or for SCOPE.
func approveFirst() {
	client, err := control.Dial(os.Args[1])
	if err != nil {
		panic(err)
	}
	scope := approval.Once
	if len(os.Args) > 2 {
		scope = approval.Scope(os.Args[2])
	}
	list, err := client.Approvals(context.Background(), "pending")
	if err == nil && len(list) == 0 {
		err = errors.New("nothing waits")
	}
	if err == nil {
		_, err = client.Approve(context.Background(), list[0].ID, control.Answer{Scope: scope, Actor: "script"})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answerFirst waits until a call waits for an answer, shows it, and answers it with
// the flags that follow DATA.
func answerFirst() {
	client, err := control.Dial(os.Args[1])
	if err != nil {
		panic(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list, err := client.Calls(context.Background(), "input_required")
		if err != nil || len(list) == 0 {
			continue
		}
		for _, verb := range [][]string{{"calls", "ls"}, {"calls", "show", list[0].CallID}, append([]string{"calls", "answer", list[0].CallID}, os.Args[2:]...)} {
			if code := execute(context.Background(), append(verb, "--data", os.Args[1]), os.Stdin, os.Stdout, os.Stderr); code != cli.ExitDone {
				os.Exit(code)
			}
		}
		return
	}
	fmt.Fprintln(os.Stderr, "no call waits")
	os.Exit(1)
}

// revokeStanding revokes all approvals that stand, by the verb.
func revokeStanding() {
	client, err := control.Dial(os.Args[1])
	if err != nil {
		panic(err)
	}
	list, err := client.Approvals(context.Background(), "approved")
	if err != nil || len(list) == 0 {
		fmt.Fprintln(os.Stderr, "nothing stands:", err)
		os.Exit(1)
	}
	for _, a := range list {
		if code := execute(context.Background(), []string{"approvals", "revoke", a.ID, "--data", os.Args[1]}, os.Stdin, os.Stdout, os.Stderr); code != cli.ExitDone {
			os.Exit(code)
		}
	}
}

// TestScripts runs whole commands as a person types them. In a script's
// manifests the command "platform" with AURORA_FAKE_SERVER set is a fake server.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			return nil
		},
	})
}
