package amp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/hashicorp/go-multierror"
)

// faults lists what an error of this package says, one "path: reason" each.
func faults(t *testing.T, err error) (list []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	var all *multierror.Error
	if !errors.As(err, &all) {
		t.Fatalf("error is a %T, not a multierror: %v", err, err)
	}
	for _, e := range all.Errors {
		var f *Fault
		if !errors.As(e, &f) {
			t.Fatalf("%v is a %T, not a Fault", e, e)
		}
		list = append(list, f.Error())
	}
	return list
}

const good = `{"header":{"protocol":"amp/1.0","method":"mcp.lifecycle","message_id":"x1","timestamp":"2026-06-17T14:30:00+08:00","source":{"app":"a"}},"payload":{"type":"t.u"}}`

func TestParseNamesEveryFaultWithItsPath(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      []string
	}{
		{"good", good, nil},
		{"meta is allowed", strings.Replace(good, `{"header"`, `{"_meta":{"a":1},"header"`, 1), nil},
		{"null optional fields are absent", strings.Replace(good, `"t.u"`, `"t.u","summary":null,"expire_at":null,"data":null`, 1), nil},
		{"empty", ``, []string{"want an object, got nothing"}},
		{"null", `null`, []string{"want an object, got null"}},
		{"array", `[1]`, []string{"want an object, got an array"}},
		{"cut off", `{"header":{`, []string{"is not JSON: unexpected EOF"}},
		{"more after it", good + `{}`, []string{"is not JSON: text after the object"}},
		{"bad bytes", "{\"header\":\"\xff\"}", []string{"is not valid UTF-8"}},
		{"nothing there", `{}`, []string{"header: is missing", "payload: is missing"}},
		{"wrong kinds", `{"header":7,"payload":"x"}`, []string{"header: want an object, got a number", "payload: want an object, got a string"}},
		{"everything missing", `{"header":{},"payload":{}}`, []string{"header.protocol: is missing", "header.method: is missing",
			"header.message_id: is missing", "header.timestamp: is missing", "header.source: is missing", "payload.type: is missing"}},
		{"everything wrong", `{"header":{"protocol":"amp/2.0","method":"","message_id":5,"timestamp":"2026-06-17T14:30:00","source":{"app":null,"instance":1,"x":0},"seq":-1,"correlation_id":[],"extra":1},
			"payload":{"type":"a..b","session_id":{},"summary":false,"expire_at":"tomorrow","Type":"x"},"more":1}`, []string{
			`header.protocol: want "amp/1.0", got "amp/2.0"`, "header.method: is empty", "header.message_id: want a string, got a number",
			`header.timestamp: "2026-06-17T14:30:00" is not an RFC 3339 time with an offset`, "header.source.app: is null",
			"header.source.instance: want a string, got a number", "header.source.x: is not a known field",
			"header.seq: want a whole number from 0, got a number", "header.correlation_id: want a string, got an array", "header.extra: is not a known field",
			`payload.type: "a..b" is not words of letters, digits, - and _ joined by dots`, "payload.session_id: want a string, got an object",
			"payload.summary: want a string, got a boolean", `payload.expire_at: "tomorrow" is not an RFC 3339 time with an offset`,
			"payload.Type: is not a known field", "more: is not a known field"}},
		{"a key twice", strings.Replace(good, `"type":"t.u"`, `"type":"t.u","type":"t.v"`, 1), []string{"payload.type: is given twice"}},
		{"a hostile key", `{"header":{},"a\nb":1}`, append([]string{"payload: is missing"}, `"a\nb": is not a known field`)},
		{"too long", strings.Replace(good, "t.u", strings.Repeat("t", 141), 1), []string{"payload.type: has 141 bytes, more than 140"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := Parse([]byte(tc.raw))
			got := faults(t, err)
			if tc.name == "a hostile key" { // the header's own faults are checked above
				got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "header.") })
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if (e == nil) != (err != nil) {
				t.Errorf("envelope %v with error %v", e, err)
			}
		})
	}
}

