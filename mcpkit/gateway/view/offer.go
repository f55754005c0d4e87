package view

import (
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// perPage is how many items one page of a list has at most.
const perPage = 500

// Offer is the tools that a view shows of one table of the catalogue.
type Offer struct {
	table *catalog.Table
	view  *View
	tools map[string]*catalog.Tool
	pages [][]byte // of tools/list, each the members of a result
}

// Offer is the tools that the view shows of a table. The last offer is kept: the
// same table gives the same offer.
func (v *View) Offer(table *catalog.Table) *Offer {
	if o := v.offered.Load(); o != nil && o.table == table {
		return o
	}
	o := &Offer{table: table, view: v, tools: map[string]*catalog.Tool{}}
	names := catalog.NewTable("", table.Tools()) // the client leads them with a word of its own
	var page []byte
	n := 0
	flush := func(more bool) {
		page = append(append([]byte(`"tools":[`), page...), ']')
		if more {
			page = append(page, `,"nextCursor":"`+strconv.Itoa(len(o.pages)+1)+`"`...)
		}
		o.pages, page, n = append(o.pages, page), nil, 0
	}
	for _, t := range table.Tools() {
		if !v.showsTool(t) {
			continue
		}
		name := names.ExportName(t.ID())
		if v.Only != "" {
			name = t.Source.OriginalName
		}
		if name == "" { // the table refuses it; see catalog.Table.Refused
			continue
		}
		o.tools[name] = t
		if n == perPage {
			flush(true)
		}
		if n++; n > 1 {
			page = append(page, ',')
		}
		page = append(page, shown(t, name)...)
	}
	flush(false)
	v.offered.Store(o)
	return o
}

// shown is a tool as its server described it, under the name that clients know.
// The member execution is left out: it promises tasks, which the gateway does not
// carry.
func shown(t *catalog.Tool, name string) []byte {
	raw := t.Raw
	if raw == nil { // the tool comes from no server
		raw = append([]byte(`{"description":`), rpc.Quote(t.Description)...)
		raw = append(append(append(raw, `,"inputSchema":`...), t.InputSchema...), '}')
	}
	return rpc.With(raw, "name", rpc.Quote(name), "execution")
}

// Tool is the tool with a name that clients know, or nil. A name of before, which a
// host may have kept in its settings, still means the tool that it meant.
func (o *Offer) Tool(name string) *catalog.Tool {
	if t := o.tools[name]; t != nil || o.view.Only != "" {
		return t
	}
	t, err := o.table.Resolve(name)
	if err != nil || !o.view.showsTool(t) {
		return nil
	}
	if _, former := o.table.Renamed(name); former || name == o.table.ExportName(t.ID()) {
		return t
	}
	return nil
}

// Page is the page of tools/list at a cursor, as the members of a result. The
// cursor of the first page is empty.
func (o *Offer) Page(cursor string) ([]byte, *rpc.Error) {
	i, ok := position(cursor)
	if !ok || i >= len(o.pages) {
		return nil, noPage(cursor)
	}
	return o.pages[i], nil
}

// position is the number that a cursor stands for, which is 0 at the beginning.
func position(cursor string) (n int, ok bool) {
	if cursor == "" {
		return 0, true
	}
	n, err := strconv.Atoi(cursor)
	return n, err == nil && n > 0
}

func noPage(cursor string) *rpc.Error {
	return &rpc.Error{Code: rpc.CodeInvalidParams, Message: "there is no page " + strconv.Quote(strings.ToValidUTF8(cursor, "?"))}
}
