package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
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
		"platform-wait": waitReady,
		"approve-first": approveFirst,
		"with-model":    withModel,
	})
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

// approveFirst approves what waits first on DATA's platform.
func approveFirst() {
	client, err := control.Dial(os.Args[1])
	if err != nil {
		panic(err)
	}
	list, err := client.Approvals(context.Background(), "pending")
	if err == nil && len(list) == 0 {
		err = errors.New("nothing waits")
	}
	if err == nil {
		_, err = client.Approve(context.Background(), list[0].ID, control.Answer{Scope: "once", Actor: "script"})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
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
