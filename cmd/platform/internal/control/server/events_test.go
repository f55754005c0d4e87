package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/stream"
)

func TestAStreamGoesOnExactlyWhereItStopped(t *testing.T) {
	s := start(t, nil)
	for range 5 {
		s.emit(stream.Event{Type: "t", Inbox: true})
	}
	s.follow("/v1/events?since=0").want("0", "1 t", "2 t", "3 t", "4 t", "5 t")
	s.follow("/v1/events?since=3").want("3", "4 t", "5 t")
	s.follow("/v1/events?since=0", "Last-Event-ID", "4").want("4", "5 t")
	live := s.follow("/v1/events")
	live.want("5")
	s.emit(stream.Event{Type: "t", Inbox: true}, stream.Event{Type: "u", Inbox: true})
	live.want("6 t", "7 u")
}

func TestEventsAreOneLineEachWhateverTheirFormWas(t *testing.T) {
	s := start(t, nil)
	whole := `{"header":{"protocol":"amp/1.0","method":"m","message_id":"1","timestamp":"2026-01-01T00:00:00Z","source":{"app":"s"}},"payload":{"type":"t"}}`
	s.emit(stream.Event{Type: "t", Inbox: true, Envelope: []byte(strings.ReplaceAll(whole, ",", ",\r\n\n\r "))})
	f := s.follow("/v1/events?since=0")
	f.want("0")
	b, err := f.next()
	if err != nil || b.data != whole {
		t.Errorf("got %q %v", b.data, err)
	}
	if err := s.doc.Schema("Envelope", []byte(b.data)); err != nil {
		t.Error(err)
	}
	if got := f.res.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
}

func TestAStreamShowsTheTypesThatWereAskedFor(t *testing.T) {
	s := start(t, nil)
	for i, typ := range []string{"a.x", "a.y", "b", "ab", "b.c"} {
		s.emit(stream.Event{Type: typ, Inbox: i%2 == 0})
	}
	for query, want := range map[string][]string{
		"":                    {"0", "1 a.x", "3 b", "5 b.c"},
		"&all=true":           {"0", "1 a.x", "2 a.y", "3 b", "4 ab", "5 b.c"},
		"&all=true&type=a.*":  {"0", "1 a.x", "2 a.y"},
		"&type=b":             {"0", "3 b"},
		"&all=true&type=*":    {"0", "1 a.x", "2 a.y", "3 b", "4 ab", "5 b.c"},
		"&type=b&type=a.x":    {"0", "1 a.x", "3 b"},
		"&all=false&type=a.*": {"0", "1 a.x"},
		"&all=true&type=b*":   {"0", "3 b", "5 b.c"},
	} {
		f := s.follow("/v1/events?since=0" + query)
		f.want(want...)
		f.end()
	}
}

func TestASilentStreamSaysThatItIsThereAndHowFar(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.alive = 20 * time.Millisecond })
	s.emit(stream.Event{Type: "t", Inbox: true})
	f := s.follow("/v1/events?since=0&type=t")
	f.want("0", "1 t")
	b, err := f.next()
	if err != nil || b.comment != "alive" || b.id != "1" || b.data != "" {
		t.Fatalf("got %+v %v", b, err)
	}
	// What is not shown moves the position on, also while it comes without a pause.
	s.mu.Lock()
	s.mute = true
	s.mu.Unlock()
	busy := make(chan struct{})
	var sync sync.WaitGroup
	sync.Go(func() {
		for {
			select {
			case <-busy:
				return
			case <-time.After(time.Millisecond):
				s.emit(stream.Event{Type: "u", Inbox: true})
			}
		}
	})
	for b.id == "1" && err == nil {
		b, err = f.next()
	}
	close(busy)
	sync.Wait()
	if err != nil || b.comment != "alive" || b.event != "" {
		t.Errorf("got %+v %v", b, err)
	}
	s.emit(stream.Event{Type: "t", Inbox: true})
	again := s.follow("/v1/events?type=t", "Last-Event-ID", b.id)
	again.want(b.id)
	for b.event == "" && err == nil {
		b, err = again.next()
	}
	if err != nil || b.id != fmt.Sprint(s.Position()) {
		t.Errorf("resumed, the stream shows %+v %v, want position %d", b, err, s.Position())
	}
}

func TestPositionsThatAreGoneAreAGap(t *testing.T) {
	s := start(t, nil)
	s.first = 40
	s.emit(stream.Event{Type: "t", Inbox: true})
	f := s.follow("/v1/events?since=7&type=t")
	f.want("7")
	if b, err := f.next(); err != nil || b.event != "stream:gap" || b.id != "39" || b.data != `{"from":8,"to":39}` {
		t.Errorf("got %+v %v", b, err)
	}
	f.want("40 t")
}

