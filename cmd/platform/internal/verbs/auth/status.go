package auth

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

func newStatusCommand(c *cli.Env) *cobra.Command {
	var set cli.Settings
	cmd := c.JSONFlag(&cobra.Command{
		Use:     "status [SERVER]",
		Aliases: []string{"ls", "list"},
		Short:   "Show what there is to authorize with",
		Long: `Show for one remote server or for all what there is to authorize with. Nothing is
asked of any server: whether one without a login needs any, only a platform that
runs can tell (not_needed). The exit code is 3 where somebody must log in.`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runStatus(cmd.Context(), c, set, a)
		},
	})
	set.ManifestFlags(cmd, runningHint)
	return cmd
}

func runStatus(ctx context.Context, c *cli.Env, set cli.Settings, servers []string) error {
	secrets := redact.New(nil)
	logins, err := openLogins(ctx, c, set, secrets)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		servers = logins.Remote()
	}
	ready := map[string]bool{}
	for _, s := range runningServers(ctx, c) {
		ready[s.Name] = s.Phase == "ready"
	}
	all := []auth.Status{}
	for _, server := range servers {
		client, _, err := logins.Client(server)
		if err != nil {
			return err
		}
		defer client.Close()
		status, err := client.Status()
		if err != nil {
			return safely(err, secrets)
		}
		if status.State == "needs_auth" && ready[status.Server] { // it does without
			status.State = "not_needed"
		}
		all = append(all, status)
	}
	if err := showAuth(c, all); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(s auth.Status) bool { return s.State == "needs_auth" }) {
		return cli.ErrFindings
	}
	return nil
}

func showAuth(c *cli.Env, all []auth.Status) error {
	if c.JSON {
		return c.PrintJSON(map[string]any{"servers": all})
	}
	if len(all) == 0 {
		c.Out.Printf("no server is remote\n")
		return nil
	}
	now := time.Now()
	var rows [][]console.Cell
	for _, s := range all {
		style, expires, note := console.Green, "", ""
		switch {
		case s.State == "needs_auth":
			style, note = console.Yellow, "platform auth login "+s.Server
		case len(s.Wanted) > 0:
			style, note = console.Yellow, "the server also wants "+strings.Join(s.Wanted, " ")+": log in again"
		}
		if s.Expires.After(now) {
			expires = "in " + console.Age(s.Expires.Sub(now))
		} else if !s.Expires.IsZero() {
			expires = "over"
		}
		if s.Renews && expires != "" {
			expires += ", renewed"
		}
		rows = append(rows, []console.Cell{
			{Text: s.Server}, {Text: s.Type}, {Text: s.State, Style: style}, {Text: s.Issuer}, {Text: strings.Join(s.Scopes, " ")}, {Text: expires}, {Text: note},
		})
	}
	c.Out.Table([]string{"SERVER", "TYPE", "STATE", "ISSUER", "SCOPES", "EXPIRES", "NOTE"}, rows)
	return nil
}
