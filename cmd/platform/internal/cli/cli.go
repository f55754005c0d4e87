// Package cli is what the verbs of the command line have in common: the streams
// and the data folder that they work on, how a command line is checked, how output
// is printed, and the exit code and the words of a failure. What a verb does is in
// the packages below internal/verbs, one verb in each file:
//
//	func newListCommand(c *cli.Env) *cobra.Command   // its names, flags and help
//	func runList(ctx context.Context, c *cli.Env, o listOptions) error
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

// Env is where a command line runs.
type Env struct {
	In       io.Reader
	Out, Err *console.Console
	Data     string // the data folder
	JSON     bool   // print JSON for scripts

	dataFlag string // --data, if it was given
}

// New makes the Env of one command line.
func New(in io.Reader, out, errOut io.Writer) *Env {
	return &Env{In: in, Out: console.New(out), Err: console.New(errOut)}
}

// Root makes the command that all verbs belong to.
func (c *Env) Root(verbs ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "platform",
		Short: "The daemon between a bot's Brain and its MCP servers",
		Long: `platform runs MCP servers from their manifests, offers their tools to a model,
carries every call through one gate, and writes what happens as event files into
DATA/kernel/inbox/pending/ for a Brain to read.

Start it with "platform run"; the other verbs talk to the running platform.`,
		Version:       settings.BuildVersion().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&c.dataFlag, "data", "", `the data folder (default AURORA_DATA, then "data" of platform.yaml, then "data")`)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return c.findData() }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(verbs...)
	return root
}

// Execute runs a command line of root and returns its exit code.
func (c *Env) Execute(ctx context.Context, root *cobra.Command, line []string) int {
	root.SetArgs(line)
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if e := c.Out.Err(); err == nil && e != nil {
		err = fmt.Errorf("writing the output: %w", e)
	}
	return c.report(ctx, cmd, line, err)
}

// findData settles where the data folder is, as the platform does that was
// started from here.
func (c *Env) findData() error {
	if c.Data = c.dataFlag; c.Data != "" {
		return nil
	}
	if c.Data = os.Getenv("AURORA_DATA"); c.Data != "" {
		return nil
	}
	o := settings.Defaults()
	if err := o.ReadConfig(settings.DefaultConfig, false); err != nil {
		return Hint(err, "mend the file, or name the data folder with --data")
	}
	c.Data = o.Data
	return nil
}

// Dial is the client of the platform on the data folder.
func (c *Env) Dial() (*control.Client, error) { return control.Dial(c.Data) }

// Online makes a verb of what it does with the running platform.
func (c *Env) Online(do func(ctx context.Context, client *control.Client, a []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, a []string) error {
		client, err := c.Dial()
		if err != nil {
			return err
		}
		defer client.Close()
		return do(cmd.Context(), client, a)
	}
}

// Interactive reports whether a person sits here who can be asked.
func (c *Env) Interactive() bool { return isTerminal(c.In) && c.Err.Terminal() }

// TypedIn reports whether standard input is a keyboard.
func (c *Env) TypedIn() bool { return isTerminal(c.In) }

func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Actor is who answers at this terminal.
func Actor() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "cli"
}

// QuoteArg quotes a shell word where it needs it.
func QuoteArg(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// QuoteArgs quotes the words of a command line.
func QuoteArgs(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = QuoteArg(a)
	}
	return strings.Join(quoted, " ")
}

// Count is a number of things.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
