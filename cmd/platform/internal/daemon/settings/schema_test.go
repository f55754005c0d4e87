package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// node is the part of a schema that the walk looks at.
type node struct {
	Properties           map[string]*node
	AdditionalProperties json.RawMessage
	Default              json.RawMessage
}

func TestTheSchemaAndTheReaderKnowTheSameKeys(t *testing.T) {
	var root node
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	keys := 0
	var walk func(n *node, of reflect.Type, path []string)
	walk = func(n *node, of reflect.Type, path []string) {
		if of.Kind() != reflect.Struct || len(n.Properties) == 0 {
			keys++
			read(t, path, n.Default, true)
			return
		}
		fields := map[string]reflect.Type{}
		for i := range of.NumField() {
			if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
				fields[name] = of.Field(i).Type
			}
		}
		for name, p := range n.Properties {
			if fields[name] == nil {
				t.Errorf("the schema has %v.%s, the reader has not", path, name)
				continue
			}
			walk(p, fields[name], append(path[:len(path):len(path)], name))
			delete(fields, name)
		}
		for name := range fields {
			t.Errorf("the reader has %v.%s, the schema has not", path, name)
		}
		if string(n.AdditionalProperties) != "false" && string(n.AdditionalProperties) != `{"not":{}}` {
			t.Errorf("at %v the schema takes any key: %s", path, n.AdditionalProperties)
		}
		read(t, append(path[:len(path):len(path)], "no_such_key"), nil, false)
	}
	walk(&root, reflect.TypeFor[Options](), nil)
	if keys < 40 {
		t.Errorf("the walk saw %d keys", keys)
	}
}

// read has the reader read a file with one key.
func read(t *testing.T, path []string, value json.RawMessage, want bool) {
	t.Helper()
	text := string(value)
	if text == "" {
		text = "null"
	}
	for i := len(path) - 1; i >= 0; i-- {
		text = "{" + path[i] + ": " + text + "}"
	}
	file := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	if err := o.ReadConfig(file, true); (err == nil) != want {
		t.Errorf("%s: %v", text, err)
	}
}
