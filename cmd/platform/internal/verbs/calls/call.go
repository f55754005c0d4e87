package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// maxArguments bounds what call reads from standard input, in bytes.
const maxArguments = 16 << 20

// callOptions are the flags of the verb.
type callOptions struct {
	timeout   time.Duration
	key       string
	ask, wait bool
}

// NewCallCommand makes the verb "call".
func NewCallCommand(c *cli.Env) *cobra.Command {
	var o callOptions
	cmd := c.JSONFlag(&cobra.Command{
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
		Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runCall(ctx, c, client, o, a)
		}),
	})
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "how long to wait for the answer, such as 30s (default as the server's manifest says); with --wait also for the person's")
	cmd.Flags().StringVar(&o.key, "key", "", "idempotency key: a second call with it gets the first one's answer")
	cmd.Flags().BoolVar(&o.ask, "ask", false, "if a person has to approve the call, leave the question open and fail")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "if a person has to approve the call, wait until somebody else does")
	cmd.MarkFlagsMutuallyExclusive("ask", "wait")
	return cmd
}

func runCall(ctx context.Context, c *cli.Env, client *control.Client, o callOptions, a []string) error {
	req := control.CallRequest{Name: a[0], TimeoutMS: o.timeout.Milliseconds(), Entrance: "cli", IdempotencyKey: o.key, Wait: o.wait}
	if len(a) == 2 {
		raw := []byte(a[1])
		if a[1] == "-" {
			if c.TypedIn() {
				c.Err.Printf("reading the arguments from standard input; end with Ctrl-D\n")
			}
			var err error
			if raw, err = io.ReadAll(io.LimitReader(c.In, maxArguments+1)); err != nil {
				return fmt.Errorf("reading the arguments: %w", err)
			}
			if len(raw) > maxArguments {
				return fmt.Errorf("the arguments exceed %d bytes", maxArguments)
			}
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return cli.Usage(fmt.Errorf("the arguments are not a JSON object: %w", err))
		}
		req.Arguments = raw
	}
	if o.timeout < 0 {
		return cli.Usage(fmt.Errorf("--timeout %s is in the past", o.timeout))
	}
	if !o.ask && !o.wait {
		req.ApprovedBy = cli.Actor()
	}
	res, err := callAndAnswer(ctx, c, client, req)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := c.PrintJSON(res); err != nil {
			return err
		}
	} else {
		showResult(c, res.Result)
		showNotes(c, res)
	}
	if res.IsError {
		return errors.New(res.Tool + " reported a failure")
	}
	return nil
}

// lookAfter is how often a call that takes its time is looked at for a question.
const lookAfter = 300 * time.Millisecond

// callAndAnswer makes a call and, while it takes its time, puts what its server
// asks to the person at this terminal. Elsewhere it says how to answer.
func callAndAnswer(ctx context.Context, c *cli.Env, client *control.Client, req control.CallRequest) (*control.CallResponse, error) {
	if req.ID == "" {
		req.ID = ulid.Make().String()
	}
	type ending struct {
		res *control.CallResponse
		err error
	}
	ended := make(chan ending, 1)
	go func() { // ends with the call, which ends with ctx
		res, err := client.Call(ctx, req)
		ended <- ending{res, err}
	}()
	told := 0 // the round that was dealt with
	for {
		select {
		case e := <-ended:
			return e.res, e.err
		case <-time.After(lookAfter):
		}
		state, err := client.CallState(ctx, req.ID, false)
		if err != nil || state.Input == nil || state.Input.Round == told {
			continue
		}
		told = state.Input.Round
		if !c.Interactive() {
			c.Err.Printf("%s asks something; in another terminal:\n  platform calls answer %s --data %s\n", console.Safe(state.Input.Subject), req.ID, cli.QuoteArg(c.Data))
			continue
		}
		replies, err := askPerson(c, *state.Input)
		if err == nil {
			err = client.AnswerInput(ctx, req.ID, control.InputAnswer{Replies: replies, Actor: cli.Actor()})
		}
		if err != nil {
			c.Err.Printf("%s\n", console.Safe(err.Error()))
			told = 0 // it is asked again, if it is still open
		}
	}
}
