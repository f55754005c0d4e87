package appkittest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// CheckContract holds a running app against what every app promises: a platform
// can read its manifest; its server says who it is and that it sends events; the
// tools it lists are the manifest's commands, under names led by the package;
// each has a description and valid schemas, the input's closed to unknown
// arguments.
func CheckContract(t testing.TB, s *Session, manifestYAML []byte) {
	t.Helper()
	// Variables are for whoever runs the app; here each has some value.
	m, err := manifest.Parse("manifest.yaml", manifestYAML, func(string) (string, bool) { return "x", true })
	if err != nil {
		t.Fatalf("the manifest: %v", err)
	}
	init := s.Client.InitializeResult()
	if got := init.ServerInfo; got.Name != m.Package || got.Version != m.Version {
		t.Errorf("the server says it is %s %s, its manifest %s %s", got.Name, got.Version, m.Package, m.Version)
	}
	if init.Capabilities.Tools == nil || init.Capabilities.Experimental["aurora/event"] == nil {
		t.Errorf("the server lacks the capability tools or aurora/event: %+v", init.Capabilities)
	}

	var listed []string
	for _, tool := range s.listTools(t) {
		listed = append(listed, tool.Name)
		if !strings.HasPrefix(tool.Name, m.Package+".") || !toolName.MatchString(tool.Name) {
			t.Errorf("tool name %q does not start with %s. or has letters that do not belong there", tool.Name, m.Package)
		}
		if tool.Description == "" {
			t.Errorf("%s has no description", tool.Name)
		}
		if err := checkInput(tool.InputSchema); err != nil {
			t.Errorf("%s: input schema: %v", tool.Name, err)
		}
		if err := checkOutput(tool.OutputSchema); err != nil {
			t.Errorf("%s: output schema: %v", tool.Name, err)
		}
	}
	if len(m.Commands) == 0 {
		t.Error("the manifest lists no commands")
	}
	if d := m.Drift(listed); !d.None() {
		t.Errorf("the manifest's commands are not the tools: %v are declared only, %v are live only", d.Missing, d.Undeclared)
	}
}

func checkInput(schema any) error {
	if _, err := compile(schema); err != nil {
		return err
	}
	m, ok := schema.(map[string]any)
	if !ok || m["type"] != "object" {
		return fmt.Errorf("its root is not an object: %v", schema)
	}
	if m["additionalProperties"] != false {
		return fmt.Errorf("it lets unknown arguments pass")
	}
	properties, _ := m["properties"].(map[string]any)
	for name, p := range properties {
		if d, _ := p.(map[string]any); d["description"] == nil {
			return fmt.Errorf("argument %s has no description", name)
		}
	}
	return nil
}

func checkOutput(schema any) error {
	if schema == nil {
		return fmt.Errorf("there is none")
	}
	failure := map[string]any{"ok": false, "error_code": "X", "message": "x", "retryable": true}
	if err := validate(schema, failure); err != nil {
		return fmt.Errorf("it does not cover failures: %w", err)
	}
	if validate(schema, map[string]any{"data": nil}) == nil {
		return fmt.Errorf("it lets results without ok pass")
	}
	return nil
}

// Build builds the program in the package folder dir, such as ".", and returns
// its path.
func Build(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app")
	if out, err := exec.Command("go", "build", "-o", path, dir).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", dir, err, out)
	}
	return path
}

// StartBinary runs a program that Build made over stdio. Its environment is a
// bare PATH and what the options give. The test fails if a line on its standard
// output is anything but a JSON-RPC message, or if it does not exit with 0 when
// its standard input is closed.
func StartBinary(t testing.TB, program string, options ...Option) *Session {
	t.Helper()
	c := configure(t, options)
	cmd := exec.Command(program)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"AURORA_APP_DATA_DIR=" + c.dataDir,
		"AURORA_APP_CONFIG=" + c.writeSettings(t),
		"AURORA_LOG_LEVEL=debug",
	}, c.env...)
	cmd.Dir = t.TempDir()
	cmd.Stderr = t.Output()
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
	// A pump of our own between program and SDK: it reads to the end whatever
	// the SDK does, and looks at every line.
	lines, forward := io.Pipe()
	pumped := make(chan error, 1)
	go func() { pumped <- pump(forward, stdout) }()
	kill := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	s := connect(t, &mcp.IOTransport{Reader: lines, Writer: stdin}, c, func() error {
		defer kill.Stop()
		_ = stdin.Close() // how the protocol ends a session over stdio
		err := <-pumped
		return errors.Join(err, cmd.Wait())
	})
	s.process = cmd.Process
	return s
}

// Signal sends sig to a started binary.
func (s *Session) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.process.Signal(sig); err != nil {
		t.Fatalf("sending %s: %v", sig, err)
	}
}

// Kill kills a started binary at once, as a power cut would, and reaps it.
func (s *Session) Kill(t testing.TB) {
	t.Helper()
	s.Signal(t, syscall.SIGKILL)
	_ = s.Close() // its error is that it was killed
	s.Forgive()
}

// Forgive has the test pass although the app did not end in order, as when the
// test saw to that. Call it after Close.
func (s *Session) Forgive() { s.err = nil }

// pump passes on the lines of a program's standard output that are JSON-RPC
// messages; others are its error at the end.
func pump(to *io.PipeWriter, from io.Reader) error {
	var junk error
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		var m struct {
			Version string `json:"jsonrpc"`
		}
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &m) != nil || m.Version != "2.0":
			junk = errors.Join(junk, fmt.Errorf("a line on standard output that is not JSON-RPC: %q", line))
		default:
			_, _ = to.Write(line) // fails when the session is closed; reading goes on
		}
		if err != nil {
			_ = to.Close()
			return junk
		}
	}
}
