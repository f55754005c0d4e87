package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

func (c *cli) inboxVerify() *cobra.Command {
	var repair bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "verify",
		Short: "Compare journal and files, and explain each difference",
		Long: `Compare the journal, its checkpoint and the files with each other, and explain each
difference. The exit code is 3 when there is a fault; what a Brain may do, such as
deleting a file, is explained and no fault.

Nothing is changed without --repair. With it, damaged parts of the journal are copied
beside it, as a start of the platform does with what it meets, and a file that differs
from its record is put right; what was there is kept in rejected/. Records that are
lost stay a fault until their segment goes by its age. Both may run beside a platform.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := c.inboxOptions()
			if err != nil {
				return err
			}
			compare := inbox.Verify
			if repair {
				compare = inbox.Repair
			}
			r, err := compare(o)
			if err != nil {
				return err
			}
			if c.json {
				err = c.printJSON(r)
			} else {
				c.showReport(r)
			}
			if err == nil && r.Faults > 0 {
				return errFindings
			}
			return err
		},
	})
	cmd.Flags().BoolVar(&repair, "repair", false, "keep damaged parts of the journal, put broken files right")
	return cmd
}

func (c *cli) showReport(r *inbox.Report) {
	c.out.Printf("%d records in the journal, %d of them for the Brain\n", r.Records, r.Delivered)
	c.out.Printf("%d files, %d taken by the Brain, %d not visible yet\n", r.Files, r.Taken, r.Backlog)
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
		c.out.Printf("%s %s\n", c.out.Paint(style, fmt.Sprintf("%-5s", mark)), console.Safe(text))
	}
	if r.Faults == 0 {
		c.out.Printf("%s\n", c.out.Paint(console.Green, "no faults"))
		return
	}
	c.out.Printf("%s\n", c.out.Paint(console.Red, fmt.Sprintf("%d faults", r.Faults)))
}

func (c *cli) inboxReplay() *cobra.Command {
	var f inbox.ReplayFilter
	var since, to string
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "replay --to DIR",
		Short: "Write events of the journal into a folder again",
		Long: `Write events of the journal into a folder, under their names and with their times:
to look at what the Brain took, or to feed another one. The inbox itself is never
written to.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := c.inboxOptions()
			if err != nil {
				return err
			}
			if f.Since, err = parseSince(since, time.Now()); err != nil {
				return &usageError{err, cmd}
			}
			n, err := inbox.Replay(o, f, to)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{"written": n, "to": to})
			}
			c.out.Printf("wrote %d events to %s\n", n, to)
			return nil
		},
	})
	cmd.Flags().StringVar(&to, "to", "", "the folder to write to")
	cmd.Flags().StringVar(&since, "since", "", "only events since then: 10m, 2h, 7d, or a date with time")
	cmd.Flags().StringVar(&f.Type, "type", "", "only this type, or the beginning of one followed by *")
	cmd.Flags().BoolVar(&f.All, "all", false, "also what was only recorded, or had expired")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (c *cli) inboxPrune() *cobra.Command {
	var age string
	var bytes int64
	var dry bool
	cmd := c.jsonFlag(&cobra.Command{
		Use:   "prune",
		Short: "Remove old events that nobody waits for",
		Long: `Remove files of done/, failed/ and rejected/ that are older than --older-than, and
the oldest beyond --max-bytes in each folder, and whole old segments of the
journal with what was kept aside of them. Nothing pending, claimed or undelivered is ever removed.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := c.inboxOptions()
			if err != nil {
				return err
			}
			now := time.Now()
			since, err := parseSince(age, now)
			if err != nil || since.IsZero() || since.After(now) {
				return &usageError{fmt.Errorf("--older-than needs an age such as 12h or 30d, not %q", age), cmd}
			}
			if bytes < 0 {
				return &usageError{fmt.Errorf("--max-bytes must not be negative, not %d", bytes), cmd}
			}
			p := queue.Policy{Age: now.Sub(since), Bytes: bytes}
			files, segments, skipped, err := inbox.Prune(o, inbox.PrunePolicy{Done: p, Failed: p, Rejected: p, JournalAge: p.Age}, dry)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{"dry_run": dry, "files": files, "segments": segments, "journal_skipped": skipped != nil})
			}
			verb := "removed"
			if dry {
				verb = "would remove"
			}
			for _, f := range files {
				c.out.Printf("%s %d files, %s, from %s\n", verb, f.Files, console.Bytes(f.Bytes), f.Folder)
			}
			c.out.Printf("%s %d files of the journal\n", verb, len(segments))
			if skipped != nil {
				c.out.Printf("the journal was left alone: %s\n", console.Safe(skipped.Error()))
			}
			return nil
		},
	})
	cmd.Flags().StringVar(&age, "older-than", "7d", "age such as 12h or 30d")
	cmd.Flags().Int64Var(&bytes, "max-bytes", 0, "size that each folder may keep; 0 is no limit")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	return cmd
}
