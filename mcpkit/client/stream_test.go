package client_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestABannerIsSkippedAndLoggedOnceWithTheServersName(t *testing.T) {
	k := newKit(t)
	k.connect(t, "banner")
	k.echo(t, "banner", "hello")
	f := k.waitFault(t, "stdout_junk")
	if f.Sample != "=== Welcome, this is a server ===" || f.Count != 1 {
		t.Errorf("reported %+v", f)
	}
	if k.log.count("code=stdout_junk") != 1 || k.log.count("server=banner") == 0 || k.log.count("Welcome") != 1 {
		t.Error("it is not logged once, as a warning with the name")
	}
	if n := k.Session("banner").Problems()["stdout_junk"]; n != 3 { // the empty line is none
		t.Errorf("%d lines were counted", n)
	}
}

func TestNoiseIsCountedButNotRepeated(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "noise")
	for i := range 60 {
		k.echo(t, "noise", fmt.Sprint(i))
	}
	if n := s.Problems()["stdout_junk"]; n < 120 {
		t.Errorf("%d lines were counted", n)
	}
	if n := k.log.count("code=stdout_junk"); n != 3 { // the 1st, 10th, 100th
		t.Errorf("%d warnings", n)
	}
	if f := k.fault("stdout_junk"); f.Count != 100 {
		t.Errorf("the last report is %+v", f)
	}
}

func TestSamplesAreSafeToPrint(t *testing.T) {
	k := newKit(t)
	k.connect(t, "banner")
	if k.log.count("\x1b") != 0 {
		t.Error("an escape sequence reached the log")
	}
}

func TestAHugeAnswerFailsItsCallAloneAndTheMemoryComesBack(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "huge")
	before := heapInUse()
	_, err := call(k.Manager, deadline(t), "huge", "echo", "large")
	f := faultOf(t, err)
	if f.Code != fault.ResultTooLarge || !strings.Contains(f.Message, "16777216") {
		t.Errorf("got %v", f)
	}
	k.echo(t, "huge", "small")
	k.waitFault(t, "line_too_long")
	if s.Err() != nil {
		t.Error(s.Err())
	}
	if grown := int64(heapInUse()) - int64(before); grown > 4<<20 {
		t.Errorf("%d bytes did not come back", grown)
	}
}

func TestAHugeAnswerWithinTheLimitIsDelivered(t *testing.T) {
	k := newKit(t)
	k.connectWith(t, session.Config{MaxLine: 64 << 20}, "huge", "bytes=20000000")
	got, err := call(k.Manager, deadline(t), "huge", "echo", "large")
	if err != nil || len(got) != 20_000_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestBadBytesArriveAsReplacementCharacters(t *testing.T) {
	k := newKit(t)
	k.connect(t, "invalid-utf8")
	res, err := k.Call(deadline(t), features.CallRequest{Server: "invalid-utf8", Tool: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(res.Raw) || !strings.Contains(string(res.Raw), `"ok `+"\uFFFD \uFFFD"+` \ufffd end"`) {
		t.Errorf("got %s", res.Raw)
	}
}

func TestLinesMayComeInPieces(t *testing.T) {
	k := newKit(t)
	k.connect(t, "fragments")
	if got, err := call(k.Manager, deadline(t), "fragments", "echo", "c"); err != nil || got != "a\u2028bc" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnAnswerThatIsNoJSONFailsItsCallAtOnce(t *testing.T) {
	k := newKit(t)
	k.connect(t, "broken-json")
	_, err := call(k.Manager, deadline(t), "broken-json", "echo", "x")
	if f := faultOf(t, err); f.Code != fault.Protocol || f.Outcome != fault.OutcomeUnknown {
		t.Errorf("got %v", f)
	}
}

func TestAnIdleSessionIsSmall(t *testing.T) {
	const sessions = 10
	k := newKit(t)
	before := heapInUse()
	for i := range sessions {
		c := k.conn(t, "echo")
		c.Server = fmt.Sprint("echo-", i)
		if _, err := k.Connect(deadline(t), c); err != nil {
			t.Fatal(err)
		}
		k.echo(t, c.Server, strings.Repeat("x", 300<<10)) // large buffers are given back
	}
	if each := (int64(heapInUse()) - int64(before)) / sessions; each > 200<<10 {
		t.Errorf("%d bytes each", each)
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	for range 3 { // pools empty in two rounds
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
