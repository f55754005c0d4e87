package manifest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/manifesttest"
)

func TestTheSchemaThatIsCheckedInIsTheTypes(t *testing.T) {
	manifesttest.Golden(t, "manifest.schema.json", Schema())
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheSchemaTakesWhatParseTakesAndRefusesWhatAnEditorCanSee(t *testing.T) {
	schema := compiled(t)
	check := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	base := "package: a\ntype: mcp-server\n"
	for _, good := range []string{
		manifesttest.Guide,
		base + "mcp: {command: x y, health_timeout: 1.5, max_line: 64KiB, stop: {close_wait: 1m30s}, args: }\n",
		base + "x-note: [1]\nmcp: {url: 'https://example.com', x-y: 1, call_timeout: '${T}', max_line: 65536}\ncommands:\n",
	} {
		if err := check(good); err != nil {
			t.Errorf("refused: %v\n%s", err, good)
		}
		mustParse(t, "a.yaml", good, manifesttest.Env("T=10"))
	}
	for _, bad := range []string{
		"type: mcp-server\nmcp: {}\n",
		base,
		base + "mcp: {comand: x}\n",
		base + "mcp: {command: x, health_timeout: soon}\n",
		base + "mcp: {command: x, env: {PORT: 8080}}\n",
		base + "mcp: {command: x, transport: pigeon}\n",
		"package: a b\ntype: mcp-server\nmcp: {command: x}\n",
		base + "mcp: {command: x}\ncommands: [{description: x}]\n",
	} {
		if err := check(bad); err == nil {
			t.Errorf("accepted by the schema:\n%s", bad)
		}
		if _, err := Parse("a.yaml", []byte(bad), nil); err == nil {
			t.Errorf("accepted by Parse:\n%s", bad)
		}
	}
}

func TestTheSchemaDescribesEveryKeyAndHasItsDefault(t *testing.T) {
	var root node
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, n node)
	walk = func(path string, n node) {
		for name, p := range n.Properties {
			if p.Description == "" {
				t.Errorf("%s%s has no description", path, name)
			}
			walk(path+name+".", p)
		}
		if n.Items != nil {
			walk(path, *n.Items)
		}
	}
	walk("", root)
	mcp := root.Properties["mcp"].Properties
	for name, want := range map[string]any{"health_timeout": "30s", "max_line": "16MiB", "transport": "stdio", "cwd": nil} {
		if got := mcp[name].Default; got != want {
			t.Errorf("the default of %s is %v, want %v", name, got, want)
		}
	}
	if got := mcp["restart"].Properties["max_attempts"].Default; got != 3.0 {
		t.Errorf("the default of max_attempts is %v", got)
	}
}

// node is what the test reads of a schema.
type node struct {
	Description string          `json:"description"`
	Default     any             `json:"default"`
	Properties  map[string]node `json:"properties"`
	Items       *node           `json:"items"`
}
