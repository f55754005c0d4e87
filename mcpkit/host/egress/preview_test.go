package egress

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

func TestAPreviewIsTheTextOfAllParts(t *testing.T) {
	text := strings.Repeat("fair weather ", 40)
	for _, c := range []struct {
		name string
		raw  string
		want string
	}{
		{"one plain part", fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text), text},
		{"one part with an escape", fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text+"\n."), text + "\n."},
		{"two parts", fmt.Sprintf(`{"content":[{"type":"text","text":%q},{"type":"text","text":"and more"}]}`, text), text + "\nand more"},
		{"an empty part first", fmt.Sprintf(`{"content":[{"type":"text","text":""},{"type":"text","text":%q}]}`, text), text},
		{"a part that is no text first", fmt.Sprintf(`{"content":[{"type":"image","mimeType":"image/png"},{"type":"text","text":%q}]}`, text), "[image image/png]\n" + text},
		{"much else", fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"structuredContent":{"n":%q}}`, text, strings.Repeat("x", 4000)), text},
		{"more than a preview", fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, strings.Repeat("a", 3000)), strings.Repeat("a", 2000) + "…"},
		{"structured content alone", `{"content":[],"structuredContent":{"n":1}}`, `{"n":1}`},
		{"nothing", `{"content":[]}`, ""},
	} {
		got, _ := Preview(toolcall.Read([]byte(c.raw)), 2000)
		if got != c.want {
			t.Errorf("%s: the preview is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAPreviewNamesWhatIsNoText(t *testing.T) {
	for raw, want := range map[string]string{
		`{"content":[{"type":"text","text":"one"},{"text":"two\n","type":"text"},{"type":"image","data":"x","mimeType":"image/png"}]}`: "one\ntwo\n\n[image image/png]",
		`{"content":[{"type":"resource_link","uri":"file:///x","mimeType":"text/plain"}]}`:                                             "[resource_link file:///x]",
		`{"content":[],"structuredContent":{"a":1}}`:                                                                                   `{"a":1}`,
		`{"structuredContent":null}`:                                          "",
		`{"content":"no list"}`:                                               "",
		`{"content":[{"type":"text","text":7}]}`:                              "",
		`{ "cont\u0065nt" : [ {"type" : "text" , "text" : "say \"}]\"" } ] }`: `say "}]"`,
	} {
		if got, _ := Preview(toolcall.Read([]byte(raw)), 2000); got != want {
			t.Errorf("%s is shown as %q, want %q", raw, got, want)
		}
	}
	long := `{"content":[{"type":"text","text":"` + strings.Repeat("é", 3000) + `"}]}`
	if got, _ := Preview(toolcall.Read([]byte(long)), 2001); got != strings.Repeat("é", 1000)+"…" {
		t.Errorf("a long one has %d bytes", len(got))
	}
}

func FuzzPreview(f *testing.F) {
	for _, raw := range []string{`{"content":[{"type":"text","text":"a\"b"}],"structuredContent":{"a":"\\"}}`, `{"content":[{},[1]]}`, `{"structuredContent":["x`, `[{}]`, `{"a"`, `"`, `{"":{`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if text, _ := Preview(toolcall.Read(raw), 100); len(text) > 100+len("…") || !utf8.ValidString(text) {
			t.Errorf("%q is shown as %q", raw, text)
		}
	})
}
