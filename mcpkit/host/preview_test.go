package host

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

func TestAPreviewSharesTheResultsStorageOnlyWhereThatIsLittleMore(t *testing.T) {
	text := strings.Repeat("fair weather ", 40)
	for _, c := range []struct {
		name   string
		raw    string
		want   string
		shares bool
	}{
		{"one plain part", fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text), text, true},
		{"one part with an escape", fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text+"\n."), text + "\n.", false},
		{"two parts", fmt.Sprintf(`{"content":[{"type":"text","text":%q},{"type":"text","text":"and more"}]}`, text), text + "\nand more", false},
		{"an empty part first", fmt.Sprintf(`{"content":[{"type":"text","text":""},{"type":"text","text":%q}]}`, text), text, true},
		{"a part that is no text first", fmt.Sprintf(`{"content":[{"type":"image","mimeType":"image/png"},{"type":"text","text":%q}]}`, text), "[image image/png]\n" + text, false},
		{"much else", fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"structuredContent":{"n":%q}}`, text, strings.Repeat("x", 4000)), text, false},
		{"more than a preview", fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, strings.Repeat("a", 3000)), strings.Repeat("a", 2000) + "…", false},
		{"structured content alone", `{"content":[],"structuredContent":{"n":1}}`, `{"n":1}`, true},
		{"nothing", `{"content":[]}`, "", false},
	} {
		raw := []byte(c.raw)
		got, _ := read(raw).preview(2000)
		if got != c.want {
			t.Errorf("%s: the preview is %q, want %q", c.name, got, c.want)
		}
		from, at := uintptr(unsafe.Pointer(&raw[0])), uintptr(unsafe.Pointer(unsafe.StringData(got)))
		if shares := got != "" && at >= from && at < from+uintptr(len(raw)); shares != c.shares {
			t.Errorf("%s: it shares the result's storage: %v", c.name, shares)
		}
	}
}
