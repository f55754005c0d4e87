package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
)

// maxArguments bounds what call reads from standard input, in bytes.
const maxArguments = 16 << 20

func (c *cli) callCommand() *cobra.Command {
	var timeout time.Duration
	var key string
	var ask, wait bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "call NAME [JSON | -]",
		Short: "Call a tool through the gate",
		Long: `Call a tool. NAME is any full form of its name: the one offered to models, or
<server>.<tool>. The arguments are one JSON object, or "-" to read it from
standard input; without them {} is sent.

Whoever types a call approves it by that: where the policy asks a person, the
answer is yes in your name for this one call, and the record says so. With
--ask or --wait it is left to somebody else. What the policy denies stays denied.

Where the tool's server wants to know something first, and may ask, you are asked on a
terminal; elsewhere the call waits for "platform calls answer".

The text of the result is printed; with --json the whole answer. The exit code
is 1 when the call or the tool failed.`,
		Example: `  platform call mcp__clock__get_time '{"timezone":"Asia/Shanghai"}'
  echo '{"city":"Berlin"}' | platform call im.polaris.weather.get_weather -`,
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			req := control.CallRequest{Name: a[0], TimeoutMS: timeout.Milliseconds(), Entrance: "cli", IdempotencyKey: key, Wait: wait}
			if len(a) == 2 {
				raw := []byte(a[1])
				if a[1] == "-" {
					if f, ok := c.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
						c.err.Printf("reading the arguments from standard input; end with Ctrl-D\n")
					}
					var err error
					if raw, err = io.ReadAll(io.LimitReader(c.in, maxArguments+1)); err != nil {
						return fmt.Errorf("reading the arguments: %w", err)
					}
					if len(raw) > maxArguments {
						return fmt.Errorf("the arguments exceed %d bytes", maxArguments)
					}
				}
				var object map[string]json.RawMessage
				if err := json.Unmarshal(raw, &object); err != nil {
					return &usageError{fmt.Errorf("the arguments are not a JSON object: %w", err), cmd}
				}
				req.Arguments = raw
			}
			if timeout < 0 {
				return &usageError{fmt.Errorf("--timeout %s is in the past", timeout), cmd}
			}
			if !ask && !wait {
				req.ApprovedBy = actor()
			}
			res, err := c.callAndAnswer(cmd.Context(), client, req)
			if err != nil {
				return err
			}
			if c.json {
				if err := c.printJSON(res); err != nil {
					return err
				}
			} else {
				c.showResult(res.Result)
				c.showNotes(res)
			}
			if res.IsError {
				return &hinted{errors.New(res.Tool + " reported a failure"), ""}
			}
			return nil
		}),
	})
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait for the answer, such as 30s (default as the server's manifest says); with --wait also for the person's")
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: a second call with it gets the first one's answer")
	cmd.Flags().BoolVar(&ask, "ask", false, "if a person has to approve the call, leave the question open and fail")
	cmd.Flags().BoolVar(&wait, "wait", false, "if a person has to approve the call, wait until somebody else does")
	cmd.MarkFlagsMutuallyExclusive("ask", "wait")
	return cmd
}

// question is the handle of the question that a call ended with, or "".
func question(err error) string {
	var f *fault.Error
	var data struct {
		ID string `json:"approval_id"`
	}
	if !errors.As(err, &f) || f.Code != fault.ApprovalRequired || json.Unmarshal(f.Data, &data) != nil {
		return ""
	}
	return data.ID
}

// showNotes says on standard error what the result itself does not show.
func (c *cli) showNotes(res *control.CallResponse) {
	note := func(format string, args ...any) {
		c.err.Printf("%s\n", c.err.Paint(console.Dim, "note: "+console.Safe(fmt.Sprintf(format, args...))))
	}
	if len(res.Flags) > 0 {
		note("the result was flagged: %s", strings.Join(res.Flags, ", "))
	}
	if at, ok := res.Artifact.(map[string]any); ok && at["path"] != nil {
		note("the result of %s is also kept in %v", console.Bytes(int64(len(res.Result))), at["path"])
	}
	if res.Replayed {
		note("nothing was sent: this is the answer of the first call with that key")
	}
}

// part is a part of a result's content, or what it embeds.
type part struct {
	Type, Text, MIME, Data, URI string
	Resource                    *part
}

func (p *part) UnmarshalJSON(raw []byte) error {
	return jsoncheck.Fields(raw, map[string]any{
		"type": &p.Type, "text": &p.Text, "mimeType": &p.MIME, "data": &p.Data, "blob": &p.Data, "uri": &p.URI, "resource": &p.Resource,
	})
}

// showResult prints the parts of a result that a person can read. Text keeps
// its lines, but nothing in it steers the terminal.
func (c *cli) showResult(raw json.RawMessage) {
	var parts []part
	var structured json.RawMessage
	if err := jsoncheck.Fields(raw, map[string]any{"content": &parts, "structuredContent": &structured}); err != nil {
		c.out.Printf("%s\n", console.Safe(string(raw)))
		return
	}
	for _, p := range parts {
		c.showPart(p)
	}
	if len(parts) == 0 && len(structured) > 0 {
		c.out.Printf("%s\n", console.Safe(string(structured)))
	}
}

func (c *cli) showPart(p part) {
	switch {
	case p.Resource != nil:
		c.out.Printf("[%s %s]\n", console.Safe(p.Type), console.Safe(p.Resource.URI))
		if p.Resource.Text != "" {
			c.showPart(part{Type: "text", Text: p.Resource.Text})
		}
	case p.Type == "text":
		for line := range strings.Lines(p.Text) {
			c.out.Printf("%s\n", console.Safe(strings.TrimRight(line, "\r\n")))
		}
	case p.URI != "":
		c.out.Printf("[%s %s]\n", console.Safe(p.Type), console.Safe(p.URI))
	default:
		c.out.Printf("[%s %s, %s]\n", console.Safe(p.Type), console.Safe(p.MIME), console.Bytes(int64(len(p.Data))*3/4))
	}
}
