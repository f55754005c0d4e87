package view

import (
	"context"
	"strconv"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
)

// List is a kind of thing that servers list beside tools.
type List struct {
	member string // of the result
	key    string // member of an item with what tells it from others
	uri    bool   // the key is a URI, or a pattern of one, and no name
}

// The lists beside that of tools.
var (
	Resources = List{"resources", "uri", true}
	Templates = List{"resourceTemplates", "uriTemplate", true}
	Prompts   = List{"prompts", "name", false}
)

// Reader lists the items of one server, or of all where server is empty.
type Reader func(ctx context.Context, server string) ([]offers.Item, error)

// Page is the page of a list at a cursor, as the members of a result. The cursor
// of the first page is empty.
func (d *Directory) Page(ctx context.Context, v *View, l List, cursor string, read Reader) ([]byte, *rpc.Error) {
	from, ok := position(cursor)
	if !ok {
		return nil, noPage(cursor)
	}
	items, err := read(ctx, v.Only)
	if err != nil && v.Only != "" && fault.From(err).Code == fault.Protocol {
		err = nil // the server has no such list
	}
	if err != nil {
		return nil, rpc.ErrorOf(err)
	}
	servers := d.Shown(v)
	export := func(s Server, own string) string { return s.URI(own) }
	if !l.uri && v.Only == "" {
		names := promptNames(items, d.Shown(&View{}))
		export = func(s Server, own string) string { return names.ExportName(catalog.ID{Server: s.Name, Tool: own}) }
	}
	b := append(append([]byte{'"'}, l.member...), `":[`...)
	n := 0
	for _, item := range items {
		s, visible := servers[item.Server]
		own, ok := rpc.Text(jsontext.Get(item.Raw, l.key))
		if !visible || !ok || v.Only == "" && export(s, own) == "" {
			continue
		}
		if n++; n <= from {
			continue
		}
		if n > from+perPage {
			return append(b, `],"nextCursor":"`+strconv.Itoa(from+perPage)+`"`...), nil
		}
		if n > from+1 {
			b = append(b, ',')
		}
		if v.Only != "" {
			b = append(b, item.Raw...)
		} else {
			b = append(b, rpc.With(item.Raw, l.key, rpc.Quote(export(s, own)))...)
		}
	}
	return append(b, ']'), nil
}
