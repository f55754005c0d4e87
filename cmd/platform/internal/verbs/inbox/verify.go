package inbox

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

// verifyOptions are the flags of the verb.
type verifyOptions struct {
	repair bool
}

func newVerifyCommand(c *cli.Env) *cobra.Command {
	var o verifyOptions
	cmd := c.JSONFlag(&cobra.Command{
		Use:   "verify",
		Short: "Compare journal and files, and explain each difference",
		Long: `Compare the journal, its checkpoint and the files with each other, and explain each
difference. The exit code is 3 when there is a fault; what a Brain may do, such as
deleting a file, is explained and no fault.

Nothing is changed without --repair. With it, damaged parts of the journal are copied
beside it, as a start of the platform does with what it meets, and a file that differs
from its record is put right; what was there is kept in rejected/. Records that are
lost stay a fault until their segment goes by its age. Both may run beside a platform.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVerify(cmd.Context(), c, o)
		},
	})
	cmd.Flags().BoolVar(&o.repair, "repair", false, "keep damaged parts of the journal, put broken files right")
	return cmd
}

func runVerify(ctx context.Context, c *cli.Env, o verifyOptions) error {
	at, err := inboxFolders(c)
	if err != nil {
		return err
	}
	compare := audit.Verify
	if o.repair {
		compare = audit.Repair
	}
	r, err := compare(at)
	if err != nil {
		return err
	}
	if c.JSON {
		err = c.PrintJSON(r)
	} else {
		showReport(c, r)
	}
	if err == nil && r.Faults > 0 {
		return cli.ErrFindings
	}
	return err
}

func showReport(c *cli.Env, r *audit.Report) {
	c.Out.Printf("%d records in the journal, %d of them for the Brain\n", r.Records, r.Delivered)
	c.Out.Printf("%d files, %d taken by the Brain, %d not visible yet\n", r.Files, r.Taken, r.Backlog)
	for _, f := range r.Findings {
		mark, style := "note", console.Dim
		switch {
		case f.Fault:
			mark, style = "fault", console.Red
		case f.Repaired:
			mark, style = "fixed", console.Green
		}
		text := f.Text
		if f.Name != "" {
			text = f.Name + ": " + text
		}
		c.Out.Printf("%s %s\n", c.Out.Paint(style, fmt.Sprintf("%-5s", mark)), console.Safe(text))
	}
	if r.Faults == 0 {
		c.Out.Printf("%s\n", c.Out.Paint(console.Green, "no faults"))
		return
	}
	c.Out.Printf("%s\n", c.Out.Paint(console.Red, fmt.Sprintf("%d faults", r.Faults)))
}
