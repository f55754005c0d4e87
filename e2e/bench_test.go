//go:build bench

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func init() {
	roles = append(roles, fakeserver.RunIfAsked)
	after = append(after, table)
	logLevel = "info" // as people run it
}

// program is how a server is started.
type program struct{ argv, env []string }

func (p program) command() *exec.Cmd {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// fastEcho is a server that answers as fast as it can: what stands in front of it
// is all there is to measure.
func fastEcho() program {
	argv, env := fakeserver.Command("fast-echo")
	return program{argv, env}
}

// baseline is the program of that name.
func baseline(t *testing.T, args ...string) program {
	t.Helper()
	return built(t, filepath.Join(root, "e2e", "baseline"), args)
}

// perServerProxy is the program proxy beside it.
func perServerProxy(t *testing.T, args ...string) program {
	t.Helper()
	return built(t, filepath.Join(root, "e2e", "baseline", "proxy"), args)
}

// built is the program whose source is in dir.
func built(t *testing.T, dir string, args []string) program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(dir))
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program{argv: append([]string{binary}, args...)}
}

// connect gives a manager a session to a server with the tool echo.
func connect(t *testing.T, m *client.Manager, server string, p program) {
	t.Helper()
	cmd := p.command()
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
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := m.Connect(t.Context(), session.Conn{Server: server, Stdin: stdin, Stdout: stdout}); err != nil {
		t.Fatal(err)
	}
}

// sessions is a manager of none yet.
func sessions(t *testing.T) *client.Manager {
	t.Helper()
	m, err := client.New(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// sdkSession is a session of the SDK's client to a server, over pipes too.
func sdkSession(t *testing.T, p program) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "baseline", Version: "1"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: p.command()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func TestCallsOverStdio(t *testing.T) {
	m := sessions(t)
	connect(t, m, "s", fastEcho())
	redactor := redact.New(nil)
	h := host.New(host.Options{Client: m, Sink: signal.Discard, Redact: func(raw []byte) ([]byte, []string) {
		out, hits := redactor.JSON(raw)
		return out, hits.Rules()
	}})
	args := json.RawMessage(`{"message":"hello"}`)
	gate := func() error {
		_, err := h.Call(context.Background(), host.Call{Name: "s.echo", Arguments: args})
		return err
	}

	session := sdkSession(t, fastEcho())
	sdk := func() error {
		_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "hello"}})
		return err
	}

	micros := func(call func() error) func() float64 {
		return func() float64 { _, p50 := callsFor(t, 1, call); return float64(p50.Nanoseconds()) / 1000 }
	}
	a, b, r := paired(micros(gate), micros(sdk))
	rows = append(rows, row{"call over stdio through the gate, one at a time, p50; SDK's client", fmt.Sprintf("%.0f µs", a), fmt.Sprintf("%.0f µs", b), fmt.Sprintf("%.2f", r), "<= 1.1"})
	rate := func(call func() error) func() float64 {
		return func() float64 { n, _ := callsFor(t, 64, call); return n }
	}
	a, b, r = paired(rate(gate), rate(sdk))
	rows = append(rows, row{"calls over stdio through the gate, 64 at once; SDK's client", fmt.Sprintf("%.0f/s", a), fmt.Sprintf("%.0f/s", b), fmt.Sprintf("%.1f", r), ">= 3"})
}

const fleet = 50

// running is what a platform took to bring its servers up.
type running struct {
	ready time.Duration // until the last one was
	cpu   time.Duration // of the daemon, until then
	rss   float64       // of the daemon once it is idle, in KiB
}

