package auth

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/authority"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// runningHint is what --manifests does where it is not given.
const runningHint = " (default those of the running platform)"

// openLogins reads the manifests: those that are named, else those of the platform
// that runs on the data folder, else those that one would be started with. What
// the redactor learns of secrets is kept out of what is shown.
func openLogins(ctx context.Context, c *cli.Env, set cli.Settings, secrets *redact.Redactor) (*authority.Logins, error) {
	o, err := c.Options(set)
	if err != nil {
		return nil, err
	}
	if len(set.Manifests) == 0 && set.Config == "" {
		if running := runningManifests(ctx, c); len(running) > 0 {
			o.Manifests = running
		}
	}
	var mu sync.Mutex
	var known []string
	return authority.OpenLogins(o, slog.New(slog.DiscardHandler), func(values ...string) {
		mu.Lock()
		defer mu.Unlock()
		known = append(known, values...)
		secrets.Set(known)
	})
}

// runningManifests are the files that the running platform's servers come from;
// none where no platform runs.
func runningManifests(ctx context.Context, c *cli.Env) (files []string) {
	for _, s := range runningServers(ctx, c) {
		if _, err := os.Stat(s.Manifest); err == nil && !slices.Contains(files, s.Manifest) { // built-in ones are no files
			files = append(files, s.Manifest)
		}
	}
	return files
}

// runningServers are the running platform's servers; none where no platform runs.
func runningServers(ctx context.Context, c *cli.Env) []control.Server {
	client, err := c.Dial()
	if err != nil {
		return nil
	}
	defer client.Close()
	servers, err := client.Servers(ctx)
	if err != nil {
		return nil
	}
	return servers
}

// safely takes secrets out of an error for people, and keeps its hint.
func safely(err error, secrets *redact.Redactor) error {
	if err == nil {
		return nil
	}
	text, hits := secrets.String(err.Error())
	if len(hits) == 0 {
		return err
	}
	return cli.WithText(err, text)
}

// atServer does something with the authorization of a server, and takes secrets out
// of what it returns.
func atServer(ctx context.Context, c *cli.Env, set cli.Settings, server string, do func(client *auth.Client, m *manifest.Manifest) error) error {
	secrets := redact.New(nil)
	logins, err := openLogins(ctx, c, set, secrets)
	if err != nil {
		return err
	}
	client, m, err := logins.Client(server)
	if err != nil {
		return err
	}
	defer client.Close()
	return safely(do(client, m), secrets)
}
