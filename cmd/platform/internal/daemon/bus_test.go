package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

func TestOneLineOfConfigurationSendsEventsToJetStream(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server is not ready")
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(fake("s", "echo", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	o := settings.Defaults()
	o.Data, o.Manifests = filepath.Join(t.TempDir(), "data"), []string{dir}
	o.Bus, o.NATS.URLs = settings.NATSBus, []string{srv.ClientURL()}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o, slog.New(slog.DiscardHandler), Hooks{}) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	conn, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	wait, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		stream, err := js.Stream(wait, "AURORA")
		if err == nil {
			if msg, err := stream.GetLastMsgForSubject(wait, "aurora.lifecycle.started"); err == nil {
				if msg.Header.Get("Nats-Msg-Id") == "" {
					t.Error("the message has no id")
				}
				inHistory(wait, t, o.Data)
				return
			}
		}
		select {
		case <-wait.Done():
			t.Fatalf("no event came: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestWhatIsNotDeliveredAtTheEndIsAWarningAndNoFailure(t *testing.T) {
	dir := t.TempDir()
	x, err := inbox.Open(inbox.Options{
		Dir: filepath.Join(dir, "inbox"), Journal: journal.Options{Dir: filepath.Join(dir, "journal")}, Hard: inbox.Limit{Files: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if _, err := x.Publish(t.Context(), bus.Item{Envelope: bustest.Event("app", "test.event", n)}); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	p := &Platform{bus: x, log: slog.New(slog.NewTextHandler(&log, nil))}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.closeBus(over); err != nil {
		t.Error(err)
	}
	if said := log.String(); !strings.Contains(said, "level=WARN") || !strings.Contains(said, "the next start delivers the rest") {
		t.Errorf("the log says %q", said)
	}
}

// inHistory waits until the history of the platform on data has the start of s.
func inHistory(ctx context.Context, t *testing.T, data string) {
	t.Helper()
	client, err := control.Dial(data)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for {
		page, err := client.History(ctx, store.Filter{Server: "s", Type: "lifecycle.started"}, store.Page{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Entries) == 1 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the history does not have it")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
