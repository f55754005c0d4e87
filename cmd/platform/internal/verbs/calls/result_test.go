package calls

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

func TestAResultIsShownByItsExactNamesAndWithWhatItEmbeds(t *testing.T) {
	for raw, want := range map[string]string{
		`{"content":[{"type":"text","text":"one\ntwo"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}`:   "one\ntwo\n[image image/png, 3 B]\n",
		`{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"inside"}}]}`:                        "[resource file:///a]\ninside\n",
		`{"content":[{"type":"resource_link","uri":"file:///a"}]}`:                                                "[resource_link file:///a]\n",
		`{"content":[{"type":"text","text":"seen","Text":"unseen"}],"Content":[{"type":"text","text":"unseen"}]}`: "seen\n",
		`{"structuredContent":{"n":9007199254740993}}`:                                                            "{\"n\":9007199254740993}\n",
		`{"content":[{"type":"text","text":"2 found"}],"structuredContent":{"n":2}}`:                              "2 found\n{\"n\":2}\n",
		`{"content":[{"type":"text","text":"{\"n\": 2}"}],"structuredContent":{"n":2}}`:                           "{\"n\": 2}\n",
		`{"content":[{"type":"text","text":"It is done."}],"structuredContent":{"ok":true,"data":{"n":2}}}`:       "It is done.\n",
		`{"content":[],"structuredContent":{"ok":true,"data":{"n":2}}}`:                                           "{\"ok\":true,\"data\":{\"n\":2}}\n",
		`{"content":[{"type":"text","text":"two"}],"structuredContent":{"result":"two"}}`:                         "two\n",
		`{"content":[{"type":"text","text":"\u001b[2Jclear"}]}`:                                                   console.Safe("\x1b[2Jclear") + "\n",
	} {
		var out bytes.Buffer
		showResult(cli.New(nil, &out, nil), json.RawMessage(raw))
		if out.String() != want {
			t.Errorf("%s\nis shown as %q\nwant        %q", raw, out.String(), want)
		}
	}
}
