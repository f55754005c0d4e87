package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Args wraps cobra's argument checks so that a failure is a usage error.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
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
			return Usage(err)
		}
		return nil
	}
}

// OneOf is nil where a flag has one of the values that there are.
func OneOf(flag, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return Usage(Hint(fmt.Errorf("--%s %q is not known", flag, value), "there are "+strings.Join(known, ", ")))
}

// Group makes a verb of several, which by itself only shows its help.
func Group(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// Listing makes a verb that lists things by itself, and as its verb "ls".
func Listing(use string, list func() *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd, ls := list(), list()
	cmd.Use, cmd.Aliases = use, nil
	ls.Use, ls.Aliases, ls.Short = "ls", []string{"list"}, "The same as \"platform "+use+"\""
	cmd.AddCommand(ls)
	cmd.AddCommand(verbs...)
	return cmd
}

// JSONFlag gives a verb --json.
func (c *Env) JSONFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON for scripts")
	return cmd
}

// meant guesses which verb or flag of cmd was meant by a command line that it does
// not understand; "" is no guess.
func meant(cmd *cobra.Command, line []string, err error) string {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var known []string
		add := func(f *pflag.Flag) { known = append(known, f.Name) }
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		if near := strict.Nearest(name, known); near != "" {
			return "--" + near
		}
		return ""
	}
	rest, unknown := strings.CutPrefix(err.Error(), "unknown command ")
	if !unknown || len(line) == 0 {
		return ""
	}
	var name string
	if _, err := fmt.Sscanf(rest, "%q", &name); err != nil {
		return ""
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(append(known, sub.Name()), sub.Aliases...)
		}
	}
	if near := strict.Nearest(name, known); near != "" {
		return cmd.CommandPath() + " " + near
	}
	return ""
}
