package rpc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

func FuzzRequestsAreOneValidLine(f *testing.F) {
	f.Add("echo", `{"a": 1,`+"\n"+`"b":"\n"}`, `{"k":[1]}`, true, true)
	f.Fuzz(func(t *testing.T, tool, args, meta string, progress, triple bool) {
		if !jsontext.IsObject([]byte(args)) || !jsontext.IsObject([]byte(meta)) {
			return
		}
		m := Request{Method: "tools/call", Params: []byte(`"name":` + Quote(tool) + `,"arguments":` + string(OneLine([]byte(args))))}
		var ok bool
		if m.Meta, ok = Members([]byte(meta), ReservedMeta); !ok {
			t.Fatalf("%q is an object", meta)
		}
		if progress {
			m.OnProgress = func(json.RawMessage) {}
		}
		if triple {
			m.Asker = []byte(`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`)
		}
		b := appendRequest(nil, m, FirstID)
		got, ok := jsonline.Scan(b)
		if !ok || strings.ContainsAny(string(b), "\n\r") || string(got.ID) != "1073741824" {
			t.Fatalf("%q", b)
		}
	})
}

func TestAbandonedRequestsAreRememberedWithinALimit(t *testing.T) {
	var r requests
	var first int64
	for i := range 3 * keptIDs {
		id, err := r.add(&pending{answer: make(chan answer, 1)})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = id
		}
		if !r.abandon(id) || r.abandon(id) {
			t.Fatal("a request can be given up once")
		}
		if i > 0 {
			if _, late := r.take(id); !late {
				t.Fatal("a late answer is not known")
			}
		}
	}
	if _, late := r.take(first); late || len(r.late) != 0 || len(r.order) != keptIDs {
		t.Errorf("%d ids are kept in a ring of %d", len(r.late), len(r.order))
	}
}

func TestIDsStartAgainAfterTheLast(t *testing.T) {
	r := requests{next: lastID}
	var got []int64
	for range 3 {
		id, _ := r.add(&pending{answer: make(chan answer, 1)})
		got = append(got, id)
	}
	if d := cmp.Diff([]int64{lastID, FirstID, FirstID + 1}, got); d != "" {
		t.Error(d)
	}
}
