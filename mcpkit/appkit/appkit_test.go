package appkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/appkittest"
)

const manifest = `
package: im.polaris.example
name: 示例
version: 1.2.3
type: mcp-server
mcp:
  transport: stdio
  command: ["aurora-example"]
commands:
  - name: greet
    description: Greet somebody.
  - name: remind
    description: Emit a reminder.
  - name: fail
    description: Fail in a chosen way.
`

// TestMain is also the program of the tests that need a process: the test
// binary, started again with EXAMPLE_APP set, is the example app.
func TestMain(m *testing.M) {
	if os.Getenv("EXAMPLE_APP") != "" {
		appkit.Main([]byte(manifest), func(app *appkit.App) error {
			fmt.Println("a banner that a library prints")
			return setup(app)
		})
	}
	goleak.VerifyTestMain(m)
}

type greetArgs struct {
	Name   string   `json:"name" jsonschema:"whom to greet" minLength:"1" maxLength:"20"`
	Times  int      `json:"times,omitempty" jsonschema:"how often" minimum:"1" maximum:"3" default:"1"`
	Tone   string   `json:"tone,omitempty" jsonschema:"how" enum:"warm,cool" default:"warm"`
	Places []string `json:"places,omitempty" jsonschema:"where" maxItems:"2"`
}

type greeting struct {
	Lines []string `json:"lines"`
	Tone  string   `json:"tone"`
}

func (g greeting) Text() string { return strings.Join(g.Lines, " ") }

type remindArgs struct {
	Note    string `json:"note" jsonschema:"what to say"`
	Key     string `json:"key,omitempty" jsonschema:"idempotency key"`
	Expired bool   `json:"expired,omitempty" jsonschema:"emit it expired"`
}

type failArgs struct {
	How string `json:"how" jsonschema:"fail, wrap, error or panic"`
}

type nothing struct{}

type state struct {
	N string `json:"n"`
}

func setup(app *appkit.App) error {
	appkit.AddTool(app, appkit.Tool{Name: "greet", Description: "Greet somebody.", ReadOnly: true},
		func(_ context.Context, in greetArgs) (greeting, error) {
			g := greeting{Tone: in.Tone, Lines: []string{}}
			for range in.Times {
				g.Lines = append(g.Lines, "<hello> "+in.Name)
			}
			return g, nil
		})
	appkit.AddTool(app, appkit.Tool{Name: "remind", Description: "Emit a reminder."},
		func(ctx context.Context, in remindArgs) (nothing, error) {
			e := appkit.Event{Type: "note.reminded", SessionID: "s1", Summary: in.Note, Data: in, Key: in.Key}
			if in.Expired {
				e.ExpireAt = time.Now().Add(-time.Hour)
			}
			if err := app.Emit(ctx, e); errors.Is(err, appkit.ErrOutboxFull) {
				return nothing{}, appkit.Fail("EXAMPLE_BUSY", "%v", err).Retry()
			} else if err != nil {
				return nothing{}, err
			}
			return nothing{}, nil
		})
	appkit.AddTool(app, appkit.Tool{Name: "fail", Description: "Fail in a chosen way."},
		func(_ context.Context, in failArgs) (nothing, error) {
			known := appkit.Fail("EXAMPLE_FAILED", "failed %s", "as asked").Retry()
			switch in.How {
			case "fail":
				return nothing{}, known
			case "wrap":
				return nothing{}, fmt.Errorf("on the way: %w", known)
			case "panic":
				panic("secret detail")
			}
			return nothing{}, errors.New("secret detail")
		})
	app.AddResource(appkit.Resource{URI: "aurora://example/state", Name: "state", Description: "The state."},
		func(context.Context) (any, error) { return state{"<1>"}, nil })
	for uri, fail := range map[string]func() (any, error){
		"aurora://example/error":  func() (any, error) { return nil, errors.New("secret detail") },
		"aurora://example/panic":  func() (any, error) { panic("secret detail") },
		"aurora://example/nojson": func() (any, error) { return make(chan int), nil },
	} {
		app.AddResource(appkit.Resource{URI: uri, Name: uri}, func(context.Context) (any, error) { return fail() })
	}
	return nil
}

// eras are the protocol versions that every session test runs under.
func eras(t *testing.T, test func(t *testing.T, o appkittest.Option)) {
	for _, version := range []string{"2024-11-05", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { test(t, appkittest.Protocol(version)) })
	}
}

func TestAnAppKeepsTheContractInEveryEra(t *testing.T) {
	eras(t, func(t *testing.T, era appkittest.Option) {
		s := appkittest.Start(t, []byte(manifest), setup, era)
		appkittest.CheckContract(t, s, []byte(manifest))
	})
}

