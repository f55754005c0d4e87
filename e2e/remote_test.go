//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// everything is the reference server, over HTTP, as a process of its own.
type everything struct {
	t    *testing.T
	mode string // streamableHttp or sse
	port int
	cmd  *exec.Cmd
	log  bytes.Buffer
}

func startEverything(t *testing.T, mode string) *everything {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &everything{t: t, mode: mode, port: l.Addr().(*net.TCPAddr).Port}
	l.Close()
	e.start()
	t.Cleanup(e.kill)
	return e
}

func (e *everything) start() {
	e.t.Helper()
	e.cmd = exec.Command(filepath.Join(root, ".tools/npm/node_modules/.bin/mcp-server-everything"), e.mode)
	e.cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", e.port))
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	e.cmd.Stderr = &e.log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
}

func (e *everything) kill() {
	syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL)
	e.cmd.Wait()
}

func (e *everything) manifest() string {
	path := map[string]string{"streamableHttp": "mcp", "sse": "sse"}[e.mode]
	return fmt.Sprintf(`{"mcpServers": {"far": {"type": "http", "url": "http://127.0.0.1:%d/%s", "headers": {"X-Who": "e2e"}}}}`, e.port, path)
}

func TestARealServerOverHTTPIsUsedLostAndFoundAgain(t *testing.T) {
	for _, mode := range []string{"streamableHttp", "sse"} {
		t.Run(mode, func(t *testing.T) {
			e := startEverything(t, mode)
			p := start(t, map[string]string{".mcp.json": e.manifest(), "near.yaml": manifestOf("near", "mcp-server-everything", "", t.TempDir())})
			p.ready(2, 2*time.Minute)
			echo := func(server, text string) {
				t.Helper()
				out, err := p.verb("call", server+".echo", `{"message":"`+text+`"}`)
				if err != nil || !strings.Contains(string(out), text) {
					t.Fatalf("%s, %v", out, err)
				}
			}
			echo("far", "over HTTP")
			// It is a long one that tells of its progress, which stdio and HTTP carry alike.
			if out, err := p.verb("call", "far.trigger-long-running-operation", `{"duration":2,"steps":4}`); err != nil || !strings.Contains(string(out), "completed") {
				t.Errorf("%s, %v", out, err)
			}
			out, err := exec.Command(bin("platform"), "check", "--live", "--manifests", filepath.Join(p.dir, ".mcp.json")).CombinedOutput()
			if err != nil || !strings.Contains(string(out), fmt.Sprintf("127.0.0.1:%d", e.port)) || !strings.Contains(string(out), "tools, MCP 2025") {
				t.Errorf("check says %v:\n%s", err, out)
			}

			told := p.count("lifecycle.crashed", "far") // it may have been slower than the platform
			e.kill()
			until(t, time.Minute, "the loss is seen", func() (bool, any) {
				servers, err := p.servers()
				for _, s := range servers {
					if s.Name == "far" {
						return s.Phase == "backoff" || s.Phase == "connecting", s
					}
				}
				return false, err
			})
			if _, err := p.verb("call", "far.echo", `{"message":"nobody hears it"}`); err == nil || !strings.Contains(err.Error(), "nothing was sent") {
				t.Errorf("a call in between: %v", err)
			}
			echo("near", "the other one does not notice")
			e.start()
			p.ready(2, time.Minute)
			echo("far", "and again")
			if n := p.count("lifecycle.crashed", "far"); n != told+1 {
				t.Errorf("one loss was told %d times", n-told)
			}
			log, err := p.verb("logs", "far")
			if err != nil || !bytes.Contains(log, []byte(" is open")) {
				t.Errorf("the log says %v:\n%s", err, log)
			}
		})
	}
}