func TestAPositionThatIsNoneIsRefused(t *testing.T) {
	s := start(t, nil)
	s.emit(stream.Event{Type: "t", Inbox: true})
	s.refused(416, control.PositionUnknown, "GET", "/v1/events?since=2", "")
	s.refused(416, control.PositionUnknown, "GET", "/v1/events", "", "Last-Event-ID", "18446744073709551615")
	for _, bad := range []string{"-1", "x", "1.0", "18446744073709551616", ""} {
		s.refused(400, control.InvalidRequest, "GET", "/v1/events?since="+bad, "")
	}
	s.refused(400, control.InvalidRequest, "GET", "/v1/events?all=yes", "")
}

func TestAJournalThatCannotBeReadEndsTheStreamWithAProblem(t *testing.T) {
	s := start(t, nil)
	s.broken = errors.New("the disk is gone")
	s.emit(stream.Event{Type: "t", Inbox: true})
	f := s.follow("/v1/events?since=0")
	f.want("0", "1 t")
	b, err := f.next()
	if err != nil || b.event != "stream:error" {
		t.Fatalf("got %+v %v", b, err)
	}
	if err := s.doc.Schema("Problem", []byte(b.data)); err != nil {
		t.Error(err)
	}
	if _, err := f.next(); err == nil {
		t.Error("the stream goes on")
	}
}

func TestASlowReaderHoldsNobodyUpAndIsCutOff(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.stall = 2 * time.Second })
	slow := s.follow("/v1/events?since=0")
	slow.want("0")
	big := fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 64<<10))
	var want []string
	for i := range 100 { // more than the buffers between the two hold
		s.emit(stream.Event{Type: "t", Inbox: true, Envelope: big})
		want = append(want, fmt.Sprintf("%d t", i+1))
	}
	quick := s.follow("/v1/events?since=0")
	quick.want("0")
	quick.want(want...)
	until(t, "the end of the slow stream", func() bool { return s.api.streams.Len() == 1 })
	last := "0"
	for {
		b, err := slow.next()
		if err != nil {
			break
		}
		last = b.id
	}
	if last == "100" {
		t.Fatal("the slow reader got all")
	}
	resumed := s.follow("/v1/events", "Last-Event-ID", last)
	resumed.want(last)
	b, err := resumed.next()
	if err != nil || b.id == last {
		t.Errorf("resumed after %s: %s %v", last, b.id, err)
	}
}

func TestAClientThatLeavesFreesItsStream(t *testing.T) {
	s := start(t, func(l *limits, _ *Options) { l.streams = 2 })
	a, b := s.follow("/v1/events"), s.follow("/v1/servers/s/logs?follow=true")
	if n := s.api.streams.Len(); n != 2 {
		t.Fatalf("%d streams are open", n)
	}
	s.refused(429, "busy", "GET", "/v1/events", "")
	s.refused(429, "busy", "GET", "/v1/servers/s/logs?follow=true", "")
	a.end()
	b.end()
	until(t, "the end of the streams", func() bool { return s.api.streams.Len() == 0 })
	s.follow("/v1/events").want("0")
}

func TestStreamsEndAtOnceWhenThePlatformDoes(t *testing.T) {
	s := start(t, func(_ *limits, o *Options) { o.Grace = time.Hour })
	f, l := s.follow("/v1/events"), s.follow("/v1/servers/s/logs?follow=true&n=1")
	f.want("0")
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if b, err := f.next(); err == nil {
		t.Errorf("the stream goes on with %+v", b)
	}
	if line, err := l.r.ReadString('\n'); line != "three\n" || err != nil {
		t.Errorf("the log has %q %v", line, err)
	}
	if line, err := l.r.ReadString('\n'); err == nil {
		t.Errorf("the log goes on with %q", line)
	}
}

func TestHEADOfAStreamEnds(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/v1/events", "/v1/servers/s/logs?follow=true", "/v1/version"} {
		if res, _ := s.do("HEAD", path, ""); res.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: %s", path, res.Status)
		}
	}
}

func TestALogIsFollowedAndBreaksWhereItCannotBeRead(t *testing.T) {
	s := start(t, nil)
	if _, body := s.do("GET", "/v1/servers/s/logs?n=2", ""); body != "two\nthree\n" {
		t.Errorf("got %q", body)
	}
	if _, body := s.do("GET", "/v1/servers/s/logs?n=0", ""); body != "" {
		t.Errorf("got %q", body)
	}
	s.refused(404, control.ServerNotFound, "GET", "/v1/servers/nobody/logs?follow=true", "")
	for _, bad := range []string{"n=x", "n=-1", "n=10001", "n=", "follow=1"} {
		s.refused(400, control.InvalidRequest, "GET", "/v1/servers/s/logs?"+bad, "")
	}
	f := s.follow("/v1/servers/s/logs?follow=true&n=0") // answered before there is a line
	s.lines <- []string{"four", "five"}
	for _, want := range []string{"four\n", "five\n"} {
		if line, err := f.r.ReadString('\n'); line != want || err != nil {
			t.Errorf("got %q %v", line, err)
		}
	}
	close(s.lines)
	if line, err := f.r.ReadString('\n'); err == nil || err.Error() != "unexpected EOF" {
		t.Errorf("the part passes for the whole: %q %v", line, err)
	}
}