func TestAResultIsDataInAnEnvelopeAndASentence(t *testing.T) {
	eras(t, func(t *testing.T, era appkittest.Option) {
		s := appkittest.Start(t, []byte(manifest), setup, era)
		res, err := s.CallRaw("greet", map[string]any{"name": "上海", "times": 2})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(res.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(got, &plain); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"ok": true, "data": map[string]any{
			"lines": []any{"<hello> 上海", "<hello> 上海"}, "tone": "warm"}}
		if diff := cmp.Diff(want, plain); diff != "" {
			t.Errorf("structured content (-want +got):\n%s", diff)
		}
		if text := res.Content[0].(*mcp.TextContent).Text; text != "<hello> 上海 <hello> 上海" {
			t.Errorf("text is %q", text)
		}
	})
}

func TestArgumentsThatDoNotFitAreRefusedWithFieldAndExpectation(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	for _, c := range []struct {
		args string
		want string // in the message
		data []map[string]string
	}{
		{`{}`, "name: is required", []map[string]string{{"field": "name", "expected": "is required"}}},
		{`null`, "name: is required", nil},
		{`{"name":"x","extra":1}`, "extra: is not a known argument", nil},
		{`{"name":"x","times":9}`, "times: maximum", nil},
		{`{"name":"x","times":1.5}`, "times: got number, want integer", nil},
		{`{"name":"x","times":"2"}`, "times: got string, want integer", nil},
		{`{"name":"","times":0}`, "name: minLength", nil},
		{`{"name":"x","tone":"hot"}`, "tone: value must be one of", nil},
		{`{"name":"x","places":["a","b",3]}`, "places.2: got number", nil},
		{`{"name":"x","times":1e400}`, "times: maximum", nil},
		{`{"Name":"x"}`, "Name: is not a known argument", nil},
		{`[]`, "want object", nil},
	} {
		wire := appkittest.CallRefused(t, s, "greet", json.RawMessage(c.args))
		if !strings.Contains(wire.Message, c.want) {
			t.Errorf("%s: message %q lacks %q", c.args, wire.Message, c.want)
		}
		if c.data != nil {
			var data []map[string]string
			if err := json.Unmarshal(wire.Data, &data); err != nil {
				t.Fatalf("%s: data %s: %v", c.args, wire.Data, err)
			}
			if diff := cmp.Diff(c.data, data); diff != "" {
				t.Errorf("%s: data (-want +got):\n%s", c.args, diff)
			}
		}
	}
}

func TestAnIntegerWrittenAsANumberWithoutFractionIsAccepted(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	got := appkittest.Call[greeting](t, s, "greet", json.RawMessage(`{"name":"x","times":2.0}`))
	if len(got.Lines) != 2 {
		t.Errorf("greeted %d times, want 2", len(got.Lines))
	}
}

func TestAnUnknownToolIsAProtocolError(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	appkittest.CallRefused(t, s, "no_such_tool", map[string]any{})
}

func TestFailuresHaveOneShapeAndHideWhatWasNotForeseen(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	for how, code := range map[string]string{
		"fail": "EXAMPLE_FAILED", "wrap": "EXAMPLE_FAILED", "error": appkit.CodeInternal, "panic": appkit.CodeInternal,
	} {
		e := appkittest.CallFails(t, s, "fail", map[string]any{"how": how})
		if e.Code != code || e.Retryable != (code == "EXAMPLE_FAILED") {
			t.Errorf("%s: got %s, retryable %v", how, e.Code, e.Retryable)
		}
		if strings.Contains(e.Message, "secret") {
			t.Errorf("%s: the message tells %q", how, e.Message)
		}
	}
	// The panic has not ended the server.
	appkittest.Call[greeting](t, s, "greet", map[string]any{"name": "x"})
}

func TestACallInFlightIsCancelledWhenTheAppEnds(t *testing.T) {
	eras(t, func(t *testing.T, era appkittest.Option) {
		started, cancelled := make(chan bool), false
		s := appkittest.Start(t, []byte(manifest), func(app *appkit.App) error {
			appkit.AddTool(app, appkit.Tool{Name: "wait", Description: "Wait."}, func(ctx context.Context, _ nothing) (nothing, error) {
				close(started)
				<-ctx.Done()
				cancelled = true // without the wait the race detector objects
				return nothing{}, ctx.Err()
			})
			return nil
		}, era)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = s.CallRaw("wait", map[string]any{}) // whether its answer gets through is chance
		}()
		<-started
		if err := s.Close(); err != nil {
			t.Errorf("the app did not end in order: %v", err)
		}
		if !cancelled {
			t.Error("Serve returned before the call's function")
		}
		<-answered
	})
}

