package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func (c *cli) callsCommand() *cobra.Command {
	return group("calls", "See calls and answer what their servers ask", `A server may want to know something in the middle of a call, if its manifest lets it
ask. The call waits for the answer.`,
		c.callsList(), c.callsShow(), c.callsAnswer())
}

func (c *cli) callsList() *cobra.Command {
	var all bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "ls",
		Short: "List the calls that wait for an answer",
		Args:  args(cobra.NoArgs),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, _ []string) error {
			state := "input_required"
			if all {
				state = ""
			}
			list, err := client.Calls(cmd.Context(), state)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{"calls": list})
			}
			if len(list) == 0 {
				c.out.Printf("no call waits for an answer\n")
				return nil
			}
			var rows [][]console.Cell
			for _, s := range list {
				asks := ""
				if s.Input != nil && len(s.Input.Questions) > 0 {
					asks = s.Input.Questions[0].Message
				}
				rows = append(rows, []console.Cell{
					{Text: s.CallID, Style: console.Bold}, {Text: s.State}, {Text: console.Age(time.Since(s.StartedAt))}, {Text: s.Name}, {Text: asks},
				})
			}
			c.out.Table([]string{"ID", "STATE", "AGE", "TOOL", "QUESTION"}, rows)
			return nil
		}),
	})
	cmd.Flags().BoolVar(&all, "all", false, "also those that run, and asynchronous ones that have ended")
	return cmd
}

func (c *cli) callsShow() *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "show ID",
		Short: "Show a call and what it waits for",
		Args:  args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			s, err := client.CallState(cmd.Context(), a[0], false)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(s)
			}
			c.out.Printf("%s  %s  %s\n", console.Safe(s.CallID), s.State, console.Safe(s.Name))
			if s.Input != nil {
				for _, q := range s.Input.Questions {
					c.showQuestion(c.out, *s.Input, q)
					if len(q.Schema) > 0 {
						c.out.Printf("  %s\n", console.Safe(string(q.Schema)))
					}
				}
			}
			if s.Response != nil {
				c.showResult(s.Response.Result)
			}
			if s.Problem != nil {
				c.out.Printf("%s: %s\n", s.Problem.Code, console.Safe(s.Problem.Message))
			}
			return nil
		}),
	})
}

func (c *cli) callsAnswer() *cobra.Command {
	var content, question string
	var decline, cancel bool
	cmd := &cobra.Command{
		Use:   "answer ID",
		Short: "Answer what a call's server wants to know",
		Long: `Answer what a call's server wants to know. On a terminal you are asked for each field;
with --content the answer is one JSON object with the fields of the form, "{}" for
a page that was visited. Where there are several questions, --question says which
one is meant; the others are then declined.`,
		Example: `  platform calls answer 01M8MQPYK60HTSJTRV6YJN0499 --content '{"name":"Ada"}'`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: c.online(func(cmd *cobra.Command, client *control.Client, a []string) error {
			state, err := client.CallState(cmd.Context(), a[0], false)
			if err != nil {
				return err
			}
			if state.Input == nil {
				return fmt.Errorf("the call %s waits for nothing: it is %s", console.Safe(a[0]), state.State)
			}
			var replies host.Replies
			switch {
			case decline || cancel || content != "":
				one := host.Reply{Action: host.Accept, Content: json.RawMessage(content)}
				if decline {
					one = host.Reply{Action: host.Decline}
				} else if cancel {
					one = host.Reply{Action: host.Cancel}
				} else if !json.Valid(one.Content) {
					return &usageError{errors.New("--content is no JSON"), cmd}
				}
				replies, err = repliesOf(*state.Input, question, one)
			case c.interactive():
				replies, err = c.askPerson(*state.Input)
			default:
				err = &usageError{errors.New("say --content JSON, --decline or --cancel"), cmd}
			}
			if err != nil {
				return err
			}
			return client.AnswerInput(cmd.Context(), a[0], control.InputAnswer{Replies: replies, Actor: actor()})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&content, "content", "", "the answer, a JSON object")
	f.StringVar(&question, "question", "", "id of the question that is answered")
	f.BoolVar(&decline, "decline", false, "say no")
	f.BoolVar(&cancel, "cancel", false, "say nothing; the tool is told so")
	cmd.MarkFlagsMutuallyExclusive("content", "decline", "cancel")
	return cmd
}

// repliesOf is one reply to the question that is meant and a no to the others. A
// page takes no content.
func repliesOf(in signal.Input, question string, one host.Reply) (host.Replies, error) {
	if question == "" && len(in.Questions) > 1 && one.Action == host.Accept {
		return nil, fmt.Errorf("there are %d questions; say which one with --question", len(in.Questions))
	}
	replies, found := host.Replies{}, question == ""
	for _, q := range in.Questions {
		switch {
		case question == "" || q.ID == question:
			found = true
			if q.Kind == host.URLQuestion {
				one.Content = nil
			}
			replies[q.ID] = one
		default:
			replies[q.ID] = host.Reply{Action: host.Decline}
		}
	}
	if !found {
		return nil, fmt.Errorf("there is no question %q", console.Safe(question))
	}
	return replies, nil
}

// interactive reports whether a person sits here who can be asked.
func (c *cli) interactive() bool {
	f, ok := c.in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && c.err.Terminal()
}

// lookAfter is how often a call that takes its time is looked at for a question.
const lookAfter = 300 * time.Millisecond

// callAndAnswer makes a call and, while it takes its time, puts what its server
// asks to the person at this terminal. Elsewhere it says how to answer.
func (c *cli) callAndAnswer(ctx context.Context, client *control.Client, req control.CallRequest) (*control.CallResponse, error) {
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
		if !c.interactive() {
			c.err.Printf("%s asks something; in another terminal:\n  platform calls answer %s --data %s\n", console.Safe(state.Input.Subject), req.ID, quoteArg(c.data))
			continue
		}
		replies, err := c.askPerson(*state.Input)
		if err == nil {
			err = client.AnswerInput(ctx, req.ID, control.InputAnswer{Replies: replies, Actor: actor()})
		}
		if err != nil {
			c.err.Printf("%s\n", console.Safe(err.Error()))
			told = 0 // it is asked again, if it is still open
		}
	}
}
