package view

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// Server is a server that is ready.
type Server struct {
	Name, Alias string
	Version     string // the revision of the protocol that is spoken with the server
	About       string // what the server is for, in the words of its manifest; may be empty
}

// label is the name of the server that its tools and prompts bear.
func (s Server) label() string { return cmp.Or(s.Alias, s.Name) }

// URI is the URI under which clients know a resource of the server, or the pattern
// under which they know a template of it.
func (s Server) URI(own string) string { return uriPrefix(s.Name, s.Alias) + own }

// promptNames are the names under which clients know prompts: <alias or
// server>__<prompt>, made as those of tools are; see [catalog.NewTable]. Prompts of
// servers that are not in the list are left out.
func promptNames(items []offers.Item, servers map[string]Server) *catalog.Table {
	var prompts []*catalog.Tool
	seen := map[catalog.ID]bool{}
	for _, item := range items {
		own, ok := rpc.Text(jsontext.Get(item.Raw, Prompts.key))
		s, ready := servers[item.Server]
		id := catalog.ID{Server: item.Server, Tool: own}
		if !ok || !ready || seen[id] {
			continue
		}
		seen[id] = true
		prompts = append(prompts, &catalog.Tool{Name: id.Canonical(), Alias: s.Alias, Source: catalog.Source{Server: id.Server, OriginalName: own}})
	}
	return catalog.NewTable("", prompts)
}

// uriPrefix leads the URI of each resource of a server, and the pattern of each
// template, so that the URIs of two servers differ. The prefix makes another scheme
// of a URI's scheme (RFC 3986, section 3.1): file:///notes.txt of the server diary
// is mcp+diary+file:///notes.txt. The prefix depends on nothing but the server.
func uriPrefix(server, alias string) string {
	label := cmp.Or(alias, server)
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

// maxInstructions bounds what a client is told at the beginning, in bytes: it goes
// into each conversation of a model.
const maxInstructions = 4 << 10

// Introduce adds the member instructions to the members of a result, where there is
// something to say; see Instructions. It waits for servers that are being started.
func (d *Directory) Introduce(ctx context.Context, members []byte, v *View) []byte {
	d.Await(ctx)
	text := d.Instructions(v)
	if text == "" {
		return members
	}
	return append(append(members, `,"instructions":`...), rpc.Quote(text)...)
}

// Instructions says what the servers are for that a view shows, in the words of their
// manifests. What a server says of itself is not passed on: nobody has reviewed it. It
// is empty where the view shows no server, or one that its manifest says nothing of.
func (d *Directory) Instructions(v *View) string {
	servers := d.Shown(v)
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		about := redact.Show(strings.Join(strings.Fields(s.About), " "))
		if v.Only != "" {
			return about
		}
		if i == 0 {
			b.WriteString("Tools and prompts are named SERVER__NAME. The servers are:\n")
		}
		line := "- " + s.label()
		if about != "" {
			line += ": " + about
		}
		if b.Len()+len(line) > maxInstructions {
			fmt.Fprintf(&b, "and %d more", len(servers)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}
