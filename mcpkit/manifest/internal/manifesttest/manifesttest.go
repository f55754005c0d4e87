// Package manifesttest has what the tests of the manifest packages share:
// files, an environment, and golden files.
package manifesttest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

// Env is a lookup over a fixed environment, each variable as NAME=value.
func Env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

// Golden compares got with the file at path, which -update writes anew.
func Golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it anew:\n%s", path, diff)
	}
}

// Write makes a file and the folders above it, and returns its path.
func Write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Guide is the example of a manifest in the guide to writing apps.
const Guide = `
package: im.polaris.weather
name: 天气应用
version: 0.2.0
type: mcp-server

mcp:
  transport: stdio
  entry: mcp_server.py
  command: ["uv", "run", "python"]
  args: ["apps/aurora-app-weather/mcp_server.py"]
  env:
    AURORA_APP_CONFIG: "apps/aurora-app-weather/config.json"
  health_timeout: 10
  restart:
    enabled: true
    max_attempts: 3
    backoff_seconds: 2

commands:
  - name: get_weather
    description: 查询指定城市天气
`
