package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// The exit codes of every verb.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFindings    = 3 // check found faults or drift, verify found differences
	exitInterrupted = 130
)

// cli is what the verbs share.
type cli struct {
	in       io.Reader
	out, err *console.Console
	data     string // the data folder
	json     bool
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	c := &cli{in: in, out: console.New(out), err: console.New(errOut)}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if e := c.out.Err(); err == nil && e != nil {
		err = fmt.Errorf("writing the output: %w", e)
	}
	return c.report(ctx, err)
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "platform",
		Short: "The daemon between a bot's Brain and its MCP servers",
		Long: `platform runs MCP servers from their manifests, offers their tools to a model,
carries every call through one gate, and writes what happens as event files into
DATA/kernel/inbox/pending/ for a Brain to read.

Start it with "platform run"; the other verbs talk to the running platform.`,
		Version:       daemon.BuildVersion().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&c.data, "data", "", `the data folder (default AURORA_DATA, then "data" of platform.yaml, then "data")`)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return c.findData() }
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{err, cmd} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		c.runCommand(), c.checkCommand(), c.serversCommand(), c.toolsCommand(), c.callCommand(), c.callsCommand(),
		c.resourcesCommand(), c.promptsCommand(),
		c.askCommand(), c.gatewayCommand(),
		c.inboxCommand(), c.approvalsCommand(), c.policyCommand(), c.catalogCommand(), c.authCommand(), c.logsCommand(),
		c.importCommand(), c.metricsCommand(), c.schemaCommand(), c.versionCommand(),
	)
	return root
}

// findData settles where the data folder is, as the platform does that was
// started from here.
func (c *cli) findData() error {
	if c.data != "" {
		return nil
	}
	if c.data = os.Getenv("AURORA_DATA"); c.data != "" {
		return nil
	}
	o := daemon.Defaults()
	if err := o.ReadConfig(daemon.DefaultConfig, false); err != nil {
		return &hinted{err, "mend the file, or name the data folder with --data"}
	}
	c.data = o.Data
	return nil
}

// usageError is a command line that cannot be understood.
type usageError struct {
	err error
	cmd *cobra.Command
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// hinted is an error with advice.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// errShown ends a verb that has printed its failure.
var errShown = errors.New("shown")

// errFindings ends a verb that has printed its findings.
var errFindings = errors.New("findings")

// report writes an error the way every verb does and returns the exit code.
func (c *cli) report(ctx context.Context, err error) int {
	var usage *usageError
	var h *hinted
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, errShown):
		return exitFailed
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, control.ErrNotRunning):
		c.complain(err.Error(), fmt.Sprintf("start it with: platform run --data %s, or name the folder of one that runs: --data or AURORA_DATA", quoteArg(c.data)))
		return exitFailed
	case errors.Is(err, os.ErrPermission) && !errors.As(err, &h) && strings.Contains(err.Error(), c.data):
		c.complain(plain(err), fmt.Sprintf("%s is for the user whose platform it is: be that user, or choose another folder with --data", quoteArg(c.data)))
		return exitFailed
	case errors.As(err, &usage):
		hint := "platform --help"
		if usage.cmd != nil {
			hint = usage.cmd.CommandPath() + " --help"
		}
		if errors.As(err, &h) {
			hint = h.hint
		}
		c.complain(plain(err), hint)
		return exitUsage
	case isUnknownCommand(err):
		c.complain(strings.SplitN(err.Error(), "\n", 2)[0], "platform --help")
		return exitUsage
	case errors.As(err, &h):
		c.complain(h.err.Error(), h.hint)
		return exitFailed
	}
	var f *fault.Error
	if errors.As(err, &f) {
		hint := near(f)
		if id := question(err); id != "" {
			hint = fmt.Sprintf("platform approvals approve %s --data %s, then call again", id, quoteArg(c.data))
		}
		c.complain(f.Message, hint)
		if c.json {
			c.printJSON(f)
		}
		return exitFailed
	}
	c.complain(plain(err), "")
	return exitFailed
}

