// Package ask is the verb that lets a chat model use the tools of the running platform.
// The loop of questions and calls is in mcpkit/externalizer; here are its flags, the
// platform's API as that loop sees it, and what a person is shown.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
	export "github.com/aurorabot-dev/platform/mcpkit/openai"
)

const maxAskFile = 1 << 20 // bytes of a question, a system text or a key

// options are the flags of the verb.
type options struct {
	base, model, profile, system, keyFile string
	servers                               []string
	steps, tokens, answerTokens           int
	timeout                               time.Duration
	whole                                 bool
}

// NewCommand makes the verb "ask".
func NewCommand(c *cli.Env) *cobra.Command {
	var o options
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "ask QUESTION | -",
		Short: "Ask a model that may use the tools",
		Long: `Ask a chat model a question. It is offered the tools of the running platform, its
calls go through the same gate as any, and their results back to it, until it
answers. QUESTION "-" is read from standard input.

Any endpoint with an OpenAI-compatible API will do. Its key is taken from
OPENAI_API_KEY or --key-file, its address from --base-url, OPENAI_BASE_URL or "ask"
in platform.yaml, and the model's name from --model, OPENAI_MODEL or there.

On a terminal the answer appears as it is written, and each tool call as one line;
a call that a person has to approve waits for that, and says how to. Elsewhere the
answer alone is printed, or with --json the whole transcript. The exit code is 1 when
there is no answer, and 130 after Ctrl-C, which cancels the running calls.`,
		Example: `  platform ask "Do I need an umbrella in Berlin tomorrow?"
  platform ask "What time is it?" --base-url http://localhost:8080/v1 --model local --server clock`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runAsk(cmd.Context(), c, o, a[0])
		},
	})
	f := cmd.Flags()
	f.StringVar(&o.base, "base-url", "", "of the endpoint (also OPENAI_BASE_URL, ask.base_url; default "+externalizer.DefaultBaseURL+")")
	f.StringVar(&o.model, "model", "", "name of the model (also OPENAI_MODEL, ask.model)")
	f.StringVar(&o.profile, "profile", "", "provider profile (also ask.profile; default "+export.DefaultProfile+"): "+strings.Join(export.Profiles(), ", "))
	f.StringVar(&o.system, "system", "", "file with the system text")
	f.StringVar(&o.keyFile, "key-file", "", "file with the endpoint's key (instead of OPENAI_API_KEY)")
	f.StringArrayVar(&o.servers, "server", nil, "offer only the tools of this server; may be repeated")
	f.IntVar(&o.steps, "max-steps", 16, "how often the model may be asked")
	f.IntVar(&o.tokens, "max-tokens", 500_000, "tokens of all requests and answers together")
	f.IntVar(&o.answerTokens, "max-answer-tokens", 0, "tokens of one answer (default: the endpoint's)")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long to wait for the answer")
	f.BoolVar(&o.whole, "no-stream", false, "ask for whole answers, not for a stream")
	return cmd
}

func runAsk(ctx context.Context, c *cli.Env, o options, arg string) error {
	question, err := readQuestion(c, arg)
	if err != nil {
		return err
	}
	l, err := newLoop(ctx, c, &o)
	if err != nil {
		return err
	}
	return answer(ctx, c, l, question, &o)
}

// readQuestion is the argument, or what it says to read.
func readQuestion(c *cli.Env, arg string) (string, error) {
	if arg == "-" {
		text, err := readAll(c.In)
		if err != nil {
			return "", fmt.Errorf("reading the question: %w", err)
		}
		arg = text
	}
	if strings.TrimSpace(arg) == "" {
		return "", cli.Usage(errors.New("the question is empty"))
	}
	return arg, nil
}

func readAll(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxAskFile+1))
	if err == nil && len(b) > maxAskFile {
		err = fmt.Errorf("it exceeds %d bytes", maxAskFile)
	}
	return string(b), err
}

func readFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := readAll(f)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return text, nil
}

// answer runs the loop and prints what came of it.
func answer(ctx context.Context, c *cli.Env, l *externalizer.Loop, question string, o *options) error {
	res, err := l.Ask(ctx, question)
	switch {
	case c.JSON:
		transcript := struct {
			Question string `json:"question"`
			Model    string `json:"model"`
			Profile  string `json:"profile"`
			Error    string `json:"error,omitempty"`
			*externalizer.Result
		}{Question: question, Model: o.model, Profile: o.profile, Result: res}
		if err != nil {
			transcript.Error = err.Error()
		}
		if err := c.PrintJSON(transcript); err != nil {
			return err
		}
	case c.Out.Terminal():
		if len(res.Steps) > 0 || err == nil {
			c.Out.Printf("\n")
		}
	case res.Answer != "":
		c.Out.Printf("%s\n", strings.TrimRight(cli.SafeText(res.Answer), "\n"))
	}
	hint := askHint(res.Stop, o)
	var unknown *net.DNSError
	if errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &unknown) {
		hint = "nothing is there: --base-url, OPENAI_BASE_URL or ask.base_url in platform.yaml names the endpoint"
	}
	if err != nil && hint != "" {
		return cli.Hint(err, hint)
	}
	return err
}

func askHint(s externalizer.Stop, o *options) string {
	switch s {
	case externalizer.StopSteps:
		return fmt.Sprintf("allow more with --max-steps %d", 2*o.steps)
	case externalizer.StopTokens:
		return fmt.Sprintf("allow more with --max-tokens %d", 2*o.tokens)
	case externalizer.StopLength:
		return "allow longer answers with --max-answer-tokens"
	case externalizer.StopContext:
		return "offer fewer tools with --server"
	}
	return ""
}
