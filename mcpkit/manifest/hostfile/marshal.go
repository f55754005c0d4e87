package hostfile

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
)

// foreignKey is the key under which a manifest keeps what is Foreign.
const foreignKey = "x-imported"

// Marshal writes m as a manifest.yaml for people to keep: in the order of the
// documentation, without what is as in [manifest.Default], with what is Foreign under the
// key x-imported, and with its warnings as comments. Strings are written as they
// are, variables included, so it is meant for manifests of [Convert] and of one's
// own making; what manifest.Parse returns has its variables already replaced.
func Marshal(m *manifest.Manifest) []byte {
	root := encode(reflect.ValueOf(*m), reflect.ValueOf(*manifest.Default()))
	var comment []string
	for _, w := range m.Warnings {
		comment = append(comment, "# "+oneLine(strings.TrimPrefix(w.Key+": "+w.Message, ": ")))
	}
	root.HeadComment = strings.Join(comment, "\n")
	if len(m.Foreign) > 0 {
		key, value := &yaml.Node{}, &yaml.Node{}
		key.SetString(foreignKey)
		if err := value.Encode(m.Foreign); err != nil {
			panic("hostfile: encoding: " + err.Error()) // what was decoded encodes
		}
		root.Content = append(root.Content, key, value)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		panic("hostfile: encoding: " + err.Error()) // nodes of our own making
	}
	return b.Bytes()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// encode makes a node of v, leaving out what equals def.
func encode(v, def reflect.Value) *yaml.Node {
	n := &yaml.Node{}
	switch {
	case v.Type().Implements(reflect.TypeFor[fmt.Stringer]()):
		n.SetString(v.Interface().(fmt.Stringer).String())
	case v.Kind() == reflect.Struct:
		n.Kind = yaml.MappingNode
		for i := range v.NumField() {
			name, opts, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			f, d := v.Field(i), def.Field(i)
			optional := strings.HasPrefix(opts, "omit")
			if optional && (reflect.DeepEqual(f.Interface(), d.Interface()) || f.Kind() != reflect.Bool && f.Kind() != reflect.Int && f.IsZero()) {
				continue
			}
			if (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0 {
				continue
			}
			key := &yaml.Node{}
			key.SetString(name)
			n.Content = append(n.Content, key, encode(f, d))
		}
	case v.Kind() == reflect.Slice:
		n.Kind = yaml.SequenceNode
		for i := range v.Len() {
			n.Content = append(n.Content, encode(v.Index(i), reflect.Zero(v.Type().Elem())))
		}
		if v.Type().Elem().Kind() == reflect.String {
			n.Style = yaml.FlowStyle
		}
	default:
		if err := n.Encode(v.Interface()); err != nil {
			panic("hostfile: encoding: " + err.Error()) // strings, numbers and maps of strings encode
		}
	}
	return n
}
