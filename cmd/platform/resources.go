package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

func (c *cli) resourcesCommand() *cobra.Command {
	return group("resources", "Read what servers let read", `Servers offer resources: texts and files under URIs. Nothing is read unless it is
asked for by name, and the policy says of which servers and how much.`,
		c.resourcesList(), c.resourcesRead(), c.resourcesWatch())
}

func (c *cli) resourcesList() *cobra.Command {
	var server string
	var templates bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "ls",
		Short: "List the resources, or the patterns of their URIs",
		Args:  args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			read, name := client.Resources, "resources"
			if templates {
				read, name = client.Templates, "templates"
			}
			list, err := read(cmd.Context(), server)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{name: list})
			}
			return c.showItems(list, "no "+name, "URI", func(x itemText) string { return x.URI + x.Template })
		}),
	})
	cmd.Flags().StringVar(&server, "server", "", "only those of this server")
	cmd.Flags().BoolVar(&templates, "templates", false, "the patterns of URIs")
	return cmd
}

// itemText is what is shown of an item.
type itemText struct {
	URI         string `json:"uri"`
	Template    string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIME        string `json:"mimeType"`
	Arguments   []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"arguments"`
}

func (c *cli) showItems(list []control.Item, none, head string, key func(itemText) string) error {
	if len(list) == 0 {
		c.out.Printf("%s\n", none)
		return nil
	}
	var rows [][]console.Cell
	for _, x := range list {
		var t itemText
		if err := json.Unmarshal(x.Item, &t); err != nil {
			continue // its server wrote something else there; --json shows it
		}
		about := t.Description
		if about == "" {
			about = t.Title
		}
		rows = append(rows, []console.Cell{{Text: x.Server}, {Text: key(t), Style: console.Bold}, {Text: t.Name}, {Text: about}})
	}
	c.out.Table([]string{"SERVER", head, "NAME", "DESCRIPTION"}, rows)
	return nil
}

func (c *cli) resourcesRead() *cobra.Command {
	var fresh bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "read SERVER URI",
		Short: "Read one resource",
		Long: `Read one resource. Its texts are printed, other parts named; with --json the whole
answer. It is recorded that it was read, with its size and hash.`,
		Example: `  platform resources read clock clock://timers`,
		Args:    args(cobra.ExactArgs(2)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			res, err := client.ReadResource(cmd.Context(), control.ReadRequest{Server: a[0], URI: a[1], Fresh: fresh, Entrance: "cli"})
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(res)
			}
			var body struct {
				Contents []struct {
					URI  string `json:"uri"`
					MIME string `json:"mimeType"`
					Text string `json:"text"`
					Blob string `json:"blob"`
				} `json:"contents"`
			}
			if err := json.Unmarshal(res.Result, &body); err != nil {
				return fmt.Errorf("reading the server's answer: %w", err)
			}
			for _, part := range body.Contents {
				if part.Blob != "" {
					c.out.Printf("[%s %s, %s]\n", console.Safe(part.URI), console.Safe(part.MIME), console.Bytes(int64(len(part.Blob))*3/4))
					continue
				}
				c.out.Printf("%s\n", strings.TrimRight(safeText(part.Text), "\n"))
			}
			c.flagged(res.Flags)
			return nil
		}),
	})
	cmd.Flags().BoolVar(&fresh, "fresh", false, "ask the server also where an earlier answer is still good")
	return cmd
}

// flagged says on standard error what is suspicious in what was printed.
func (c *cli) flagged(flags []string) {
	if len(flags) > 0 {
		c.err.Printf("%s\n", c.err.Paint(console.Yellow, "note: this was flagged: "+console.Safe(strings.Join(flags, ", "))))
	}
}

func (c *cli) resourcesWatch() *cobra.Command {
	var inbox, stop bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "watch SERVER URI",
		Short: "Say each time that a resource changes",
		Long: `Print a line each time that a resource changes, until Ctrl-C. With --inbox changes are
delivered to the inbox instead, until the platform ends or --stop is given. The
content is never sent along: read it.`,
		Args: args(cobra.ExactArgs(2)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			s := control.Subscription{Server: a[0], URI: a[1]}
			switch {
			case inbox:
				return client.Subscribe(cmd.Context(), s)
			case stop:
				return client.Unsubscribe(cmd.Context(), s)
			}
			err := client.Watch(cmd.Context(), s.Server, s.URI, func() error {
				if c.json {
					return c.printLine(map[string]any{"server": s.Server, "uri": s.URI, "changed": time.Now().Format(time.RFC3339Nano)})
				}
				c.out.Printf("%s changed\n", console.Safe(s.URI))
				return nil
			})
			if err == nil && cmd.Context().Err() == nil {
				err = errors.New("the platform ended")
			}
			return err
		}),
	})
	cmd.Flags().BoolVar(&inbox, "inbox", false, "deliver changes to the inbox")
	cmd.Flags().BoolVar(&stop, "stop", false, "deliver no more of them")
	cmd.MarkFlagsMutuallyExclusive("inbox", "stop")
	return cmd
}
