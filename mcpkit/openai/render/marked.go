package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// Marked is the text as a model is given it: it says which tool it comes from, the zero
// ID being none, and stands between marks that the text cannot forge, because they are
// made of its hash:
//
//	[mcp:SERVER:TOOL] result <<5f3c9a1b2c3d4e5f
//	…
//	5f3c9a1b2c3d4e5f>>
//
// A failed call says "error" in place of "result".
func (r Rendered) Marked(from catalog.ID) string {
	word := "result"
	if r.Failed {
		word = "error"
	}
	sum := sha256.Sum256([]byte(from.Server + "\x00" + from.Tool + "\x00" + r.Text))
	mark := hex.EncodeToString(sum[:8])
	return fmt.Sprintf("%s %s <<%s\n%s\n%s>>", Source(from), word, mark, r.Text, mark)
}

// Source names the tool that data comes from.
func Source(id catalog.ID) string {
	if id == (catalog.ID{}) {
		return "[mcp]"
	}
	clean := strings.NewReplacer("[", "(", "]", ")", "\n", " ", "\r", " ", "\t", " ")
	return "[mcp:" + clean.Replace(Plain(id.Server)) + ":" + clean.Replace(Plain(id.Tool)) + "]"
}
