package calls

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// showNotes says on standard error what the result itself does not show.
func showNotes(c *cli.Env, res *control.CallResponse) {
	note := func(format string, args ...any) {
		c.Err.Printf("%s\n", c.Err.Paint(console.Dim, "note: "+console.Safe(fmt.Sprintf(format, args...))))
	}
	if len(res.Flags) > 0 {
		note("the result was flagged: %s", strings.Join(res.Flags, ", "))
	}
	if at, ok := res.Artifact.(map[string]any); ok && at["path"] != nil {
		note("the result of %s is also kept in %v", console.Bytes(int64(len(res.Result))), at["path"])
	}
	if res.Replayed {
		note("nothing was sent: this is the answer of the first call with that key")
	}
}

// part is a part of a result's content, or what it embeds.
type part struct {
	Type, Text, MIME, Data, URI string
	Resource                    *part
}

func (p *part) UnmarshalJSON(raw []byte) error {
	return jsontext.Fields(raw, map[string]any{
		"type": &p.Type, "text": &p.Text, "mimeType": &p.MIME, "data": &p.Data, "blob": &p.Data, "uri": &p.URI, "resource": &p.Resource,
	})
}

// showResult prints the parts of a result that a person can read. Text keeps
// its lines, but nothing in it steers the terminal.
func showResult(c *cli.Env, raw json.RawMessage) {
	var parts []part
	var structured json.RawMessage
	if err := jsontext.Fields(raw, map[string]any{"content": &parts, "structuredContent": &structured}); err != nil {
		c.Out.Printf("%s\n", console.Safe(string(raw)))
		return
	}
	var texts []string
	for _, p := range parts {
		showPart(c, p)
		texts = append(texts, p.Text)
	}
	if len(structured) > 0 && string(structured) != "null" && !toolcall.Told(structured, texts) && !(len(texts) > 0 && ofKit(structured)) {
		c.Out.Printf("%s\n", console.Safe(string(structured)))
	}
}

// ofKit reports whether a structured content has the shape that package appkit gives to
// results, {"ok":true,"data":…} or {"ok":false,"error_code":…}: their text is made of the
// same, for a person.
func ofKit(structured json.RawMessage) bool {
	var ok, data, code json.RawMessage
	err := jsontext.Fields(structured, map[string]any{"ok": &ok, "data": &data, "error_code": &code})
	return err == nil && (string(ok) == "true" && data != nil || string(ok) == "false" && code != nil)
}

func showPart(c *cli.Env, p part) {
	switch {
	case p.Resource != nil:
		c.Out.Printf("[%s %s]\n", console.Safe(p.Type), console.Safe(p.Resource.URI))
		if p.Resource.Text != "" {
			showPart(c, part{Type: "text", Text: p.Resource.Text})
		}
	case p.Type == "text":
		for line := range strings.Lines(p.Text) {
			c.Out.Printf("%s\n", console.Safe(strings.TrimRight(line, "\r\n")))
		}
	case p.URI != "":
		c.Out.Printf("[%s %s]\n", console.Safe(p.Type), console.Safe(p.URI))
	default:
		c.Out.Printf("[%s %s, %s]\n", console.Safe(p.Type), console.Safe(p.MIME), console.Bytes(int64(len(p.Data))*3/4))
	}
}
