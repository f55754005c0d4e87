//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Files of other hosts, after public reports. reports/README.md lists where each comes
// from and what a person expects of it.
func TestFilesOfPublicReportsAreReadAsTheirHostsMeanThem(t *testing.T) {
	for name, c := range map[string]struct {
		path, text string
		want       string // of each server its name and what is run, in the order of names
		fault      string // the beginning of what is wrong
	}{
		"F1 comments":            {".mcp.json", "{\"mcpServers\": {\n// for the browser\n\"b\": {\"type\": \"stdio\", \"command\": \"npx\", \"args\": [\"b@latest\"], \"tools\": [\"*\"]},\n/* \"off\": {\"command\": \"x\"} */}}", "b: npx b@latest", ""},
		"F2 commented out":       {"mcp.json", "{\"mcpServers\": {\n// \"off\": { \"command\": \"foo\" },\n\"on\": {\"command\": \"bar\"}}}", "on: bar", ""},
		"F3 trailing commas":     {".vscode/mcp.json", `{"inputs": [], "servers": {"r": {"type": "http", "url": "https://api.example.com/mcp/",},},}`, "r: https://api.example.com/mcp/", ""},
		"F4 empty":               {"mcp.json", "", "", "the file is empty"},
		"F5 unclosed":            {"mcp.json", "{\"mcpServers\": {\"docs\": {\"command\": \"npx\"},\n}", "", "the document ends too early"},
		"F6 Crush":               {"crush.json", `{"mcp": {"mem": {"type": "stdio", "command": "npx", "args": ["-y", "mem"]}, "web": {"type": "http", "url": "https://web.example/mcp"}, "off": {"type": "stdio", "command": "x", "disabled": true}}}`, "mem: npx -y mem; off: x (off); web: https://web.example/mcp", ""},
		"F7 Jan, switched off":   {"mcp_config.json", `{"mcpServers": {"fetch": {"active": false, "command": "uvx", "args": ["fetch"]}}}`, "fetch: uvx fetch (off)", ""},
		"F8 settings of VS Code": {"settings.json", `{"mcp": {"inputs": [{"id": "k", "default": "dk"}], "servers": {"s": {"command": "srv", "args": ["${input:k}"]}}}}`, "s: srv ${K:-dk}", ""},
		"F9 defaults":            {"mcp.json", `{"mcpServers": {"ida": {"command": "ida", "args": ["${LEVEL_NOT_SET:-info}"]}}}`, "ida: ida ${LEVEL_NOT_SET:-info}", ""},
		"F10 Warp":               {"mcp.json", `{"fs": {"command": "npx", "args": ["-y", "fs"], "working_directory": "/tmp"}}`, "fs: npx -y fs", ""},
		"F11 Cherry Studio":      {"mcp.json", `{"mcpServers": {"u": {"isActive": true, "baseUrl": "http://127.0.0.1:1/mcp", "type": "streamableHttp"}}}`, "u: http://127.0.0.1:1/mcp", ""},
		"F12 web sockets":        {"mcp.json", `{"mcpServers": {"h": {"type": "ws", "url": "ws://127.0.0.1:1/"}}}`, "", "unknown type \"ws\""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, c.path)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bin("platform"), "import", file, "--to", filepath.Join(dir, "m"))
			said, _ := cmd.CombinedOutput()
			if c.fault != "" {
				if !strings.Contains(string(said), c.fault) {
					t.Errorf("nothing says %q:\n%s", c.fault, said)
				}
				return
			}
			out, err := exec.Command(bin("platform"), "check", "--manifests", filepath.Join(dir, "m"), "--json").Output()
			var checked struct {
				Servers []struct {
					Name     string
					Command  []string
					URL      string
					Disabled bool
				}
			}
			if json.Unmarshal(out, &checked) != nil {
				t.Fatalf("%v: %s\n%s", err, out, said)
			}
			var got []string
			for _, s := range checked.Servers {
				if len(s.Command) > 0 {
					s.Command[0] = filepath.Base(s.Command[0])
				}
				text := s.Name + ": " + strings.Join(s.Command, " ") + s.URL
				if s.Disabled {
					text += " (off)"
				}
				got = append(got, text)
			}
			want := strings.NewReplacer("${LEVEL_NOT_SET:-info}", "info", "${K:-dk}", "dk").Replace(c.want)
			if text := strings.Join(got, "; "); text != want {
				t.Errorf("the servers are %q, want %q\n%s", text, want, said)
			}
		})
	}
}

// Servers over HTTP that answer what the specification leaves open, or forbids, after
// public reports. All of them can be used.
func TestServersOfPublicReportsThatAnswerOddlyOverHTTPAreUsable(t *testing.T) {
	type oddity struct {
		get          int    // the status of GET
		getBody      string // with it, as JSON
		notified     int    // the status of notifications
		notifiedBody string
	}
	for name, o := range map[string]oddity{
		"H1 GET is not found":            {404, "", 202, ""},
		"H2 GET is a bad request":        {400, `{"error":"No sessionId"}`, 202, ""},
		"H3 GET gives a page of JSON":    {200, `{"name":"discovery"}`, 202, ""},
		"H4 GET fails":                   {500, "", 202, ""},
		"H5 200 without a body":          {405, "", 200, ""},
		"H6 200 and null":                {405, "", 200, "null"},
		"H7 204":                         {405, "", 204, ""},
		"H8 an empty object":             {405, "", 200, "{}"},
		"H9 200 with an error's message": {405, "", 200, `{"jsonrpc":"2.0","id":null,"result":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.Method != "POST" {
					w.WriteHeader(o.get)
					io.WriteString(w, o.getBody)
					return
				}
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
					w.WriteHeader(o.notified)
					io.WriteString(w, o.notifiedBody)
					return
				}
				result := map[string]string{
					"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`,
					"tools/list": `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`,
					"tools/call": `{"content":[{"type":"text","text":"fine"}]}`, "ping": `{}`,
				}[m.Method]
				if result == "" {
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
					return
				}
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			}))
			t.Cleanup(srv.Close)
			p := start(t, map[string]string{".mcp.json": fmt.Sprintf(`{"mcpServers": {"far": {"type": "http", "url": %q}}}`, srv.URL+"/mcp")})
			p.ready(1, 30*time.Second)
			if out, err := p.verb("call", "far.t", "{}"); err != nil || !strings.Contains(string(out), "fine") {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
}
