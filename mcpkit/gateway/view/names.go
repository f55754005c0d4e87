package view

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// Server is a server that is ready.
type Server struct {
	Name, Alias string
	Version     string // the revision of the protocol that is spoken with the server
}

// URI is the URI under which clients know a resource of the server, or the pattern
// under which they know a template of it.
func (s Server) URI(own string) string { return uriPrefix(s.Name, s.Alias) + own }

// PromptName is the name under which clients know a prompt of the server:
// <alias or server>__<prompt>, with a hash where that is ambiguous; see
// [catalog.ExportName].
func (s Server) PromptName(own string) string {
	return catalog.ExportName("", s.Alias, catalog.ID{Server: s.Name, Tool: own})
}

// uriPrefix leads the URI of each resource of a server, and the pattern of each
// template, so that the URIs of two servers differ. The prefix makes another scheme
// of a URI's scheme (RFC 3986, section 3.1): file:///notes.txt of the server diary
// is mcp+diary+file:///notes.txt. The prefix depends on nothing but the server.
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
