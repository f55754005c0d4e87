package gateway

import (
	"bytes"

	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

var uriMember = []byte(`"uri"`)

// rename leads the URIs of the resources in a server's result with the server's
// prefix, so that the client can read them here.
func (r *request) rename(server string, raw []byte) []byte {
	if r.c.view.Only != "" || !bytes.Contains(raw, uriMember) {
		return raw
	}
	prefix := uriPrefix(server, r.c.g.alias(server))
	uri := func(resource []byte) []byte {
		own, ok := text(jsonline.Get(resource, "uri"))
		if !ok {
			return resource
		}
		return replace(resource, "uri", func([]byte) []byte { return quote(prefix + own) })
	}
	part := func(content []byte) []byte {
		switch kind, _ := text(jsonline.Get(content, "type")); kind {
		case "resource_link":
			return uri(content)
		case "resource":
			return replace(content, "resource", uri)
		}
		return content
	}
	raw = replace(raw, "contents", func(v []byte) []byte { return each(v, uri) })
	raw = replace(raw, "content", func(v []byte) []byte { return each(v, part) })
	return replace(raw, "messages", func(v []byte) []byte {
		return each(v, func(message []byte) []byte {
			return replace(message, "content", func(v []byte) []byte {
				if len(v) > 0 && v[0] == '[' {
					return each(v, part)
				}
				return part(v)
			})
		})
	})
}

// replace is the object raw with the value of one member replaced, or raw itself
// where it has no such member.
func replace(raw []byte, name string, f func(value []byte) []byte) []byte {
	if jsonline.Get(raw, name) == nil {
		return raw
	}
	b := append(make([]byte, 0, len(raw)+64), '{')
	jsonline.Members(raw, func(n, v []byte) bool {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(append(b, '"'), escape(n)...), '"'), ':')
		if string(n) == name {
			v = f(v)
		}
		b = append(b, v...)
		return true
	})
	return append(b, '}')
}

// each is the array raw with its elements replaced, or raw itself where it is none.
func each(raw []byte, f func(v []byte) []byte) []byte {
	b := append(make([]byte, 0, len(raw)+64), '[')
	ok := jsonline.Elements(raw, func(v []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, f(v)...)
	})
	if !ok {
		return raw
	}
	return append(b, ']')
}
