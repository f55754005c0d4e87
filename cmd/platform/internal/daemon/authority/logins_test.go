package authority

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
)

func TestSecretsAreReadFromFilesAndNothingIsWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	o := settings.Defaults()
	o.Data, o.Auth.KeyFile = t.TempDir(), pipe
	if _, err := openTokens(&o); !errors.Is(err, smallfile.ErrNotRegular) {
		t.Errorf("key_file: %v", err)
	}
	m := &manifest.Manifest{Package: "far"}
	m.MCP.Auth.ClientKeyFile = pipe
	if _, err := config(&o, m); !errors.Is(err, smallfile.ErrNotRegular) {
		t.Errorf("client_key_file: %v", err)
	}
	m.MCP.Auth = manifest.Auth{AssertionFile: pipe}
	c, err := config(&o, m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Assertion(); !errors.Is(err, smallfile.ErrNotRegular) {
		t.Errorf("assertion_file: %v", err)
	}
}
