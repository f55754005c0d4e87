package main

import (
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

func (c *cli) approvalsCommand() *cobra.Command {
	return group("approvals", "Answer the calls that wait for a person", `Some calls need a person's approval: those of tools whose risk nobody has stated,
those of high risk, and those of tools that changed. An approval is good for one
server, one tool and one set of arguments.`,
		c.approvalsList(), c.approvalsShow(), c.approvalsApprove(), c.approvalsDeny(), c.approvalsRevoke())
}

func (c *cli) approvalsList() *cobra.Command {
	var all bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "ls",
		Short: "List the calls that wait, and the approvals that stand",
		Args:  args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			states := []string{string(approval.Pending), string(approval.Approved)}
			if all {
				states = nil
			}
			list, err := client.Approvals(cmd.Context(), states...)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{"approvals": list})
			}
			if len(list) == 0 {
				c.out.Printf("nothing waits for approval, and no approval stands\n")
				return nil
			}
			var rows [][]console.Cell
			now := time.Now()
			for _, a := range list {
				left := ""
				if a.State == approval.Pending || a.State == approval.Approved && !a.Expires.IsZero() {
					left = console.Age(a.Expires.Sub(now))
				}
				rows = append(rows, []console.Cell{
					{Text: a.ID, Style: console.Bold}, {Text: standing(a), Style: approvalStyle(a.State)}, {Text: console.Age(now.Sub(a.Created))},
					{Text: left}, {Text: a.Risk}, {Text: catalog.ID{Server: a.Server, Tool: a.Tool}.Canonical()}, {Text: console.Cut(console.Safe(string(a.Arguments)), maxListed)},
				})
			}
			c.out.Table([]string{"ID", "STATE", "AGE", "LEFT", "RISK", "TOOL", "ARGUMENTS"}, rows)
			return nil
		}),
	})
	cmd.Flags().BoolVar(&all, "all", false, "also those that were answered or have expired")
	return cmd
}

// maxListed is how many columns of a call's arguments a list shows.
const maxListed = 200

// standing is an approval's state, with what it is good for.
func standing(a approval.Approval) string {
	return strings.TrimSpace(string(a.State) + " " + string(a.Scope))
}

func approvalStyle(s approval.State) console.Style {
	switch s {
	case approval.Pending:
		return console.Yellow
	case approval.Approved:
		return console.Green
	case approval.Denied:
		return console.Red
	}
	return console.Dim
}

func (c *cli) approvalsShow() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "show ID",
		Short: "Show one call with its arguments and why it waits",
		Args:  args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			v, err := client.Approval(cmd.Context(), a[0])
			if err != nil {
				return err
			}
			return c.showApproval(v)
		}),
	})
}

func (c *cli) showApproval(v approval.Approval) error {
	if c.json {
		return c.printJSON(v)
	}
	cut, expires := "", ""
	if v.Cut {
		cut = fmt.Sprintf("the arguments have %s; this is their beginning", console.Bytes(v.Size))
	}
	if (v.State == approval.Pending || v.State == approval.Approved) && !v.Expires.IsZero() {
		expires = v.Expires.Format(time.RFC3339)
	}
	for _, row := range [][2]string{
		{"id", v.ID}, {"state", standing(v)}, {"server", v.Server}, {"tool", v.Tool},
		{"arguments", string(v.Arguments)}, {"cut", cut}, {"risk", v.Risk}, {"why", v.Reason}, {"by", v.Actor}, {"note", v.Note},
		{"created", v.Created.Format(time.RFC3339)}, {"expires", expires},
	} {
		if row[1] != "" {
			c.out.Printf("%s %s\n", c.out.Paint(console.Dim, fmt.Sprintf("%-9s", row[0])), console.Safe(row[1]))
		}
	}
	return nil
}

func (c *cli) approvalsApprove() *cobra.Command {
	var session, always bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "approve ID",
		Short: "Allow a call: once, for this session, or always with these arguments",
		Args:  args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			scope := approval.Once
			if session {
				scope = approval.Session
			}
			if always {
				scope = approval.Always
			}
			v, err := client.Approve(cmd.Context(), a[0], control.Answer{Scope: scope, Actor: actor()})
			if err != nil {
				return err
			}
			return c.showApproval(v)
		}),
	})
	cmd.Flags().BoolVar(&session, "session", false, "until the platform ends")
	cmd.Flags().BoolVar(&always, "always", false, "for good, with exactly these arguments")
	cmd.MarkFlagsMutuallyExclusive("session", "always")
	return cmd
}

func (c *cli) approvalsDeny() *cobra.Command {
	var reason string
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "deny ID",
		Short: "Refuse a call",
		Args:  args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			v, err := client.Deny(cmd.Context(), a[0], control.Answer{Actor: actor(), Reason: reason})
			if err != nil {
				return err
			}
			return c.showApproval(v)
		}),
	})
	cmd.Flags().StringVar(&reason, "reason", "", "what the caller is told")
	return cmd
}

func (c *cli) approvalsRevoke() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "revoke ID",
		Short: "Take an answer back, such as an approval for good, or close a question",
		Long: `Take an answer back: an approval is not good any more, a denial does not hold any
more, and the next such call asks anew. An open question is closed, and who waits for
it is told no. Calls that were sent already go on.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			v, err := client.Revoke(cmd.Context(), a[0], control.Answer{Actor: actor()})
			if err != nil {
				return err
			}
			return c.showApproval(v)
		}),
	})
}

// actor is who answers at this terminal.
func actor() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "cli"
}