// runFleet runs the built platform on n servers of a kind.
func runFleet(t *testing.T, n int, mode string, options ...string) (r running) {
	base := t.TempDir()
	dir, data := filepath.Join(base, "manifests"), filepath.Join(base, "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	argv, _ := fakeserver.Command(mode, options...)
	command, _ := json.Marshal(argv)
	for i := range n {
		text := fmt.Sprintf("package: s%d\ntype: mcp-server\nmcp:\n  command: %s\n  env: {AURORA_FAKE_SERVER: %s}\n", i, command, mode)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%d.yaml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin("platform"), "run", "--manifests", dir, "--data", data, "--log-level", "info", "--log-format", "json")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}()
	lines := bufio.NewScanner(stderr)
	for up := 0; up < n && lines.Scan(); {
		if strings.Contains(lines.Text(), `"msg":"server started"`) {
			up++
		}
	}
	r.ready, r.cpu = time.Since(begun), processCPU(t, cmd.Process.Pid)
	go func() {
		for lines.Scan() {
		}
	}()
	time.Sleep(3 * time.Second) // idle, after the collector has run
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			r.rss, _ = strconv.ParseFloat(f[1], 64)
		}
	}
	return r
}

// bareFleet starts n fake servers in parallel and returns the time until each
// has answered initialize.
func bareFleet(t *testing.T, n int) time.Duration {
	argv, env := fakeserver.Command("echo")
	begun := time.Now()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), env...)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Error(err)
				return
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Error(err)
				return
			}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}}`)
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Error(err)
			}
			in.Close()
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		})
	}
	wg.Wait()
	return time.Since(begun)
}

func TestFleet(t *testing.T) {
	var with, without []float64
	a, b, r := paired(func() float64 {
		r := runFleet(t, fleet, "echo")
		with = append(with, r.rss)
		return float64(r.ready.Milliseconds())
	}, func() float64 { return float64(bareFleet(t, fleet).Milliseconds()) })
	rows = append(rows, row{fmt.Sprintf("run until %d servers are ready; the processes bare", fleet), fmt.Sprintf("%.0f ms", a), fmt.Sprintf("%.0f ms", b), fmt.Sprintf("%.2f", r), "<= 1.5"})
	for range rounds {
		without = append(without, runFleet(t, 1, "echo").rss)
	}
	slices.Sort(with)
	slices.Sort(without)
	w, wo := with[rounds/2], without[rounds/2]
	rows = append(rows, row{"memory of the daemon per idle server; the daemon with one server", fmt.Sprintf("%.0f KB", (w-wo)/(fleet-1)), fmt.Sprintf("%.0f KB", wo), "", "< 150 KB"})
}

// TestManyServersWithManyTools shows whether what a server costs at the start
// depends on how many others there are.
func TestManyServersWithManyTools(t *testing.T) {
	perServer := func(n int) func() float64 {
		return func() float64 {
			return float64(runFleet(t, n, "paged", "pages=7").cpu.Microseconds()) / float64(n)
		}
	}
	v := turns(3, perServer(200), perServer(20))
	rows = append(rows, row{"CPU of the daemon to bring up 200 servers of 21 tools, per server; 20 of them",
		microseconds(v[0]), microseconds(v[1]), ratios(v[0], v[1]), "<= 1.15"})
}

// TestVerbs measures processes from their start to their end.
func TestVerbs(t *testing.T) {
	p := startWith(t, three(fastEcho()), "")
	run := func(args ...string) error {
		out, err := exec.Command(bin("platform"), append(args, "--data", p.data)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%v: %s", err, out)
		}
		return err
	}
	call := []string{"call", "mcp__one__echo", `{"message":"hello"}`}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := run(call...)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	millis := func(args ...string) func() float64 {
		return func() float64 {
			var took []float64
			for range 20 {
				begun := time.Now()
				if err := run(args...); err != nil {
					t.Fatal(err)
				}
				took = append(took, float64(time.Since(begun).Microseconds())/1000)
			}
			return median(took)
		}
	}
	v := turns(rounds, millis(call...), millis("version"))
	rows = append(rows,
		row{"platform call, process start to end", milliseconds(v[0]), "", "", "<= 20 ms"},
		row{"platform version, process start to end", milliseconds(v[1]), "", "", "<= 12 ms"})
}
