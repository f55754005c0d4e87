package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/check"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

func TestAnotherProgramUnderTheNameOfAnAppIsAStranger(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, theirs} {
		if err := os.WriteFile(filepath.Join(dir, "aurora-weather"), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", ours)
	o := settings.Defaults()
	o.Data = t.TempDir()
	for mcp, want := range map[string]bool{
		`{command: [aurora-weather]}`: false,
		`{command: [aurora-weather], env: {CITY: Oslo}, call_timeout: 5, cwd: "/"}`: false,
		`{command: ["` + ours + `/aurora-weather"]}`:                                false,
		`{command: ["` + theirs + `/aurora-weather"]}`:                              true,
		`{command: [aurora-weather], env: {PATH: "` + theirs + `"}}`:                true,
		`{command: [aurora-weather], env: {LD_PRELOAD: /tmp/x.so}}`:                 true,
		`{command: [aurora-weather, --config, x]}`:                                  true,
		`{command: [no-such-program]}`:                                              true,
		`{url: "https://weather.example/mcp"}`:                                      true,
	} {
		dir := t.TempDir()
		text := "package: im.polaris.weather\ntype: mcp-server\nmcp: " + mcp + "\n"
		if err := os.WriteFile(filepath.Join(dir, "w.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := load.Manifests(load.Options{Dirs: []string{dir}})
		if err != nil {
			t.Fatalf("%s: %v", mcp, err)
		}
		if got := servers.Strangers(o.Data, list); (got["im.polaris.weather"] != nil) != want {
			t.Errorf("%s: got %v", mcp, got)
		}
	}
}

func TestAStrangerInheritsNoTrustAndIsToldUntilThePolicySpeaksOfIt(t *testing.T) {
	const name = "im.polaris.weather"
	r := launch(t, map[string]string{"w.yaml": fake(name, "echo", "")})
	r.end()
	r.policy = filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(r.policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{}\n")
	r.start()
	r.phase(name, "ready")
	told := func() bool {
		return slices.ContainsFunc(r.Status().Problems, func(s string) bool { return strings.Contains(s, "runs something else") })
	}
	if got := r.Tools(name); len(got) == 0 || got[0].Trust != rules.Unknown || got[0].Action != rules.Ask || !told() {
		t.Errorf("its tools are %+v; told %v", got, told())
	}
	o := settings.Defaults()
	o.Data, o.Manifests = r.data, []string{r.dir}
	if res, err := check.Run(t.Context(), o, false, slog.New(slog.DiscardHandler)); err != nil || len(res.Warnings) != 1 || !res.OK() ||
		!strings.HasPrefix(res.Warnings[0].Message, name) || res.Warnings[0].Hint == "" {
		t.Errorf("the check says %+v, %v", res, err)
	}
	write("trust: {im.polaris.*: internal}\n")
	r.until("the policy's word", func() (bool, any) { return !told(), r.Status().Problems })
	if got := r.Tools(name); got[0].Trust != rules.Internal {
		t.Errorf("then its trust is %s", got[0].Trust)
	}
}
