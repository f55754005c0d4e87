package view

import (
	"bytes"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

var uriMember = []byte(`"uri"`)

// Rename is a server's result with the URIs of its resources led by the server's
// prefix, so that the client of the view can read them at the gateway.
func (d *Directory) Rename(v *View, server string, raw []byte) []byte {
	if v.Only != "" || !bytes.Contains(raw, uriMember) {
		return raw
	}
	prefix := uriPrefix(server, d.Alias(server))
	uri := func(resource []byte) []byte {
		own, ok := rpc.Text(jsontext.Get(resource, "uri"))
		if !ok {
			return resource
		}
		return rpc.Replace(resource, "uri", func([]byte) []byte { return rpc.Quote(prefix + own) })
	}
	part := func(content []byte) []byte {
		switch kind, _ := rpc.Text(jsontext.Get(content, "type")); kind {
		case "resource_link":
			return uri(content)
		case "resource":
			return rpc.Replace(content, "resource", uri)
		}
		return content
	}
	raw = rpc.Replace(raw, "contents", func(v []byte) []byte { return rpc.Each(v, uri) })
	raw = rpc.Replace(raw, "content", func(v []byte) []byte { return rpc.Each(v, part) })
	return rpc.Replace(raw, "messages", func(v []byte) []byte {
		return rpc.Each(v, func(message []byte) []byte {
			return rpc.Replace(message, "content", func(v []byte) []byte {
				if len(v) > 0 && v[0] == '[' {
					return rpc.Each(v, part)
				}
				return part(v)
			})
		})
	})
}
