//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// everythingBehind starts the platform in front of a server that has every kind of
// tool, resource and prompt, and returns the gateway's URL.
func everythingBehind(t *testing.T) (*platform, string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "everything")
	build := exec.Command("go", "build", "-o", binary, "./e2e/conformance/everything")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	p := startWith(t, map[string]string{"everything.yaml": fmt.Sprintf(
		"package: everything\ntype: mcp-server\nmcp:\n  command: [%q]\n  elicitation: true\n", binary)},
		"gateway: {listen: \""+address+"\"}\n")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if servers, err := p.servers(); err == nil && len(servers) == 1 && servers[0].Phase == "ready" {
			return p, "http://" + address + "/mcp"
		}
		if time.Now().After(end) {
			t.Fatal("the server did not become ready")
		}
	}
}

// node runs a script or program of the installed packages and returns what it printed.
func node(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("node", args...)
	modules := filepath.Join(root, ".tools/npm/node_modules")
	cmd.Env = append(os.Environ(), "NODE_MODULES="+modules, "NO_PROXY=127.0.0.1")
	cmd.Dir = filepath.Dir(modules)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("node %q: %v\n%s%s", args, err, out.Bytes(), stderr.Bytes())
	}
	return out.String()
}

func TestTheTypeScriptSDKListsCallsReadsAndCompletesThroughTheGateway(t *testing.T) {
	p, url := everythingBehind(t)
	script := filepath.Join(root, "e2e/testdata/client.mjs")
	for way, args := range map[string][]string{
		"http":  {script, "http", url},
		"stdio": {script, "stdio", bin("platform"), "gateway", "--data", p.data},
	} {
		t.Run(way, func(t *testing.T) {
			var got struct {
				Tools, Resources, Prompts        int
				Called, Asked, Read, URI, Prompt string
				Progress                         []float64
				Completed                        []string
			}
			if out := node(t, args...); json.Unmarshal([]byte(out), &got) != nil {
				t.Fatalf("it printed %s", out)
			}
			if got.Tools < 20 || got.Resources != 3 || got.Prompts < 5 || got.Called != "done" || got.Asked != "Hello, Ada!" ||
				!strings.Contains(got.Read, "static text") || got.URI != "mcp+everything+test://static-text" ||
				got.Prompt != "Prompt with arguments: arg1='a', arg2='b'" || !slices.Contains(got.Completed, "paris") || len(got.Progress) == 0 {
				t.Errorf("it saw %+v", got)
			}
		})
	}
}

func TestTheInspectorListsCallsAndReadsThroughTheGateway(t *testing.T) {
	p, url := everythingBehind(t)
	inspector := filepath.Join(root, ".tools/npm/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js")
	for way, target := range map[string][]string{
		"http":  {url, "--transport", "http"},
		"stdio": {bin("platform"), "gateway", "--data", p.data},
	} {
		t.Run(way, func(t *testing.T) {
			for _, c := range []struct {
				method, want string
				more         []string
			}{
				{"tools/list", "everything__test_simple_text", nil},
				{"tools/call", "simple text response", []string{"--tool-name", "everything__test_simple_text"}},
				{"resources/list", "mcp+everything+test://static-text", nil},
				{"resources/read", "static text resource", []string{"--uri", "mcp+everything+test://static-text"}},
				{"prompts/get", "simple prompt", []string{"--prompt-name", "everything__test_simple_prompt"}},
			} {
				args := append([]string{inspector, "--cli"}, target...)
				args = append(append(args, "--method", c.method), c.more...)
				if out := node(t, args...); !strings.Contains(out, c.want) {
					t.Errorf("%s printed %s", c.method, out)
				}
			}
		})
	}
}
