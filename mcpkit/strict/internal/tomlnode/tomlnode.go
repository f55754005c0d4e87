// Package tomlnode parses TOML text into the nodes that the YAML parser makes of
// YAML, with their positions, so that one decoder serves both. It decodes nothing
// into Go values.
package tomlnode

import (
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"gopkg.in/yaml.v3"
)

// Error says what is wrong with a text, and where. Line and Column count from 1,
// Column in bytes.
type Error struct {
	Line, Column int
	Message      string
}

func (e *Error) Error() string { return e.Message }

// Parse parses one TOML document. The error is an *Error.
func Parse(data []byte) (*yaml.Node, error) {
	// The parser of expressions does not see what is said twice, the decoder does.
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		fault := &Error{Line: 1, Column: 1, Message: strings.TrimPrefix(err.Error(), "toml: ")}
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			fault.Line, fault.Column = at.Position()
		}
		return nil, fault
	}
	r := reader{lines: lineStarts(data)}
	r.parser.Reset(data)
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
	table := root
	for r.parser.NextExpression() {
		switch e := r.parser.Expression(); e.Kind {
		case unstable.Table:
			table = r.descend(root, e.Key(), yaml.MappingNode)
		case unstable.ArrayTable:
			list := r.descend(root, e.Key(), yaml.SequenceNode)
			table = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: list.Line, Column: list.Column}
			list.Content = append(list.Content, table)
		case unstable.KeyValue:
			r.pair(table, e)
		}
	}
	if err := r.parser.Error(); err != nil {
		return nil, &Error{Line: 1, Column: 1, Message: err.Error()}
	}
	return root, nil
}

type reader struct {
	parser unstable.Parser
	lines  []int // offsets at which lines begin
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// at puts the position of a node of TOML into a node of YAML.
func (r *reader) at(n *unstable.Node, into *yaml.Node) *yaml.Node {
	offset := int(n.Raw.Offset)
	low, high := 0, len(r.lines)
	for high-low > 1 {
		if mid := (low + high) / 2; r.lines[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	into.Line, into.Column = low+1, offset-r.lines[low]+1
	return into
}

// descend is the node at a dotted key below a table, made where it is missing. Of a
// list of tables on the way it is the last that is meant.
func (r *reader) descend(table *yaml.Node, key unstable.Iterator, kind yaml.Kind) *yaml.Node {
	for key.Next() {
		last := key.IsLast()
		next := member(table, string(key.Node().Data))
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			if last && kind == yaml.SequenceNode {
				next.Kind, next.Tag = yaml.SequenceNode, "!!seq"
			}
			r.add(table, key.Node(), r.at(key.Node(), next))
		}
		if next.Kind == yaml.SequenceNode && len(next.Content) > 0 && !(last && kind == yaml.SequenceNode) {
			next = next.Content[len(next.Content)-1]
		}
		table = next
	}
	return table
}

// pair adds a key, which may be dotted, and its value.
func (r *reader) pair(table *yaml.Node, e *unstable.Node) {
	for key := e.Key(); key.Next(); {
		if key.IsLast() {
			r.add(table, key.Node(), r.value(e.Value(), key.Node()))
			return
		}
		next := member(table, string(key.Node().Data))
		if next == nil {
			next = r.at(key.Node(), &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"})
			r.add(table, key.Node(), next)
		}
		table = next
	}
}

func (r *reader) add(table *yaml.Node, key *unstable.Node, value *yaml.Node) {
	name := r.at(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(key.Data)})
	table.Content = append(table.Content, name, value)
}

func member(table *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(table.Content); i += 2 {
		if table.Content[i].Value == name {
			return table.Content[i+1]
		}
	}
	return nil
}

// value is a value's node. Tables and lists of TOML's parser have no position of
// their own: near has one.
func (r *reader) value(n, near *unstable.Node) *yaml.Node {
	switch n.Kind {
	case unstable.Array:
		list := r.at(near, &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"})
		for items := n.Children(); items.Next(); {
			list.Content = append(list.Content, r.value(items.Node(), near))
		}
		return list
	case unstable.InlineTable:
		table := r.at(near, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"})
		for pairs := n.Children(); pairs.Next(); {
			r.pair(table, pairs.Node())
		}
		return table
	}
	out := &yaml.Node{Kind: yaml.ScalarNode, Value: string(n.Data)}
	switch n.Kind {
	case unstable.String:
		out.Tag = "!!str"
	case unstable.Bool:
		out.Tag = "!!bool"
	case unstable.Integer:
		out.Tag, out.Value = "!!int", strings.ReplaceAll(out.Value, "_", "")
	case unstable.Float:
		out.Tag, out.Value = "!!float", strings.ReplaceAll(out.Value, "_", "")
	default:
		out.Tag = "!!timestamp"
	}
	if n.Raw.Length == 0 {
		n = near
	}
	return r.at(n, out)
}
