package servers

import (
	"context"
	"fmt"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/spf13/cobra"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

func newListCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "Show the state of each server",
		Args:    cli.Args(cobra.NoArgs),
		RunE: c.Online(func(ctx context.Context, client *control.Client, _ []string) error {
			return runList(ctx, c, client)
		}),
	})
}

func runList(ctx context.Context, c *cli.Env, client *control.Client) error {
	servers, err := client.Servers(ctx)
	if err != nil {
		return err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"servers": servers, "state": status.State, "problems": append([]string{}, status.Problems...)})
	}
	showServers(c, servers)
	for _, p := range status.Problems {
		c.Out.Printf("%s %s\n", c.Out.Paint(console.Yellow, "!"), console.Safe(p))
	}
	return nil
}

// phaseStyle colours a phase.
func phaseStyle(phase string) console.Style {
	switch phase {
	case "ready":
		return console.Green
	case "failed":
		return console.Red
	case "stopped", "disabled":
		return console.Dim
	}
	return console.Yellow
}

func showServers(c *cli.Env, servers []control.Server) {
	if len(servers) == 0 {
		c.Out.Printf("no servers: put a manifest into the manifests folder\n")
		return
	}
	var rows [][]console.Cell
	for _, s := range servers {
		up := ""
		if s.UptimeMS > 0 {
			up = console.Age(time.Duration(s.UptimeMS) * time.Millisecond)
		}
		pid := ""
		if s.PID > 0 {
			pid = fmt.Sprint(s.PID)
		}
		note := s.Problem
		if note == "" && s.LastExit != nil && s.Phase != "ready" {
			note = s.LastExit.Reason
		}
		rows = append(rows, []console.Cell{
			{Text: s.Name}, {Text: s.Phase, Style: phaseStyle(s.Phase)}, {Text: pid}, {Text: up},
			{Text: fmt.Sprint(s.Tools)}, {Text: fmt.Sprint(s.Restarts)}, {Text: s.ProtocolVersion}, {Text: note},
		})
	}
	c.Out.Table([]string{"SERVER", "STATE", "PID", "UP", "TOOLS", "RESTARTS", "MCP", "NOTE"}, rows)
}
