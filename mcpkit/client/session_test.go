package client_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestASessionTellsWhoTheServerIs(t *testing.T) {
	k := newKit(t)
	got := k.connect(t, "echo").Info()
	want := session.Info{Server: "echo", Instance: "1", ProtocolVersion: "2025-11-25", ServerName: "fake echo", ServerVersion: "1.2.3", Tools: 2}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	k.echo(t, "echo", "hello")
}

func TestEverySupportedVersionIsSpoken(t *testing.T) {
	for _, version := range handshake.ProtocolVersions[:4] {
		k := newKit(t)
		s := k.connect(t, "echo", "version="+version)
		if got := s.Info().ProtocolVersion; got != version {
			t.Errorf("negotiated %s, want %s", got, version)
		}
		k.echo(t, "echo", version)
	}
}

func TestAnUnsupportedVersionIsAnErrorThatNamesBoth(t *testing.T) {
	k := newKit(t)
	_, err := k.Connect(deadline(t), k.conn(t, "old-version"))
	if err == nil || !strings.Contains(err.Error(), "1999-01-01") || !strings.Contains(err.Error(), "2026-07-28") {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatTheProbeKillsIsGreetedWithInitializeNextTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eras.json")
	eras, err := handshake.OpenEras(path)
	if err != nil {
		t.Fatal(err)
	}
	k := newKit(t, func(o *client.Options) { o.Eras = eras })
	if _, err := k.Connect(deadline(t), k.conn(t, "discover-crash")); !errors.Is(err, handshake.ErrProbeKilled) {
		t.Fatalf("the first time: %v", err)
	}
	if eras.Get("discover-crash") != "" {
		t.Error("the era is remembered before the server has taken initialize")
	}
	k.connect(t, "discover-crash")
	k.echo(t, "discover-crash", "alive")

	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	again, err := handshake.OpenEras(path)
	if err != nil || again.Get("discover-crash") != handshake.EraInitialize {
		t.Errorf("another process would not know: %v", err)
	}
}

func TestAServerThatIsMuteOnTheProbeIsGreetedAfterAShortWait(t *testing.T) {
	k := newKit(t, func(o *client.Options) { o.ProbeTimeout = 50 * time.Millisecond })
	for i, probed := range []bool{true, false} { // the second session knows the era
		k.connect(t, "discover-mute")
		k.echo(t, "discover-mute", "hi")
		told, err := call(k.Manager, deadline(t), "discover-mute", "kept", "")
		if err != nil || strings.Contains(told, `"server/discover"`) != probed {
			t.Errorf("session %d was told %s, %v", i+1, told, err)
		}
		k.Session("discover-mute").Close(nil)
	}
}

func TestALateAnswerToTheProbeDoesNoHarm(t *testing.T) {
	k := newKit(t, func(o *client.Options) { o.ProbeTimeout = 50 * time.Millisecond })
	s := k.connect(t, "slow-start", "millis=500")
	k.echo(t, "slow-start", "hi")
	if n := s.Problems()["unmatched_response"]; n != 0 {
		t.Errorf("%d answers were taken for strays", n)
	}
}

func TestAMuteServerFailsWithTheCallersDeadline(t *testing.T) {
	k := newKit(t, func(o *client.Options) { o.ProbeTimeout = 20 * time.Millisecond })
	ctx, cancel := contextWithTimeout(200 * time.Millisecond)
	defer cancel()
	if _, err := k.Connect(ctx, k.conn(t, "mute")); err == nil || ctx.Err() == nil || errors.Is(err, handshake.ErrProbeKilled) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatCrashesAtTheStartIsAnErrorEachTime(t *testing.T) {
	k := newKit(t)
	if _, err := k.Connect(deadline(t), k.conn(t, "crash-start")); !errors.Is(err, handshake.ErrProbeKilled) {
		t.Errorf("the first time the probe may be to blame: %v", err)
	}
	_, err := k.Connect(deadline(t), k.conn(t, "crash-start"))
	if err == nil || errors.Is(err, handshake.ErrProbeKilled) {
		t.Errorf("the second time it is not: %v", err)
	}
}

func TestASecondSessionWithTheSameServerIsRefused(t *testing.T) {
	k := newKit(t)
	k.connect(t, "echo")
	if _, err := k.Connect(deadline(t), k.conn(t, "echo")); err == nil {
		t.Error("two sessions with one server")
	}
	k.echo(t, "echo", "the first lives")
}

func TestTheEndOfAServerEndsItsSessionAndItsTools(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "exit-after")
	changed, stop := k.Subscribe()
	defer stop()
	k.echo(t, "exit-after", "last words") // the answer is delivered though the process is gone
	<-s.Done()
	if !errors.Is(s.Err(), io.EOF) {
		t.Errorf("the session ended with %v", s.Err())
	}
	<-changed
	if n := len(k.Tools().Tools); n != 0 {
		t.Errorf("%d tools are left", n)
	}
	_, err := call(k.Manager, deadline(t), "exit-after", "echo", "x")
	if f := faultOf(t, err); f.Code != fault.ServerNotReady || !f.Retryable {
		t.Errorf("a call of a server that is gone: %v", f)
	}
}

func TestClosingFailsCallsWithTheCauseAndTellsTheServer(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "hang-call")
	errs := make(chan error, 1)
	go func() {
		_, err := call(k.Manager, t.Context(), "hang-call", "echo", "x")
		errs <- err
	}()
	eventually(t, "the call in flight", func() bool { return s.Info().InFlight == 1 })
	s.Close(fault.New(fault.ServerRestarted, "a person restarted it"))
	if f := faultOf(t, <-errs); f.Code != fault.ServerRestarted || f.Outcome != fault.OutcomeUnknown {
		t.Errorf("the call failed with %v, outcome %q", f, f.Outcome)
	}
	<-s.Done() // the server saw the end of its stdin and went
	if k.Session("hang-call") != nil {
		t.Error("a closed session is still offered")
	}
	s.Close(nil) // again does no harm
}

