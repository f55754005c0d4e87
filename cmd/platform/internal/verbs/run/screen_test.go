package run

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	observed "github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestTheScreenShowsAQuestionOnceWithTheWholeCommandThatAnswersIt(t *testing.T) {
	var out bytes.Buffer
	c := cli.New(nil, &out, nil)
	c.Data = "d"
	s := &screen{c: c, begun: time.Now(), ready: true}
	const id = "01M8NSX61FAXCD6JZED1ZTKS8F"
	for range 2 {
		s.signal(observed.Signal{Kind: observed.PermissionRequested, Server: "dice", Data: &observed.Step{Tool: "dice.roll", Decision: "ask", Approval: id}})
		s.signal(observed.Signal{Kind: observed.ToolFailed, Server: "dice", Summary: "dice.roll failed: dice.roll waits", Data: &observed.Step{ErrorCode: fault.ApprovalRequired}})
	}
	s.signal(observed.Signal{Kind: observed.ToolFailed, Server: "dice", Summary: "dice.roll failed: no dice", Data: &observed.Step{ErrorCode: fault.Timeout}})
	s.signal(observed.Signal{Kind: observed.ServerStopping, Server: "dice", Summary: "dice stopping: shutdown"})
	text := out.String()
	if strings.Count(text, id) != 1 || !strings.Contains(text, " approvals approve "+id+" --data d\n") {
		t.Errorf("the question is shown as\n%s", text)
	}
	if !strings.Contains(text, "dice                     stopping: shutdown\n") {
		t.Errorf("the end is shown as\n%s", text)
	}
	if strings.Count(text, "failed") != 1 || !strings.Contains(text, " roll failed: no dice\n") {
		t.Errorf("failures are shown as\n%s", text)
	}
}
