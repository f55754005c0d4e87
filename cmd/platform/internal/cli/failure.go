package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// The exit codes of every verb.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2   // the command line cannot be understood
	ExitFindings    = 3   // a check found faults, drift or differences
	ExitInterrupted = 130 // by Ctrl-C or SIGTERM, as shells number it
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// Usage makes err an error of the command line: its exit code is 2, and its hint is
// the verb's help unless err has one.
func Usage(err error) error { return &usageError{err} }

// hinted is an error with advice.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// Hint gives err advice, which is printed below it.
func Hint(err error, hint string) error { return &hinted{err, hint} }

// WithText is err with another text and the same advice.
func WithText(err error, text string) error {
	if h, ok := errors.AsType[*hinted](err); ok {
		return &hinted{errors.New(text), h.hint}
	}
	return errors.New(text)
}

// ErrShown ends a verb that has printed its failure.
var ErrShown = errors.New("shown")

// ErrFindings ends a verb that has printed its findings.
var ErrFindings = errors.New("findings")

// report writes the error of a command line the way every verb does, and returns
// the exit code. The command is the one that was found for the line.
func (c *Env) report(ctx context.Context, cmd *cobra.Command, line []string, err error) int {
	var usage *usageError
	var h *hinted
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrFindings):
		return ExitFindings
	case errors.Is(err, ErrShown):
		return ExitFailed
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, control.ErrNotRunning):
		c.Complain(err.Error(), fmt.Sprintf("start it with: platform run --data %s, or name the folder of one that runs: --data or AURORA_DATA", QuoteArg(c.Data)))
		return ExitFailed
	case errors.Is(err, os.ErrPermission) && !errors.As(err, &h) && strings.Contains(err.Error(), c.Data):
		c.Complain(Plain(err), fmt.Sprintf("%s is for the user whose platform it is: be that user, or choose another folder with --data", QuoteArg(c.Data)))
		return ExitFailed
	case errors.As(err, &usage), isUsage(err):
		hints := []string{cmd.CommandPath() + " --help"}
		if errors.As(err, &h) {
			hints = []string{h.hint}
		} else if guess := meant(cmd, line, err); guess != "" {
			hints = append(hints, "did you mean "+guess+"?")
		}
		text := Plain(err)
		if usage == nil { // cobra's own, which goes on with suggestions
			text, _, _ = strings.Cut(text, "\n")
		}
		c.Complain(text, hints...)
		return ExitUsage
	case errors.As(err, &h):
		c.Complain(h.error.Error(), h.hint)
		return ExitFailed
	}
	var f *fault.Error
	if errors.As(err, &f) {
		hint := near(f)
		if id := openQuestion(f); id != "" {
			hint = fmt.Sprintf("platform approvals approve %s --data %s, then call again", id, QuoteArg(c.Data))
		}
		c.Complain(f.Message, hint)
		if c.JSON {
			c.PrintJSON(f)
		}
		return ExitFailed
	}
	c.Complain(Plain(err))
	return ExitFailed
}

// openQuestion is the id of the approval that a call waits for, or "".
func openQuestion(f *fault.Error) string {
	var data struct {
		ID string `json:"approval_id"`
	}
	if f.Code != fault.ApprovalRequired || json.Unmarshal(f.Data, &data) != nil {
		return ""
	}
	return data.ID
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
	}
	switch f.Code {
	case control.ServerNotFound:
		return `"platform servers" lists them`
	case fault.ToolNotFound:
		return `"platform tools" lists them`
	case control.ApprovalNotFound:
		return `"platform approvals ls --all" lists them`
	case control.ApprovalDecided:
		return `"platform approvals show ID" says what became of it; "platform approvals revoke ID" takes an answer back that still stands`
	case control.CallNotFound:
		return `"platform calls ls" lists those that wait for an answer`
	case review.CatalogChanged:
		return `"platform catalog review" shows them as they are now`
	}
	return ""
}

// Plain is an error's text, one line for each of several errors.
func Plain(err error) string {
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

// Complain writes a failure to standard error, and below it what to do about it.
func (c *Env) Complain(message string, hints ...string) {
	for i, line := range strings.Split(strings.TrimRight(message, "\n"), "\n") {
		lead := c.Err.Paint(console.Red, "error:") + " "
		if i > 0 {
			lead = "       "
		}
		c.Err.Printf("%s%s\n", lead, console.Safe(line))
	}
	for _, hint := range hints {
		if hint != "" {
			c.Err.Printf("%s %s\n", c.Err.Paint(console.Cyan, "hint:"), console.Safe(hint))
		}
	}
}

// isUsage tells cobra's own errors about a command line apart.
func isUsage(err error) bool {
	for _, lead := range []string{"unknown command", "accepts ", "requires at least", "invalid argument", "required flag", "if any flags in the group"} {
		if strings.HasPrefix(err.Error(), lead) {
			return true
		}
	}
	return false
}
