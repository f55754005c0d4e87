package client

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func FuzzDecodeTool(f *testing.F) {
	for _, s := range []string{`{"name":"echo","inputSchema":{"type":"object"}}`, `{"name":"a","name":7}`, `{"name":"x","inputSchema":null,"outputSchema":null}`,
		`null`, `[]`, `{"title":[],"description":{},"annotations":1,"name":"\u0000"}`, `{"\u006eame":"y"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) { // as everything that passes the scanner
			return
		}
		tool, reason := decodeTool(raw)
		if (tool == nil) == (reason == "") {
			t.Fatalf("%v with %q", tool, reason)
		}
		if tool == nil {
			return
		}
		var want struct {
			InputSchema  json.RawMessage `json:"inputSchema"`
			OutputSchema json.RawMessage `json:"outputSchema"`
		}
		if err := json.Unmarshal(raw, &map[string]json.RawMessage{}); err != nil {
			t.Fatalf("%q is a tool, but %v", raw, err)
		}
		for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema, tool.Annotations} {
			if schema != nil && !json.Valid(schema) {
				t.Fatalf("%q gives %q", raw, schema)
			}
		}
		if strings.Count(string(raw), "nputSchema") == 1 && json.Unmarshal(raw, &want) == nil && tool.InputSchema != nil &&
			want.InputSchema != nil && string(want.InputSchema) != string(tool.InputSchema) {
			t.Fatalf("%q gives %q", raw, tool.InputSchema)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("\x1b[2J\xff\u202e" + strings.Repeat("é", 300)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := printable(b)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q becomes %q", b, got)
		}
	})
}

func FuzzRequestsAreOneValidLine(f *testing.F) {
	f.Add("echo", `{"a": 1,`+"\n"+`"b":"\n"}`, `{"k":[1]}`, true, true)
	f.Fuzz(func(t *testing.T, tool, args, meta string, progress, triple bool) {
		if !jsonline.IsObject([]byte(args)) || !jsonline.IsObject([]byte(meta)) {
			return
		}
		m := message{method: "tools/call", params: []byte(`"name":` + quote(tool) + `,"arguments":` + string(oneLine([]byte(args))))}
		var ok bool
		if m.meta, ok = inner([]byte(meta), ownMeta); !ok {
			t.Fatalf("%q is an object", meta)
		}
		if progress {
			m.onProgress = func(json.RawMessage) {}
		}
		var who []byte
		if triple {
			who = []byte(`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`)
		}
		b := appendRequest(nil, m, firstID, who)
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
	if d := cmp.Diff([]int64{lastID, firstID, firstID + 1}, got); d != "" {
		t.Error(d)
	}
}

func TestTheQueueIsBoundedByNumberAndBytes(t *testing.T) {
	q := newQueue(3, 10)
	big := signal.Signal{Kind: signal.AppEvent, Params: json.RawMessage(`"larger than the limit"`)}
	if !q.put(big) {
		t.Fatal("one large signal alone has its place")
	}
	q.offer(signal.Signal{Kind: signal.Problem, Params: json.RawMessage(`"x"`)})
	if len(q.items) != 1 {
		t.Fatal("a report was queued beyond the limit")
	}
	put := make(chan bool)
	go func() { put <- q.put(signal.Signal{Params: json.RawMessage(`1`)}) }()
	for !q.held(time.Now()) {
		runtime.Gosched()
	}
	if s, ok := q.take(); !ok || s.Kind != signal.AppEvent || !<-put {
		t.Fatal("room for the next was not given")
	}
	q.put(signal.Signal{})
	q.put(signal.Signal{})
	go func() { put <- q.put(signal.Signal{}) }()
	for !q.held(time.Now()) {
		runtime.Gosched()
	}
	q.hurry()
	if <-put || q.dropped() != 1 {
		t.Error("in a hurry nobody waits")
	}
	q.close()
	for range 3 {
		if _, ok := q.take(); !ok {
			t.Fatal("what was in the queue is lost")
		}
	}
	if _, ok := q.take(); ok || q.put(signal.Signal{}) {
		t.Error("a closed queue is not closed")
	}
}

func TestAHeldQueueYieldsOnlyWhileItMustNotBlock(t *testing.T) {
	taken := make(chan bool)
	take := func(q *queue) {
		go func() { _, ok := q.take(); taken <- ok }()
	}
	q := newQueue(1, 10)
	q.holdBack()
	q.put(signal.Signal{})
	take(q)
	if !q.put(signal.Signal{}) || !<-taken {
		t.Error("a full queue does not give in")
	}

	q = newQueue(1, 10)
	q.holdBack()
	q.insist()
	q.put(signal.Signal{})
	put := make(chan bool)
	go func() { put <- q.put(signal.Signal{}) }()
	for !q.held(time.Now()) {
		runtime.Gosched()
	}
	take(q)
	select {
	case <-taken:
		t.Error("taken from a held queue")
	case <-put:
		t.Error("put into a full queue")
	case <-time.After(20 * time.Millisecond):
	}
	q.release()
	if !<-taken || !<-put {
		t.Error("released, yet nothing moves")
	}

	q = newQueue(1, 10)
	q.holdBack()
	q.close()
	if _, ok := q.take(); ok {
		t.Error("an empty queue that is closed holds up its end")
	}
}

func TestReportsComeAtPowersOfTen(t *testing.T) {
	var said []int64
	for n := int64(1); n <= 1000; n++ {
		if powerOfTen(n) {
			said = append(said, n)
		}
	}
	if d := cmp.Diff([]int64{1, 10, 100, 1000}, said); d != "" {
		t.Error(d)
	}
}
