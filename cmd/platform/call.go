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

// showResult prints the parts of a result that a person can read. Text keeps
// its lines, but nothing in it steers the terminal.
func (c *cli) showResult(raw json.RawMessage) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			MIME string `json:"mimeType"`
			Data string `json:"data"`
			URI  string `json:"uri"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		c.out.Printf("%s\n", console.Safe(string(raw)))
		return
	}
	for _, part := range r.Content {
		switch {
		case part.Type == "text":
			for line := range strings.Lines(part.Text) {
				c.out.Printf("%s\n", console.Safe(strings.TrimRight(line, "\r\n")))
			}
		case part.URI != "":
			c.out.Printf("[%s %s]\n", console.Safe(part.Type), console.Safe(part.URI))
		default:
			c.out.Printf("[%s %s, %s]\n", console.Safe(part.Type), console.Safe(part.MIME), console.Bytes(int64(len(part.Data))*3/4))
		}
	}
	if len(r.Content) == 0 && len(r.Structured) > 0 {
		c.out.Printf("%s\n", console.Safe(string(r.Structured)))
	}
}
