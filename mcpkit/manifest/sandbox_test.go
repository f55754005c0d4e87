package manifest_test

import (
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

func TestASandboxThatCannotBeMeantIsAFaultWithItsLine(t *testing.T) {
	const head = "package: s\ntype: mcp-server\nmcp:\n  command: x\n  sandbox: "
	for text, want := range map[string]string{
		"{profile: lax}":                        `unknown profile "lax"`,
		"{network: some}":                       `unknown network "some"`,
		"{profile: off, read: [/srv]}":          "without effect",
		"{read: [~/x]}":                         "~ is not expanded",
		"{write: [/]}":                          "the whole machine",
		"{read: ['']}":                          "the path is empty",
		"{limits: {memory: 1MiB}}":              "outside 16MiB",
		"{limits: {processes: -1}}":             "outside 1",
		"{limits: {open_files: 3}}":             "outside 16",
		"{limits: {cpu: 2}}":                    "cpu",
		"{profile: default, devices: [/dev/x]}": "devices",
	} {
		_, err := manifest.Parse("/m/s.yaml", []byte(head+text+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "s.yaml:5:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string][2]bool{ // confined, offline
		"{}": {false, false}, "{profile: off}": {false, false}, "{profile: default}": {true, false}, "{profile: offline}": {true, true},
		"{profile: strict}": {true, true}, "{profile: strict, network: all}": {true, false}, "{read: [data]}": {true, false}, "{network: none}": {true, true},
	} {
		m, err := manifest.Parse("/m/s.yaml", []byte(head+text+"\n"), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if s := m.MCP.Sandbox; s.Confined() != want[0] || s.NoNetwork() != want[1] {
			t.Errorf("%s: confined %v, offline %v", text, s.Confined(), s.NoNetwork())
		}
		if read, _ := m.SandboxPaths(); len(read) > 0 && read[0] != "/m/data" {
			t.Errorf("%s: %q", text, read)
		}
	}
	if _, err := manifest.Parse("/m/s.yaml", []byte("package: s\ntype: mcp-server\nmcp: {url: 'https://x.example/mcp', sandbox: {profile: default}}\n"), nil); err == nil || !strings.Contains(err.Error(), "cannot be confined") {
		t.Errorf("a remote server: %v", err)
	}
}
