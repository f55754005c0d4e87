// Package inbox is the verbs that look at the event files that wait for the Brain, and
// keep the folder in order. They work on the folder alone: how it is laid out is in
// bridge/inbox.
package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/bridge/inbox/audit"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

// NewCommand makes the verb "inbox".
func NewCommand(c *cli.Env) *cobra.Command {
	return cli.Group("inbox", "Look at the event files that wait for the Brain", `Look at the inbox in DATA/kernel/inbox. These verbs work on the folder alone and
need no running platform. None of them takes an event from the Brain.`,
		newListCommand(c), newShowCommand(c), newFollowCommand(c), newStatsCommand(c), newVerifyCommand(c), newReplayCommand(c), newPruneCommand(c))
}

// openQueue is the inbox of the data folder, which must be there.
func openQueue(c *cli.Env) (queue.Dir, error) {
	dir := filepath.Join(c.Data, "kernel", "inbox")
	if _, err := os.Stat(dir); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", cli.Hint(fmt.Errorf("there is no inbox in %s", c.Data), "name the data folder with --data, or start the platform once")
		}
		return "", err
	}
	return queue.Dir(dir), nil
}

// inboxFolders are where the inbox and its journal are.
func inboxFolders(c *cli.Env) (audit.Folders, error) {
	q, err := openQueue(c)
	return audit.Folders{Inbox: string(q), Journal: filepath.Join(c.Data, "journal"), Artifacts: filepath.Join(c.Data, "artifacts")}, err
}

// event is how an event is printed as JSON.
type event struct {
	queue.Entry
	Reason   string          `json:"reason,omitempty"`  // why it is in failed/
	Problem  string          `json:"problem,omitempty"` // why it is no envelope
	Envelope json.RawMessage `json:"envelope,omitempty"`
}

func asEvent(it *queue.Item) event {
	e := event{Entry: it.Entry, Reason: it.Reason}
	if it.Problem != nil {
		e.Problem = it.Problem.Error()
	} else {
		e.Envelope = it.Raw
	}
	return e
}
