package client_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// newModern is a server of the stateless protocol with resources.
func newModern() *memory {
	m := newMemory()
	m.results["server/discover"] = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true,"listChanged":true}}}`
	m.results["resources/list"] = `{"resultType":"complete","resources":[{"uri":"a:///b","name":"b"}],"ttlMs":3600000,"cacheScope":"private"}`
	m.results["resources/templates/list"] = `{"resultType":"complete","resourceTemplates":[],"ttlMs":1,"cacheScope":"public"}`
	m.results["resources/read"] = `{"resultType":"complete","contents":[{"uri":"a:///b","text":"b"}],"ttlMs":3600000,"cacheScope":"private"}`
	m.lines["subscriptions/listen"] = rpc.Line{Data: []byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":[]}}}`)}
	return m
}

func TestWhatIsFreshByTheServersWordIsNotAskedForAgain(t *testing.T) {
	k, m := newKit(t), newModern()
	s := k.connectMemory(t, m, session.Config{})
	eventually(t, "the first list", func() bool { return m.has(`"method":"resources/list"`) > 0 })
	read := func(anew bool) {
		t.Helper()
		if _, err := s.ListResources(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if res, err := s.ReadResource(deadline(t), "a:///b", features.With{Anew: anew}); err != nil || string(res.Member("contents")) == "" {
			t.Fatal(err)
		}
	}
	asked := func(what string, lists, reads int) {
		t.Helper()
		if l, r := m.has(`"method":"resources/list"`), m.has(`"method":"resources/read"`); l != lists || r != reads {
			t.Errorf("%s: %d lists and %d readings were asked for, want %d and %d", what, l, r, lists, reads)
		}
	}
	eventually(t, "the list to be kept", func() bool { // the session reads it of its own accord, too
		before := m.has(`"method":"resources/list"`)
		read(false)
		return m.has(`"method":"resources/list"`) == before
	})
	lists, reads := m.has(`"method":"resources/list"`), m.has(`"method":"resources/read"`)
	read(false)
	asked("fresh", lists, reads)
	read(true)
	asked("anew", lists, reads+1)

	m.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:///b"}}`)
	k.waitOf(t, signal.Notification, 1)
	read(false)
	asked("after an update", lists, reads+2)

	for range 3 { // a millisecond passes between two of them
		if _, err := s.ListResourceTemplates(deadline(t)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := m.has(`"method":"resources/templates/list"`); n != 3 {
		t.Errorf("what is fresh no longer was asked for %d times of 3", n)
	}
}

func TestNothingIsKeptOfAnOlderServer(t *testing.T) {
	k, m := newKit(t), newModern()
	m.results["server/discover"] = ""
	m.results["initialize"] = `{"protocolVersion":"2025-11-25","capabilities":{"resources":{}},"serverInfo":{"name":"memory","version":"1"}}`
	s := k.connectMemory(t, m, session.Config{})
	for range 3 {
		if _, err := s.ReadResource(deadline(t), "a:///b", features.With{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.has(`"method":"resources/read"`); n != 3 {
		t.Errorf("%d readings of 3 were asked for", n)
	}
}

var listenID = regexp.MustCompile(`"id":(\d+),"method":"subscriptions/listen"`)

// listens are the ids of the listen requests so far.
func (m *memory) listens() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sent {
		if x := listenID.FindStringSubmatch(s); x != nil {
			ids = append(ids, x[1])
		}
	}
	return ids
}

func TestABrokenStreamOfChangesIsOpenedAgainAndSaysThatSomeMayBeMissed(t *testing.T) {
	k, m := newKit(t), newModern()
	k.connectMemory(t, m, session.Config{})
	eventually(t, "the stream", func() bool { return len(m.listens()) == 1 })
	watched := make(chan *client.Watch, 1)
	go func() {
		w, err := k.Watch(deadline(t), "memory", "a:///b", true)
		if err != nil {
			t.Error(err)
		}
		watched <- w
	}()
	eventually(t, "the stream with the resource", func() bool { return m.has(`"resourceSubscriptions":["a:///b"]`) >= 1 })
	m.push(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a:///b"]}}}`)
	w := <-watched
	defer w.Close()
	before := m.listens()
	for len(w.Changed()) > 0 {
		<-w.Changed()
	}
	m.push(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, before[len(before)-1])
	eventually(t, "the stream again", func() bool { return len(m.listens()) > len(before) })
	select {
	case <-w.Changed():
	case <-time.After(testTimeout):
		t.Fatal("nobody said that a change may have been missed")
	}
	eventually(t, "the record of it", func() bool {
		for _, s := range k.of(signal.Notification) {
			var p struct {
				URI  string          `json:"uri"`
				Meta map[string]bool `json:"_meta"`
			}
			if json.Unmarshal(s.Params, &p) == nil && p.URI == "a:///b" && p.Meta["aurora/missed"] && !s.RecordOnly {
				return true
			}
		}
		return false
	})
}

func TestNewsOfAResourceThatNobodyWatchesIsRecordedAndReported(t *testing.T) {
	k, m := newKit(t), newModern()
	k.connectMemory(t, m, session.Config{})
	m.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:///c"}}`)
	if s := k.waitOf(t, signal.Notification, 1)[0]; !s.RecordOnly {
		t.Errorf("it is to be delivered: %+v", s)
	}
	k.waitFault(t, "uninvited_request")
}

func TestALogLevelIsAskedForInTheWayOfTheEra(t *testing.T) {
	k, m := newKit(t), newModern()
	m.results["server/discover"] = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}}}`
	s := k.connectMemory(t, m, session.Config{})
	if err := s.SetLogLevel(deadline(t), "warning"); err != nil {
		t.Fatal(err)
	}
	if _, err := call(k.Manager, deadline(t), "memory", "echo", ""); err != nil {
		t.Fatal(err)
	}
	if m.has("logging/setLevel") != 0 || m.has(`"io.modelcontextprotocol/logLevel":"warning"`) == 0 {
		t.Error("the requests do not say which messages are wanted")
	}
}