func TestAWorkerThatDoesNotStopIsAnErrorAfterABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		app.Go("deaf", func(context.Context) error { <-release; return nil })
		serverSide, clientSide := mcp.NewInMemoryTransports()
		conn, err := clientSide.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := app.Serve(ctx, serverSide); err == nil || !strings.Contains(err.Error(), "ignored") {
			t.Errorf("Serve returned %v", err)
		}
		close(release)
		conn.Close()
	})
}

func TestAResourceIsReadAsJSONAndItsChangesAreReported(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup, appkittest.Protocol("2025-11-25"))
	const uri = "aurora://example/state"
	res, err := s.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	if c := res.Contents[0]; c.Text != `{"n":"<1>"}` || c.MIMEType != "application/json" {
		t.Errorf("read %q as %s", c.Text, c.MIMEType)
	}
	if err := s.Client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	if err := s.App.ResourceChanged(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	s.Events.WaitUpdated(t, uri, 1)
	if err := s.Client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "aurora://example/other"}); err == nil {
		t.Error("subscribing to a resource that does not exist succeeded")
	}
}

func TestAResourceThatFailsHidesWhyAndTheServerLives(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), setup)
	for _, name := range []string{"error", "panic", "nojson"} {
		_, err := s.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "aurora://example/" + name})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "did not foresee") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var got state
	s.ReadJSON(t, "aurora://example/state", &got)
}

func TestAWorkerThatFailsEndsTheApp(t *testing.T) {
	for name, run := range map[string]func(context.Context) error{
		"by an error": func(context.Context) error { return errors.New("the disk is gone") },
		"by a panic":  func(context.Context) error { panic("the disk is gone") },
	} {
		t.Run(name, func(t *testing.T) {
			app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			app.Go("keeper", run)
			serverSide, clientSide := mcp.NewInMemoryTransports()
			conn, err := clientSide.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			err = app.Serve(t.Context(), serverSide)
			if err == nil || !strings.Contains(err.Error(), "worker keeper: ") || !strings.Contains(err.Error(), "the disk is gone") {
				t.Errorf("Serve returned %v", err)
			}
			if err := app.Serve(t.Context(), serverSide); err == nil {
				t.Error("the app served a second time")
			}
		})
	}
}

func TestWorkersAreAwaited(t *testing.T) {
	ended := false
	s := appkittest.Start(t, []byte(manifest), func(app *appkit.App) error {
		app.Go("slow", func(ctx context.Context) error {
			<-ctx.Done()
			ended = true // without the wait the race detector objects
			return ctx.Err()
		})
		return setup(app)
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !ended {
		t.Error("Serve returned before its worker")
	}
}

func TestDefectsOfAnAppAreFoundWhenItIsBuilt(t *testing.T) {
	app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ok := func(context.Context, nothing) (nothing, error) { return nothing{}, nil }
	appkit.AddTool(app, appkit.Tool{Name: "twice", Description: "x"}, ok)
	for name, add := range map[string]func(){
		"the same name twice": func() { appkit.AddTool(app, appkit.Tool{Name: "twice", Description: "x"}, ok) },
		"no description":      func() { appkit.AddTool(app, appkit.Tool{Name: "mute"}, ok) },
		"arguments that are no struct": func() {
			appkit.AddTool(app, appkit.Tool{Name: "a", Description: "x"}, func(context.Context, string) (nothing, error) { return nothing{}, nil })
		},
		"a bad tag": func() {
			appkit.AddTool(app, appkit.Tool{Name: "b", Description: "x"}, func(context.Context, struct {
				N int `json:"n" minimum:"one"`
			}) (nothing, error) {
				return nothing{}, nil
			})
		},
		"a result without a schema": func() {
			appkit.AddTool(app, appkit.Tool{Name: "c", Description: "x"}, func(context.Context, nothing) (chan int, error) { return nil, nil })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			add()
		}()
	}
}

func TestAManifestThatCannotBeUsedIsAnError(t *testing.T) {
	for _, text := range []string{"", "package: [", "package: ../evil", "package: a..b"} {
		if _, err := appkit.New([]byte(text), appkit.Options{DataDir: t.TempDir()}); err == nil {
			t.Errorf("manifest %q was accepted", text)
		}
	}
}

func TestTheDataFolderIsAbsoluteAndPrivate(t *testing.T) {
	if _, err := appkit.New([]byte(manifest), appkit.Options{DataDir: "relative"}); err == nil {
		t.Error("a relative data folder was accepted")
	}
	t.Setenv("AURORA_APP_DATA_DIR", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	app, err := appkit.New([]byte(manifest), appkit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "aurora", "im.polaris.example")
	if app.DataDir() != want {
		t.Errorf("data folder %s, want %s", app.DataDir(), want)
	}
	info, err := os.Stat(want)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data folder: %v, %v", info.Mode(), err)
	}
}

func TestConfigurationIsReadOverDefaultsAndStrictly(t *testing.T) {
	type config struct {
		City string            `json:"city"`
		Days int               `json:"days"`
		Also map[string]string `json:"also"`
	}
	for _, c := range []struct {
		text string
		want config
		fail string
	}{
		{"{\n\t\"city\": \"上海\"\n}", config{City: "上海", Days: 3}, ""},
		{"city: 上海\nalso: {魔都: Shanghai}\n", config{City: "上海", Days: 3, Also: map[string]string{"魔都": "Shanghai"}}, ""},
		{"# nothing\n", config{Days: 3}, ""},
		{"cty: x\n", config{}, "cty"},
		{`{"cty":1}`, config{}, "cty"},
		{"days: many\n", config{}, "days"},
		{"city: [", config{}, "config"},
	} {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		app, err := appkit.New([]byte(manifest), appkit.Options{DataDir: t.TempDir(), ConfigPath: path})
		if err != nil {
			t.Fatal(err)
		}
		got := config{Days: 3}
		err = app.Config(&got)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: error %v does not name %s and the file", c.text, err, c.fail)
			}
		} else if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", c.text, err, diff)
		}
	}
}

