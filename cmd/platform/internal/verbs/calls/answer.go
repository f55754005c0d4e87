package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// answerOptions are the flags of the verb.
type answerOptions struct {
	content, question string
	decline, cancel   bool
}

func newAnswerCommand(c *cli.Env) *cobra.Command {
	var o answerOptions
	cmd := &cobra.Command{
		Use:   "answer [ID]",
		Short: "Answer what a call's server wants to know",
		Long: `Answer what a call's server wants to know. On a terminal you are asked for each field;
with --content the answer is one JSON object with the fields of the form, "{}" for
a page that was visited. Where there are several questions, --question says which
one is meant; the others are then declined. Without ID the only call that waits is meant; the
beginning of an id is enough.`,
		Example: `  platform calls answer 01M8MQPYK60HTSJTRV6YJN0499 --content '{"name":"Ada"}'`,
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: c.Online(func(ctx context.Context, client *control.Client, a []string) error {
			return runAnswer(ctx, c, client, o, a)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.content, "content", "", "the answer, a JSON object")
	f.StringVar(&o.question, "question", "", "id of the question that is answered")
	f.BoolVar(&o.decline, "decline", false, "say no")
	f.BoolVar(&o.cancel, "cancel", false, "say nothing; the tool is told so")
	cmd.MarkFlagsMutuallyExclusive("content", "decline", "cancel")
	return cmd
}

func runAnswer(ctx context.Context, c *cli.Env, client *control.Client, o answerOptions, a []string) error {
	id, err := pick(ctx, client, a)
	if err != nil {
		return err
	}
	state, err := client.CallState(ctx, id, false)
	if err != nil {
		return err
	}
	if state.Input == nil {
		return fmt.Errorf("the call %s waits for nothing: it is %s", console.Safe(id), state.State)
	}
	var replies ask.Replies
	switch {
	case o.decline || o.cancel || o.content != "":
		one := ask.Reply{Action: ask.Accept, Content: json.RawMessage(o.content)}
		if o.decline {
			one = ask.Reply{Action: ask.Decline}
		} else if o.cancel {
			one = ask.Reply{Action: ask.Cancel}
		} else if !json.Valid(one.Content) {
			return cli.Usage(errors.New("--content is no JSON"))
		}
		replies, err = repliesOf(*state.Input, o.question, one)
	case c.Interactive():
		replies, err = askPerson(c, *state.Input)
	default:
		err = cli.Usage(errors.New("say --content JSON, --decline or --cancel"))
	}
	if err != nil {
		return err
	}
	return client.AnswerInput(ctx, id, control.InputAnswer{Replies: replies, Actor: cli.Actor()})
}

// repliesOf is one reply to the question that is meant and a no to the others. A
// page takes no content.
func repliesOf(in signal.Input, question string, one ask.Reply) (ask.Replies, error) {
	if question == "" && len(in.Questions) > 1 && one.Action == ask.Accept {
		return nil, fmt.Errorf("there are %d questions; say which one with --question", len(in.Questions))
	}
	replies, found := ask.Replies{}, question == ""
	for _, q := range in.Questions {
		switch {
		case question == "" || q.ID == question:
			found = true
			if q.Kind == ask.URLQuestion {
				one.Content = nil
			}
			replies[q.ID] = one
		default:
			replies[q.ID] = ask.Reply{Action: ask.Decline}
		}
	}
	if !found {
		return nil, fmt.Errorf("there is no question %q", console.Safe(question))
	}
	return replies, nil
}
