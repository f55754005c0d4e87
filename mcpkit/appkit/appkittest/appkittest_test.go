package appkittest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/appkittest"
)

const manifest = `
package: im.polaris.example
version: 1.0.0
type: mcp-server
mcp: {command: [aurora-example]}
commands:
  - name: answer
`

type args struct {
	N int `json:"n" jsonschema:"a number"`
}

func answer(_ context.Context, in args) (args, error) { return in, nil }

func good(app *appkit.App) error {
	appkit.AddTool(app, appkit.Tool{Name: "answer", Description: "Answer."}, answer)
	return nil
}

// TestMain is also a program that prints a banner where it must not.
func TestMain(m *testing.M) {
	if os.Getenv("NOISY_APP") != "" {
		fmt.Println("a banner")
		appkit.Main([]byte(manifest), good)
	}
	goleak.VerifyTestMain(m)
}

// suspect is a test whose failures are looked at.
type suspect struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (s *suspect) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *suspect) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs f as a test and returns what failed in it.
func failures(t *testing.T, f func(t testing.TB)) string {
	s := &suspect{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	return strings.Join(s.failures, "\n")
}

func TestAGoodAppPassesTheContract(t *testing.T) {
	s := appkittest.Start(t, []byte(manifest), good)
	if got := failures(t, func(t testing.TB) { appkittest.CheckContract(t, s, []byte(manifest)) }); got != "" {
		t.Error(got)
	}
}

func TestWhatBreaksTheContractIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		setup    func(*appkit.App) error
		want     string
	}{
		"a tool that the manifest lacks": {manifest, func(app *appkit.App) error {
			appkit.AddTool(app, appkit.Tool{Name: "other", Description: "x"}, answer)
			return good(app)
		}, "other"},
		"a command without a tool": {manifest + "  - name: gone\n", good, "gone"},
		"an argument that nobody explains": {manifest, func(app *appkit.App) error {
			appkit.AddTool(app, appkit.Tool{Name: "answer", Description: "x"}, func(_ context.Context, in struct {
				N int `json:"n"`
			}) (args, error) {
				return args{}, nil
			})
			return nil
		}, "n has no description"},
		"a manifest that no platform reads": {strings.Replace(manifest, "version", "vershion", 1), good, "vershion"},
		"another version":                   {strings.Replace(manifest, "1.0.0", "2.0.0", 1), good, "2.0.0"},
	} {
		s := appkittest.Start(t, []byte(manifest), c.setup)
		got := failures(t, func(t testing.TB) { appkittest.CheckContract(t, s, []byte(c.manifest)) })
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: failures %q lack %q", name, got, c.want)
		}
	}
}

func TestALineOnStdoutThatIsNotTheProtocolIsFound(t *testing.T) {
	s := appkittest.StartBinary(t, os.Args[0], appkittest.Env("NOISY_APP=1"))
	appkittest.Call[args](t, s, "answer", args{7})
	err := s.Close()
	if err == nil || !strings.Contains(err.Error(), "a banner") {
		t.Errorf("got %v", err)
	}
	s.Forgive()
}