func TestAFileIsReplacedAsAWholeAndNothingIsLeftOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	for _, text := range []string{"one", "two"} {
		if err := appkit.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if err := appkit.WriteFile(filepath.Join(dir, "none", "state.json"), nil); err == nil {
		t.Error("writing into a folder that does not exist succeeded")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := appkit.WriteFile(filepath.Join(dir, "folder"), nil); err == nil {
		t.Error("replacing a folder succeeded")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	for range 2 {
		if err := appkit.RemoveFile(path); err != nil {
			t.Error(err)
		}
	}
}

func TestTheProgramWritesNothingButTheProtocolToStdout(t *testing.T) {
	eras(t, func(t *testing.T, era appkittest.Option) {
		s := appkittest.StartBinary(t, os.Args[0], appkittest.Env("EXAMPLE_APP=1"), era)
		appkittest.CheckContract(t, s, []byte(manifest))
		appkittest.CallFails(t, s, "fail", map[string]any{"how": "panic"})
		appkittest.Call[nothing](t, s, "remind", map[string]any{"note": "tea"})
		s.Events.Wait(t, "note.reminded")
	})
}

func TestTheProgramEndsInOrderOnSIGTERM(t *testing.T) {
	s := appkittest.StartBinary(t, os.Args[0], appkittest.Env("EXAMPLE_APP=1"))
	s.Signal(t, syscall.SIGTERM)
	if err := s.Client.Wait(); err != nil {
		t.Logf("the client's session ended with %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func TestAPeerThatStopsReadingDoesNotKillTheProgram(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"EXAMPLE_APP=1", "AURORA_APP_DATA_DIR=" + t.TempDir()}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	for i := range 2 {
		// The second may find that the program has ended in order already.
		_, _ = fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i+1)
	}
	stdin.Close()
	_ = cmd.Wait() // how it ended is looked at next
	if !cmd.ProcessState.Exited() {
		t.Errorf("the program ended with %s", cmd.ProcessState)
	}
}

func TestAPersonGetsAnswersFromFlags(t *testing.T) {
	for _, c := range []struct {
		args, env      string
		code           int
		stdout, stderr string
	}{
		{"-version", "", 0, "im.polaris.example 1.2.3\n", ""},
		{"-manifest", "", 0, manifest, ""},
		{"--help", "", 0, "", "im.polaris.example.greet"},
		{"-nonsense", "", 2, "", "-nonsense"},
		{"", "AURORA_APP_DATA_DIR=relative", 1, "", "error: the data folder"},
		{"", "AURORA_APP_DATA_DIR=/dev/null/x", 1, "", "error: making the data folder"},
	} {
		cmd := exec.Command(os.Args[0], strings.Fields(c.args)...)
		cmd.Env = []string{"EXAMPLE_APP=1", c.env}
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s %s: exit code %d, stdout %q, stderr %q", c.args, c.env, code, &stdout, &stderr)
		}
	}
}
