package tomlnode

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

const sample = `model = "gpt"
n = 1_000
on = true
[servers.a]
command = "npx"
args = ["-y", 'x\y']
env = { K = "v", "odd.key" = "w" }
[servers."b c"]
url = "u"
x.y.z = 2.5
[[list]]
name = "first"
[[list]]
name = "second"
[list.sub]
deep = 1979-05-27
`

func TestTOMLBecomesTheNodesOfTheSameYAML(t *testing.T) {
	root, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := root.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(`
model: gpt
n: 1000
on: true
servers:
  a: {command: npx, args: ["-y", 'x\y'], env: {K: v, odd.key: w}}
  b c: {url: u, x: {y: {z: 2.5}}}
list: [{name: first}, {name: second, sub: {deep: 1979-05-27}}]
`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNodesHaveTheirPositions(t *testing.T) {
	root, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	a := member(member(root, "servers"), "a")
	command := member(a, "command")
	if a.Line != 4 || command.Line != 5 || command.Column != 11 || member(a, "env").Line != 7 {
		t.Errorf("servers.a on line %d, its command at %d:%d, its env on line %d", a.Line, command.Line, command.Column, member(a, "env").Line)
	}
}

func TestATextThatIsNoTOMLIsAnErrorWithItsPlace(t *testing.T) {
	for text, line := range map[string]int{"a = 1\na = 2\n": 2, "a = 1\nb = [\n": 2, "x = \"\n": 1, "[t]\na=1\n[t]\n": 3} {
		_, err := Parse([]byte(text))
		fault, ok := errors.AsType[*Error](err)
		if !ok || fault.Line != line {
			t.Errorf("%q: %#v, want a fault on line %d", text, err, line)
		}
	}
}