func TestAHungServerIsNoticedBySilence(t *testing.T) {
	k := newKit(t)
	s := k.connectWith(t, session.Config{PingInterval: 50 * time.Millisecond, PingTimeout: 100 * time.Millisecond}, "frozen")
	<-s.Done()
	if !errors.Is(s.Err(), session.ErrHung) {
		t.Errorf("it ended with %v", s.Err())
	}
}

func TestWhereThereIsNoPingDiscoverIsTheSignOfLife(t *testing.T) {
	quick := session.Config{PingInterval: 20 * time.Millisecond, PingTimeout: testTimeout}
	k := newKit(t)
	s := k.connectWith(t, quick, "modern")
	eventually(t, "three signs of life", func() bool {
		text, err := call(k.Manager, t.Context(), "modern", "kept", "")
		time.Sleep(30 * time.Millisecond) // silence is what is tested
		return err == nil && strings.Count(text, `"server/discover"`) > 3
	})
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

func TestAServerThatWorksOnACallIsNotHung(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.connectWith(t, session.Config{PingInterval: 30 * time.Millisecond, PingTimeout: 50 * time.Millisecond}, "busy")
	res, err := k.Call(deadline(t), features.CallRequest{Server: "busy", Tool: "echo", Arguments: []byte(`{"message":"done","millis":700}`)})
	if err != nil || textOf(res) != "done" {
		t.Errorf("got %v, %v", res, err)
	}
}

func TestAServerThatStopsReadingHangsNobodyForLong(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.connectWith(t, session.Config{WriteTimeout: time.Second}, "deaf")
	k.echo(t, "deaf", "still here")
	large := []byte(`{"message":"` + strings.Repeat("x", 512<<10) + `"}`)
	_, err := k.Call(t.Context(), features.CallRequest{Server: "deaf", Tool: "echo", Arguments: large, Timeout: 100 * time.Millisecond})
	if f := faultOf(t, err); f.Code != fault.Timeout || f.Outcome != fault.OutcomeUnknown {
		t.Errorf("the caller waits as long as it said: %v, outcome %q", f, f.Outcome)
	}
	<-s.Done()
	if !errors.Is(s.Err(), session.ErrHung) {
		t.Errorf("the session ended with %v", s.Err())
	}
}

func TestAServerThatClosesItsStdinIsGivenUp(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.connect(t, "close-stdin")
	eventually(t, "the write that fails", func() bool {
		ctx, cancel := contextWithTimeout(100 * time.Millisecond)
		defer cancel()
		_, err := call(k.Manager, ctx, "close-stdin", "echo", "x")
		return err != nil && faultOf(t, err).Code != fault.Timeout
	})
	<-s.Done()
	if s.Err() == nil || errors.Is(s.Err(), session.ErrHung) {
		t.Errorf("it ended with %v", s.Err())
	}
}

func TestAGrandchildThatHoldsStdoutDoesNotHoldTheClose(t *testing.T) {
	k := newKit(t)
	c := k.conn(t, "grandchild")
	s, err := k.Connect(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	s.Close(nil)
	c.Stdout.Close() // as whoever owns the process does once it is gone
	<-s.Done()
}

// discard is the standard input of a server that reads nothing.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

func TestAServerThatWritesNoMessagesIsNotOpenedAndTheErrorSaysWhatItWrote(t *testing.T) {
	for text, want := range map[string]string{
		"Content-Length: 10\r\n\r\n{}":           "Content-Length: 10 (messages are one line each, without headers)",
		"{\n  \"jsonrpc\": \"2.0\"\n}\n":         "{ (a message must be on one line)",
		"{\x00\"\x00j\x00\n":                     "(the encoding must be UTF-8)",
		"Listening on port 3000\n\x1b[2Jready\n": "the first: Listening on port 3000",
	} {
		k := newKit(t)
		stdout, server := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			io.WriteString(server, text)
			io.WriteString(server, "\n") // read only after what came before was looked at
			cancel()
		}()
		_, err := k.Connect(ctx, session.Conn{Server: "s", Instance: "1", Stdin: discard{io.Discard}, Stdout: stdout})
		says, ok := errors.AsType[interface {
			error
			Evidence() string
		}](err)
		if !ok || !strings.Contains(says.Evidence(), want) {
			t.Errorf("%q: %v", text, err)
		}
		server.Close()
	}
}
