package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	export "github.com/aurorabot-dev/platform/mcpkit/openai"
)

const maxAskFile = 1 << 20 // bytes of a question, a system text or a key

// askOptions are the flags of ask.
type askOptions struct {
	base, model, profile, system, keyFile string
	servers                               []string
	steps, tokens, answerTokens           int
	timeout                               time.Duration
	whole                                 bool
}

func (c *cli) askCommand() *cobra.Command {
	var o askOptions
	cmd := c.jsonFlag(&cobra.Command{
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
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			question, err := c.question(cmd, a[0])
			if err != nil {
				return err
			}
			l, err := c.loop(cmd, &o)
			if err != nil {
				return err
			}
			return c.ask(cmd.Context(), l, question, &o)
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

// question is the argument, or what it says to read.
func (c *cli) question(cmd *cobra.Command, arg string) (string, error) {
	if arg == "-" {
		text, err := readAll(c.in)
		if err != nil {
			return "", fmt.Errorf("reading the question: %w", err)
		}
		arg = text
	}
	if strings.TrimSpace(arg) == "" {
		return "", &usageError{errors.New("the question is empty"), cmd}
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

// loop prepares the loop of the flags, and completes them.
func (c *cli) loop(cmd *cobra.Command, o *askOptions) (*externalizer.Loop, error) {
	key := os.Getenv("OPENAI_API_KEY")
	if o.keyFile != "" {
		text, err := readFile(o.keyFile)
		if err != nil {
			return nil, err
		}
		if key = strings.TrimSpace(text); key == "" {
			return nil, fmt.Errorf("there is no key in %s", o.keyFile)
		}
	}
	system, err := readFile(o.system)
	if err != nil {
		return nil, err
	}
	set := daemon.Defaults()
	if err := set.ReadConfig(daemon.DefaultConfig, false); err != nil {
		return nil, err
	}
	o.base = cmp.Or(o.base, os.Getenv("OPENAI_BASE_URL"), set.Ask.BaseURL, externalizer.DefaultBaseURL)
	o.model = cmp.Or(o.model, os.Getenv("OPENAI_MODEL"), set.Ask.Model)
	o.profile = cmp.Or(o.profile, set.Ask.Profile, export.DefaultProfile)
	if err := oneOf(cmd, "profile", o.profile, export.Profiles()...); err != nil {
		return nil, err
	}
	if o.base == externalizer.DefaultBaseURL && key == "" {
		return nil, &hinted{errors.New("there is no key for " + o.base), "set OPENAI_API_KEY, or name a file with --key-file"}
	}
	if o.model == "" {
		return nil, &usageError{errors.New("the endpoint's model has to be named: with --model, OPENAI_MODEL, or ask.model in platform.yaml"), cmd}
	}
	for name, n := range map[string]int64{"max-steps": int64(o.steps), "max-tokens": int64(o.tokens), "timeout": int64(o.timeout)} {
		if n <= 0 {
			return nil, &usageError{fmt.Errorf("--%s must be more than 0", name), cmd}
		}
	}
	client, err := c.dial()
	if err != nil {
		return nil, err
	}
	api := &apiCaller{api: client}
	if o.servers, err = api.servers(cmd.Context(), o.servers); err != nil {
		return nil, err
	}
	w := &watcher{c: c}
	opts := externalizer.Options{
		Caller: api, BaseURL: o.base, Key: key, Model: o.model, Profile: o.profile, Servers: o.servers, System: system, Prefix: api.prefix,
		Stream: !o.whole, MaxSteps: o.steps, MaxTokens: o.tokens, MaxAnswerTokens: o.answerTokens, Timeout: o.timeout, OnEvent: w.event,
	}
	if c.out.Terminal() && !c.json {
		opts.OnText = w.text
	}
	opts.Wait = c.err.Terminal() // someone is there to see that a person is asked
	l, err := externalizer.New(opts)
	if err != nil {
		return nil, &usageError{err, cmd}
	}
	return l, nil
}

// ask runs the loop and prints what came of it.
func (c *cli) ask(ctx context.Context, l *externalizer.Loop, question string, o *askOptions) error {
	res, err := l.Ask(ctx, question)
	switch {
	case c.json:
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
		if err := c.printJSON(transcript); err != nil {
			return err
		}
	case c.out.Terminal():
		if len(res.Steps) > 0 || err == nil {
			c.out.Printf("\n")
		}
	case res.Answer != "":
		c.out.Printf("%s\n", strings.TrimRight(safeText(res.Answer), "\n"))
	}
	hint := askHint(res.Stop, o)
	var unknown *net.DNSError
	if errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &unknown) {
		hint = "nothing is there: --base-url, OPENAI_BASE_URL or ask.base_url in platform.yaml names the endpoint"
	}
	if err != nil && hint != "" {
		return &hinted{err, hint}
	}
	return err
}

func askHint(s externalizer.Stop, o *askOptions) string {
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

// safeText keeps the lines of a text and nothing that steers a terminal.
func safeText(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = console.Safe(l)
	}
	return strings.Join(lines, "\n")
}

// watcher shows a person at a terminal what happens.
type watcher struct {
	c    *cli
	mu   sync.Mutex
	open bool // a line of the answer has not ended
}

func (w *watcher) text(delta string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.c.out.Printf("%s", safeText(delta))
	w.open = !strings.HasSuffix(delta, "\n")
}

func (w *watcher) event(e externalizer.Event) {
	if !w.c.err.Terminal() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Kind {
	case externalizer.Retrying:
		w.row("…", console.Yellow, fmt.Sprintf("%v; again in %s", e.Err, console.Millis(e.Delay.Milliseconds())))
	case externalizer.CallWaiting:
		var data struct {
			ID string `json:"approval_id"`
		}
		if json.Unmarshal(e.Call.Error.Data, &data) == nil && data.ID != "" {
			w.row("?", console.Yellow, e.Call.Name+" waits for a person's approval; in another terminal:")
			w.c.err.Printf("  platform approvals approve %s --data %s\n", data.ID, quoteArg(w.c.data)) // whole, to be copied
		}
	case externalizer.CallFinished:
		mark, style, outcome := "✓", console.Green, ""
		switch {
		case e.Call.Error != nil:
			mark, style, outcome = "✗", console.Red, "  "+e.Call.Error.Error()
		case e.Call.IsError:
			mark, style, outcome = "✗", console.Red, "  the tool reported a failure"
		case len(e.Call.Flags) > 0:
			outcome = "  the result was flagged: " + strings.Join(e.Call.Flags, ", ")
		}
		w.row(mark, style, fmt.Sprintf("%s  %s%s", e.Call.Name, console.Millis(e.Call.DurationMS), outcome))
	}
}

func (w *watcher) row(mark string, style console.Style, text string) {
	if w.open {
		w.c.out.Printf("\n")
		w.open = false
	}
	w.c.err.Printf("%s %s\n", w.c.err.Paint(style, mark), w.c.err.Paint(console.Dim, w.c.err.Fit(console.Safe(text), 3)))
}

// apiCaller is the running platform as a loop sees it, for one run at a time.
type apiCaller struct {
	api     *control.Client
	aliases map[string]string // by server
	prefix  string            // of exported names

	last  []control.Tool
	tools []*catalog.Tool
	names map[catalog.ID]string // under which the platform exports the tools
}

// servers checks names that were given and returns them without aliases.
func (a *apiCaller) servers(ctx context.Context, given []string) (names []string, err error) {
	if _, err := a.Tools(ctx); err != nil {
		return nil, err
	}
	if len(a.last) > 0 {
		a.prefix, _, _ = strings.Cut(a.last[0].ExportName, "__")
	}
	for _, g := range given {
		name := ""
		for server, alias := range a.aliases {
			if g == server || name == "" && g == alias {
				name = server
			}
		}
		if name == "" {
			var all []control.Server
			for _, server := range slices.Sorted(maps.Keys(a.aliases)) {
				all = append(all, control.Server{Name: server, Alias: a.aliases[server]})
			}
			return nil, control.NoServer(g, all)
		}
		names = append(names, name)
	}
	return names, nil
}

// Tools keeps its records while the platform's stay as they are.
func (a *apiCaller) Tools(ctx context.Context) ([]*catalog.Tool, error) {
	list, err := a.api.Tools(ctx, "")
	if err != nil {
		return nil, err
	}
	if a.names != nil && reflect.DeepEqual(list, a.last) {
		return a.tools, nil
	}
	servers, err := a.api.Servers(ctx)
	if err != nil {
		return nil, err
	}
	a.aliases = map[string]string{}
	for _, s := range servers {
		a.aliases[s.Name] = s.Alias
	}
	a.last, a.tools, a.names = list, nil, map[catalog.ID]string{}
	for _, t := range list {
		tool := *t.Tool // as last has it, without the alias
		tool.Alias = a.aliases[tool.Source.Server]
		a.tools = append(a.tools, &tool)
		a.names[tool.ID()] = t.ExportName
	}
	return a.tools, nil
}

func (a *apiCaller) Call(ctx context.Context, tool catalog.ID, c host.Call) (*host.Result, error) {
	res, err := a.api.Call(ctx, control.CallRequest{ID: c.ID, Name: a.names[tool], Arguments: c.Arguments, Entrance: c.Entrance, Provenance: c.Provenance, Wait: c.Wait})
	if err != nil {
		return nil, err
	}
	return &host.Result{
		CallID: res.CallID, Tool: tool, Name: res.Tool, Raw: res.Result, IsError: res.IsError,
		Duration: time.Duration(res.DurationMS) * time.Millisecond, Waited: time.Duration(res.WaitedMS) * time.Millisecond,
		Flags: res.Flags, Artifact: res.Artifact, Replayed: res.Replayed,
	}, nil
}
