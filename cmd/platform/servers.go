package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func (c *cli) serversCommand() *cobra.Command {
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "servers",
		Short: "Show the state of each server",
		Args:  args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			servers, err := client.Servers(cmd.Context())
			if err != nil {
				return err
			}
			status, err := client.Status(cmd.Context())
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{"servers": servers, "state": status.State, "problems": append([]string{}, status.Problems...)})
			}
			c.showServers(servers)
			for _, p := range status.Problems {
				c.out.Printf("%s %s\n", c.out.Paint(console.Yellow, "!"), console.Safe(p))
			}
			return nil
		}),
	})
	for action, short := range map[string]string{
		"start":   "Start a server that was stopped",
		"stop":    "Stop a server until it is started again",
		"restart": "Restart a server; also brings back one that has failed for good",
	} {
		cmd.AddCommand(&cobra.Command{
			Use:   action + " NAME",
			Short: short,
			Args:  args(cobra.ExactArgs(1)),
			RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
				return client.Act(cmd.Context(), a[0], action)
			}),
		})
	}
	return cmd
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

func (c *cli) showServers(servers []control.Server) {
	if len(servers) == 0 {
		c.out.Printf("no servers: put a manifest into the manifests folder\n")
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
	c.out.Table([]string{"SERVER", "STATE", "PID", "UP", "TOOLS", "RESTARTS", "MCP", "NOTE"}, rows)
}
