package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// uriPrefix leads the URI of each of a server's resources, and the template of
// each of its templates, so that those of two servers differ. It makes another
// scheme of the URI's (RFC 3986, section 3.1): file:///notes.txt of the server
// diary is mcp+diary+file:///notes.txt. It depends on the server alone.
func uriPrefix(server, alias string) string {
	label := alias
	if label == "" {
		label = server
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, label)
	if clean != label {
		sum := sha256.Sum256([]byte(server))
		clean += "-" + hex.EncodeToString(sum[:4])
	}
	return "mcp+" + clean + "+"
}

// promptName is the name of a server's prompt: <alias or server>__<prompt>, with
// a hash where that could be mistaken; see [catalog.ExportName].
func promptName(server, alias, prompt string) string {
	return catalog.ExportName("", alias, catalog.ID{Server: server, Tool: prompt})
}