func TestEachFieldOfABareEventIsTakenOrRefusedWithAReason(t *testing.T) {
	for _, tc := range []struct {
		field, value string // value "" removes the field
		want         []string
	}{
		{"type", ``, []string{"type: is missing"}},
		{"type", `null`, []string{"type: is null"}},
		{"type", `""`, []string{"type: is empty"}},
		{"type", `42`, []string{"type: want a string, got a number"}},
		{"type", `[]`, []string{"type: want a string, got an array"}},
		{"type", `{"x":1}`, []string{"type: want a string, got an object"}},
		{"type", `"../../etc"`, []string{`type: "../../etc" is not words of letters, digits, - and _ joined by dots`}},
		{"message_id", ``, nil},
		{"message_id", `null`, nil},
		{"message_id", `""`, nil},
		{"message_id", `42`, []string{"message_id: want a string, got a number"}},
		{"idempotency_key", `[]`, []string{"idempotency_key: want a string, got an array"}},
		{"session_id", `null`, nil},
		{"session_id", `{"x":1}`, []string{"session_id: want a string, got an object"}},
		{"summary", `null`, nil},
		{"summary", `true`, []string{"summary: want a string, got a boolean"}},
		{"data", `null`, nil},
		{"data", `"text"`, nil},
		{"expire_at", `null`, nil},
		{"expire_at", `""`, nil},
		{"expire_at", `42`, []string{"expire_at: want an RFC 3339 time as a string, got a number"}},
		{"expire_at", `"2026-06-17"`, []string{`expire_at: "2026-06-17" is not an RFC 3339 time with an offset`}},
		{"expire_at", `"2026-06-17T14:35:00"`, []string{`expire_at: "2026-06-17T14:35:00" is not an RFC 3339 time with an offset`}},
		{"expire_at", `"2026-06-17T14:35:00Z"`, nil},
		{"source", `{}`, []string{"source: is not a known field"}},
		{"_meta", `{"progressToken":1}`, nil},
	} {
		t.Run(tc.field+"="+tc.value, func(t *testing.T) {
			event := map[string]json.RawMessage{"type": []byte(`"t"`), "message_id": []byte(`"m"`), "session_id": []byte(`"s"`),
				"summary": []byte(`"x"`), "data": []byte(`{}`)}
			if event[tc.field] = json.RawMessage(tc.value); tc.value == "" {
				delete(event, tc.field)
			}
			raw, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			e, err := ParseEvent(raw)
			if diff := cmp.Diff(tc.want, faults(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if err == nil && e.Type != "t" {
				t.Errorf("type is %q", e.Type)
			}
		})
	}
	for _, raw := range []string{``, `null`, `[1]`, `"text"`, `{`, `{"type":`} {
		if e, err := ParseEvent([]byte(raw)); err == nil {
			t.Errorf("ParseEvent(%q) = %+v", raw, e)
		}
	}
}

func TestAnEventMayComeAsAFullEnvelopeAndIsThenHeldToItsRules(t *testing.T) {
	e, err := ParseEvent([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if e.ID() != "x1" || e.Type != "t.u" {
		t.Errorf("got %+v", e)
	}
	_, err = ParseEvent([]byte(`{"payload":{"type":"t"}}`))
	if diff := cmp.Diff([]string{"header: is missing"}, faults(t, err)); diff != "" {
		t.Error(diff)
	}
}

func TestBytesThatAreNotUTF8AreReplacedInEvents(t *testing.T) {
	e, err := ParseEvent([]byte("{\"type\":\"t\",\"summary\":\"a\xffb\",\"data\":\"\xfe\",\"idempotency_key\":\"k\"}"))
	if err != nil {
		t.Fatal(err)
	}
	if e.Summary != "a\uFFFDb" || string(e.Data) != "\"\uFFFD\"" || e.ID() != "k" {
		t.Errorf("got %+v", e)
	}
}

func TestValidateHoldsEnvelopesMadeInGoToTheSameRules(t *testing.T) {
	e, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil {
		t.Errorf("a parsed envelope does not validate: %v", err)
	}
	bad := &Envelope{Payload: Payload{Type: "a b", Data: json.RawMessage("{"), ExpireAt: &Timestamp{}}}
	want := []string{`header.protocol: want "amp/1.0", got ""`, "header.method: is empty", "header.message_id: is empty",
		"header.source.app: is empty", `payload.type: "a b" is not words of letters, digits, - and _ joined by dots`,
		"header.timestamp: is missing", "payload.expire_at: is not a time", "payload.data: is not JSON"}
	if diff := cmp.Diff(want, faults(t, bad.Validate())); diff != "" {
		t.Error(diff)
	}
}

func TestATimestampKeepsItsOffsetAndRefusesOneWithout(t *testing.T) {
	var ts Timestamp
	for _, s := range []string{`"2026-06-17T14:30:00+08:00"`, `"2026-06-17T06:30:00.125Z"`} {
		if err := json.Unmarshal([]byte(s), &ts); err != nil {
			t.Fatal(err)
		}
		if out, err := json.Marshal(ts); err != nil || string(out) != s {
			t.Errorf("%s became %s, %v", s, out, err)
		}
	}
	for _, s := range []string{`null`, `1718605800`, `"2026-06-17T14:30:00"`, `"2026-06-17 14:30:00Z"`, `"2026-06-17T4:30:00Z"`, `"2026-06-17T14:30:00,5Z"`, `""`} {
		if err := json.Unmarshal([]byte(s), &ts); err == nil {
			t.Errorf("%s was accepted as %v", s, ts)
		}
	}
	if out, err := json.Marshal(Timestamp{}); err == nil {
		t.Errorf("an unset timestamp became %s", out)
	}
}

func TestNewIDsRiseStrictlyAcrossGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	all := make([][]string, 8)
	for i := range all {
		wg.Go(func() {
			for range 5000 {
				all[i] = append(all[i], NewID())
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, list := range all {
		if !slices.IsSorted(list) {
			t.Error("ids of one goroutine do not rise")
		}
		for _, id := range list {
			if seen[id] || CanonicalID(id) != id {
				t.Fatalf("id %s is a duplicate or not canonical", id)
			}
			seen[id] = true
		}
	}
}

func TestIDsLieAboveThoseOfAnEarlierProcessWhoseClockWasAhead(t *testing.T) {
	var earlier, later IDs
	ahead := time.Now().Add(time.Hour)
	earlier.After(ahead)
	last := earlier.New()
	later.After(ahead.Add(time.Millisecond))
	if id := later.New(); id <= last {
		t.Errorf("%s is not above %s", id, last)
	}
}

func TestAnAppsIDIsKeptWhenItIsAULIDOrUUIDAndMintedOtherwise(t *testing.T) {
	for _, tc := range []struct{ id, want string }{
		{"01JXYK2Q6B0000000000000001", "01JXYK2Q6B0000000000000001"},
		{"01jxyk2q6b0000000000000001", "01JXYK2Q6B0000000000000001"},
		{"018F2F4C-7B2A-7B8A-9C31-2E9A0B9B2D11", "018f2f4c-7b2a-7b8a-9c31-2e9a0b9b2d11"},
	} {
		if got := MintID("a", tc.id); got != tc.want {
			t.Errorf("MintID(%q) = %q, want %q", tc.id, got, tc.want)
		}
	}
	minted := MintID("a", "msg-001")
	if u, err := uuid.Parse(minted); err != nil || u.Version() != 5 {
		t.Errorf("MintID(msg-001) = %q: %v", minted, err)
	}
	if MintID("a", "msg-001") != minted || MintID("b", "msg-001") == minted || MintID("a", "msg-002") == minted {
		t.Error("a minted id must depend on server and id, and on nothing else")
	}
	if MintID("a", "bc") == MintID("ab", "c") {
		t.Error("server and id run into each other")
	}
	for _, odd := range []string{"urn:uuid:018f2f4c-7b2a-7b8a-9c31-2e9a0b9b2d11", "{018f2f4c-7b2a-7b8a-9c31-2e9a0b9b2d11}", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ"} {
		if u, err := uuid.Parse(MintID("a", odd)); err != nil || u.Version() != 5 {
			t.Errorf("MintID(%q) was not minted: %v", odd, u)
		}
	}
	if first, second := MintID("a", ""), MintID("a", ""); first == second {
		t.Error("two events without an id got the same one")
	}
}

func TestFileNamesAreOneSafePathElementOfAtMost255Bytes(t *testing.T) {
	for _, tc := range []struct{ typ, id, want string }{
		{"timer.triggered", "01JXYK2Q6B0000000000000001", "event_timer.triggered_01JXYK2Q6B0000000000000001.json"},
		{"Timer.Triggered", "01jxyk2q6b0000000000000001", "event_timer.triggered_01JXYK2Q6B0000000000000001.json"},
		{"a_b", "msg-1", "event_a_b_msg-1.json"},
	} {
		if got := FileName(tc.typ, tc.id); got != tc.want {
			t.Errorf("FileName(%q, %q) = %q, want %q", tc.typ, tc.id, got, tc.want)
		}
	}
	hostile := []string{"", ".", "..", "../../etc/passwd", "a/b", "a\x00b", "a_b", "Ä", "a\nb", "MSG", "msg", "a b", strings.Repeat("x", 140), strings.Repeat("y", 141), strings.Repeat("z", 5000), "con.json"}
	names := map[string][2]string{}
	for _, typ := range hostile {
		for _, id := range hostile {
			name := FileName(typ, id)
			checkName(t, typ, id, name)
			folded := strings.ToLower(name)
			if other, taken := names[folded]; taken && other != [2]string{typ, id} && CanonicalID(other[1]) != CanonicalID(id) {
				t.Errorf("%q and %q share a file on a case-insensitive file system", other, [2]string{typ, id})
			}
			names[folded] = [2]string{typ, id}
		}
	}
}

func checkName(t *testing.T, typ, id, name string) {
	t.Helper()
	if len(name) > 255 || strings.ContainsAny(name, "/\x00\n") || filepath.Base(name) != name || !strings.HasPrefix(name, "event_") {
		t.Errorf("FileName(%q, %q) = %q", typ, id, name)
	}
	_, gotID, ok := ParseFileName(name)
	if !ok || gotID != CanonicalID(id) {
		t.Errorf("ParseFileName(%q) = id %q, %v; want %q", name, gotID, ok, CanonicalID(id))
	}
	if CanonicalID(gotID) != gotID || strings.Contains(gotID, "_") {
		t.Errorf("id %q is not canonical", gotID)
	}
}

func TestNamesThatAreNotOfTheQueueAreNotParsed(t *testing.T) {
	for _, name := range []string{"", "event_.json", "event__.json", "event_a_.json", "event_a.json", "x_a_b.json", "event_a_b.json.tmp",
		".event_a_b.json", "event_a_../b.json", "event_../a_b.json", "event_A_b.json", "event_a_B.json", "event_" + strings.Repeat("a", 300) + "_b.json"} {
		if typ, id, ok := ParseFileName(name); ok {
			t.Errorf("ParseFileName(%q) = %q, %q", name, typ, id)
		}
	}
}

func TestPlatformTypesAreReserved(t *testing.T) {
	for _, typ := range []string{"lifecycle.started", "tool.completed", "permission.requested", "mcp.error", "capability.changed", "resource.observed", "tool", "Tool.x", "MCP.error"} {
		if !Reserved(typ) {
			t.Errorf("%q is not reserved", typ)
		}
	}
	for _, typ := range []string{"message.received", "tools.x", "toolbox", "my.tool.x", "alarm.triggered", ""} {
		if Reserved(typ) {
			t.Errorf("%q is reserved", typ)
		}
	}
}

func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := Parse(raw)
		if err != nil {
			return
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("parsed but not valid: %v", err)
		}
		out, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("%s does not parse again: %v", out, err)
		}
		if again.Header.MessageID != e.Header.MessageID || again.Payload.Type != e.Payload.Type || !again.Header.Timestamp.Equal(e.Header.Timestamp.Time) {
			t.Fatalf("changed: %+v, %+v", e, again)
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	seed(f)
	f.Add([]byte(`{"type":"t","expire_at":"2026-06-17T14:35:00Z","data":[1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := ParseEvent(raw)
		if err == nil && !ValidType(e.Type) {
			t.Fatalf("accepted type %q", e.Type)
		}
		if err == nil {
			id := MintID("server", e.ID())
			checkName(t, e.Type, id, FileName(e.Type, id))
		}
	})
}

func FuzzFileName(f *testing.F) {
	f.Add("timer.triggered", "msg_1")
	f.Add("../x", strings.Repeat("A", 300))
	f.Fuzz(func(t *testing.T, typ, id string) { checkName(t, typ, id, FileName(typ, id)) })
}

func seed(f *testing.F) {
	f.Add([]byte(good))
	files, err := filepath.Glob("testdata/envelopes/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

func ExampleParseEvent() {
	_, err := ParseEvent([]byte(`{"type":7,"sumary":"x"}`))
	for _, fault := range err.(*multierror.Error).Errors {
		fmt.Println(fault)
	}
	// Output:
	// type: want a string, got a number
	// sumary: is not a known field
}

func BenchmarkNewID(b *testing.B) {
	for b.Loop() {
		NewID()
	}
}