// near says what was probably meant, or where to look it up.
func near(f *fault.Error) string {
	const shown = 3
	switch n := len(f.Candidates); {
	case n > shown:
		return fmt.Sprintf("did you mean %s, … (%d more)?", strings.Join(f.Candidates[:shown], ", "), n-shown)
	case n > 0:
		return "did you mean " + strings.Join(f.Candidates, ", ") + "?"
	case f.Replayed:
		return "nothing was sent: this is how the first call with that key failed"
	case f.Code == control.ServerNotFound:
		return `"platform servers" lists them`
	case f.Code == fault.ToolNotFound:
		return `"platform tools" lists them`
	case f.Code == control.ApprovalNotFound:
		return `"platform approvals ls --all" lists them`
	case f.Code == control.ApprovalDecided:
		return `"platform approvals show ID" says what became of it; "platform approvals revoke ID" takes an answer back that still stands`
	case f.Code == control.CallNotFound:
		return `"platform calls ls" lists those that wait for an answer`
	case f.Code == review.CatalogChanged:
		return `"platform catalog review" shows them as they are now`
	}
	return ""
}

// plain is an error's text, one line for each of several errors.
func plain(err error) string {
	var many *multierror.Error
	if !errors.As(err, &many) {
		return err.Error()
	}
	lines := make([]string, len(many.Errors))
	for i, e := range many.Errors {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (c *cli) complain(message, hint string) {
	for i, line := range strings.Split(strings.TrimRight(message, "\n"), "\n") {
		lead := c.err.Paint(console.Red, "error:") + " "
		if i > 0 {
			lead = "       "
		}
		c.err.Printf("%s%s\n", lead, console.Safe(line))
	}
	if hint != "" {
		c.err.Printf("%s %s\n", c.err.Paint(console.Cyan, "hint:"), console.Safe(hint))
	}
}

// isUnknownCommand tells cobra's own errors about a command line apart.
func isUnknownCommand(err error) bool {
	for _, lead := range []string{"unknown command", "accepts ", "requires at least", "invalid argument", "required flag", "if any flags in the group"} {
		if strings.HasPrefix(err.Error(), lead) {
			return true
		}
	}
	return false
}

// args wraps cobra's argument checks so that a failure is a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		err := check(cmd, a)
		if err != nil && !cmd.HasSubCommands() { // which would be an unknown verb
			_, want, _ := strings.Cut(strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
			if want = strings.TrimSpace(want); want == "" {
				want = "no arguments"
			}
			err = fmt.Errorf("%s takes %s, not %q", cmd.CommandPath(), want, a)
			if len(a) == 0 {
				err = fmt.Errorf("%s needs %s", cmd.CommandPath(), want)
			}
		}
		if err != nil {
			return &usageError{err, cmd}
		}
		return nil
	}
}

// oneOf is nil where a flag has one of the values that there are.
func oneOf(cmd *cobra.Command, flag, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return &usageError{&hinted{fmt.Errorf("--%s %q is not known", flag, value), "there are " + strings.Join(known, ", ")}, cmd}
}

// group makes a verb of several, which by itself only shows its help.
func group(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// jsonFlag gives a verb --json.
func (c *cli) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON for scripts")
	return cmd
}

// printJSON writes v as indented JSON on a terminal, else as one line.
func (c *cli) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if c.out.Terminal() {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := c.out.Write(inertJSON(b.Bytes()))
	return err
}

// printLine writes v as one line of JSON: verbs that go on write one after another.
func (c *cli) printLine(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := c.out.Write(inertJSON(b.Bytes()))
	return err
}

// inertJSON is JSON that means the same and does nothing to a terminal: what is
// not seen is escaped. Outside of strings JSON has no such characters.
func inertJSON(b []byte) []byte {
	odd := func(r rune) bool { return r >= 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }
	if bytes.IndexFunc(b, odd) < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for _, r := range string(b) {
		switch {
		case !odd(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// dial is the client of the platform on the data folder.
func (c *cli) dial() (*control.Client, error) { return control.Dial(c.data) }

// online makes a verb of what it does with the running platform.
func (c *cli) online(do func(cmd *cobra.Command, client *control.Client, a []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, a []string) error {
		client, err := c.dial()
		if err != nil {
			return err
		}
		defer client.Close()
		return do(cmd, client, a)
	}
}

// quoteArg quotes a shell word where it needs it.
func quoteArg(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
