package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

func newShowCommand(c *cli.Env) *cobra.Command {
	return c.JSONFlag(&cobra.Command{
		Use:   "show ID | TYPE",
		Short: "Show one event, or the latest of a type",
		Long: `Show one event. The beginning of its id is enough, and the name of its file will do.
With a type, such as timer.triggered or timer.*, the latest event of it in pending.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			return runShow(cmd.Context(), c, a)
		},
	})
}

func runShow(ctx context.Context, c *cli.Env, a []string) error {
	q, err := openQueue(c)
	if err != nil {
		return err
	}
	it, err := find(q, a[0])
	if errors.Is(err, os.ErrNotExist) {
		return cli.Hint(fmt.Errorf("no event has an id that begins with %q, and none in pending that type", a[0]), "platform inbox ls --json has the ids")
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PrintJSON(asEvent(it))
	}
	showEvent(c, it)
	return nil
}

// find is the event that a person means: by the beginning of its id, its file, or as
// the latest of a type.
func find(q queue.Dir, what string) (*queue.Item, error) {
	if _, id, ok := amp.ParseFileName(filepath.Base(what)); ok {
		what = id
	}
	it, err := q.Show(what)
	if !errors.Is(err, os.ErrNotExist) {
		return it, err
	}
	list, failed := q.List(queue.Filter{Type: what}, queue.Page{Size: 1, Newest: true})
	if failed != nil || len(list) == 0 {
		return nil, cmp.Or(failed, err)
	}
	return q.Load(list[0])
}

func showEvent(c *cli.Env, it *queue.Item) {
	line := func(name, value string) {
		if value != "" {
			c.Out.Printf("%s %s\n", c.Out.Paint(console.Dim, fmt.Sprintf("%-9s", name)), console.Safe(value))
		}
	}
	line("file", filepath.Join(it.Folder, it.Name))
	line("size", console.Bytes(it.Size))
	if it.Reason != "" {
		line("failed", it.Reason)
	}
	if it.Envelope == nil {
		line("problem", it.Problem.Error())
		return
	}
	h, p := it.Envelope.Header, it.Envelope.Payload
	line("type", p.Type)
	line("source", strings.TrimSuffix(h.Source.App+" #"+h.Source.Instance, " #"))
	line("time", fmt.Sprintf("%s (%s ago)", h.Timestamp.Local().Format(time.RFC3339), console.Age(time.Since(h.Timestamp.Time))))
	line("id", h.MessageID)
	line("method", h.Method)
	if h.Seq > 0 {
		line("seq", fmt.Sprint(h.Seq))
	}
	line("answers", h.CorrelationID)
	line("session", p.SessionID)
	if p.ExpireAt != nil {
		line("expires", p.ExpireAt.Local().Format(time.RFC3339))
	}
	line("summary", p.Summary)
	var data struct {
		Artifact artifact.Ref `json:"artifact"`
	}
	if json.Unmarshal(p.Data, &data) == nil && data.Artifact.Path != "" {
		switch err := artifact.Check(filepath.Join(c.Data, "artifacts"), data.Artifact.SHA256); {
		case errors.Is(err, os.ErrNotExist):
			line("artifact", "is not there any more: retention removes those of events that are dealt with")
		case err != nil:
			line("artifact", err.Error())
		}
	}
	if len(p.Data) > 0 {
		var pretty strings.Builder
		enc := json.NewEncoder(&pretty)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(p.Data); err != nil {
			line("data", err.Error())
			return
		}
		c.Out.Printf("\n")
		for l := range strings.Lines(pretty.String()) {
			c.Out.Printf("%s\n", console.Safe(strings.TrimRight(l, "\n")))
		}
	}
}
