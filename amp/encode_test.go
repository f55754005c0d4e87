package amp

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// The encoding is written by hand for speed; it must be what encoding/json makes.
func FuzzEncodeIsThatOfEncodingJSON(f *testing.F) {
	f.Add("tool.completed", "s", "今天 <b> & \u2028 \x7f", "app", "1", "", `{"a": [1, 2.5e3, "x\u0000"]}`, uint64(3), int64(1e9), true)
	f.Add("", "", "\xff\"\\\n", "", "", "c", ``, uint64(0), int64(0), false)
	f.Add("t", "", "", "a", "", "", `{"cut":`, uint64(1), int64(1), false)
	f.Fuzz(func(t *testing.T, typ, session, summary, app, instance, correlation, data string, seq uint64, at int64, expires bool) {
		e := Envelope{
			Header: Header{Protocol: Protocol, Method: MethodEvent, MessageID: session, Timestamp: Timestamp{time.Unix(at, at%1e9)},
				Source: Source{app, instance}, Seq: seq, CorrelationID: correlation},
			Payload: Payload{Type: typ, SessionID: session, Summary: summary, Data: json.RawMessage(data)},
		}
		if expires {
			e.Payload.ExpireAt = &Timestamp{time.Unix(at, 0).UTC()}
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		wantErr := enc.Encode(e)
		got, err := e.Encode()
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, encoding/json %v", err, wantErr)
		}
		if err == nil && string(got)+"\n" != want.String() {
			t.Fatalf("encoded\n%s, encoding/json\n%s", got, want.String())
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	data, err := json.Marshal(map[string]any{"text": string(bytes.Repeat([]byte("word "), 200))})
	if err != nil {
		b.Fatal(err)
	}
	e := Envelope{Header: Header{Protocol: Protocol, Method: MethodEvent, MessageID: NewID(), Timestamp: Now(), Source: Source{App: "app"}, Seq: 9},
		Payload: Payload{Type: "message.received", Summary: "a message", Data: data}}
	for b.Loop() {
		if _, err := e.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}
