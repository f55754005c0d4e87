package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/modeltest"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
)

// withModel is the command "with-model SCRIPT ARG…": platform with those
// arguments beside a model that plays the turns of the file. It exits with 99
// when a request broke a rule or the script was not played to its end.
func withModel() {
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	broken := false
	script := &modeltest.Script{Key: modeltest.Key, Report: func(what string) {
		broken = true
		fmt.Fprintln(os.Stderr, "model:", what)
	}}
	if err := json.Unmarshal(raw, &script.Turns); err != nil {
		panic(err)
	}
	srv := httptest.NewServer(script)
	os.Setenv("OPENAI_BASE_URL", srv.URL+"/v1")
	os.Setenv("OPENAI_API_KEY", modeltest.Key)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := execute(ctx, os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
	srv.Close()
	if n := script.Left(); n > 0 {
		fmt.Fprintln(os.Stderr, "model: turns that were not asked for:", n)
		broken = true
	}
	if broken {
		code = 99
	}
	os.Exit(code)
}

// trusting is a policy that lets every call through.
const trusting = "unlisted: {unknown: low}\nreview: {first: {unknown: pin}, findings: allow}\n"

// platformWith runs a platform in this process with one fake server of a mode,
// named as it is, under a policy, and returns its data folder and the file that
// gets what is sent to the server. The current folder becomes another.
func platformWith(t *testing.T, mode, policy string) (data, sent string) {
	t.Helper()
	o := settings.Defaults()
	dir := t.TempDir()
	o.Data, o.Manifests = filepath.Join(dir, "d"), []string{filepath.Join(dir, "m.yaml")}
	sent = filepath.Join(dir, "sent")
	argv, _ := fakeserver.Command(mode)
	manifest := fmt.Sprintf("package: %s\ntype: mcp-server\nmcp:\n  command: [sh, -c, 'tee \"$0\" | \"$1\"', %q, %q]\n  env: {AURORA_FAKE_SERVER: %s}\n",
		mode, sent, argv[0], mode)
	if err := os.WriteFile(o.Manifests[0], []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	ctx, stop := context.WithCancel(context.Background())
	settled, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, o, slog.New(slog.DiscardHandler), daemon.Hooks{
			Settled: func(*daemon.Platform) { close(settled) },
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-settled:
	case err := <-done:
		done <- nil
		t.Fatalf("the platform ended: %v", err)
	}
	return o.Data, sent
}

// waitFor waits until a file holds text.
func waitFor(t *testing.T, path, text string) {
	t.Helper()
	var b []byte
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(string(b), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s is not in %s", text, b)
			return
		}
		var err error
		if b, err = os.ReadFile(path); err != nil {
			t.Error(err)
			return
		}
	}
}

// model points the verbs at an endpoint that plays turns.
func model(t *testing.T, turns ...modeltest.Turn) {
	t.Helper()
	t.Setenv("OPENAI_BASE_URL", modeltest.New(t, turns...).URL)
	t.Setenv("OPENAI_API_KEY", modeltest.Key)
}

func TestCtrlCWhileAModelsCallRunsCancelsItAtItsServer(t *testing.T) {
	data, sent := platformWith(t, "hang-call", trusting)
	model(t, modeltest.Turn{Calls: []modeltest.Call{{ID: "c1", Name: "mcp__hang-call__echo", Arguments: `{}`}}})
	ctx, interrupt := context.WithCancel(t.Context()) // as main's does on the signal
	var wg sync.WaitGroup
	wg.Go(func() {
		defer interrupt()
		waitFor(t, sent, `"tools/call"`)
	})
	var out, errOut bytes.Buffer
	code := execute(ctx, []string{"ask", "Hang.", "--model", "m", "--data", data, "--json"}, strings.NewReader(""), &out, &errOut)
	wg.Wait()
	if code != cli.ExitInterrupted || errOut.Len() > 0 {
		t.Errorf("exit code %d, %s", code, &errOut)
	}
	var transcript struct {
		Stop  string
		Steps []struct {
			Calls []struct {
				Error struct {
					Code string `json:"error_code"`
				}
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &transcript); err != nil {
		t.Fatal(err)
	}
	if transcript.Stop != "cancelled" || transcript.Steps[0].Calls[0].Error.Code != "cancelled" {
		t.Errorf("the transcript is %s", &out)
	}
	waitFor(t, sent, "notifications/cancelled")
}
