package natsbus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/natsbus"
)

// A platform's bus, and a Brain that reads what it sends: a durable pull
// consumer with explicit acknowledgement. An event that cannot be handled comes
// again, at most five times.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "natsbus")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	url, stop := serve(dir)
	defer stop()

	b, err := natsbus.Open(context.Background(), natsbus.Options{URLs: []string{url},
		Journal: journal.Options{Dir: dir + "/journal"}})
	if err != nil {
		panic(err)
	}
	for _, text := range []string{"hello", "how are you?"} {
		e := bustest.Event("im.polaris.chat", "message.received", map[string]string{"text": text})
		if _, err := b.Publish(context.Background(), bus.Item{Envelope: e}); err != nil {
			panic(err)
		}
	}
	if _, err := b.Reject(context.Background(), bus.Rejected{Reason: "no type"}); err != nil {
		panic(err)
	}
	if err := b.Close(); err != nil {
		panic(err)
	}

	if err := brain(url, 4); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 hello: not now
	// 2 how are you?
	// 1 hello
}

// brain handles so many messages.
func brain(url string, n int) error {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx := context.Background()
	consumer, err := js.CreateOrUpdateConsumer(ctx, "AURORA", jetstream.ConsumerConfig{
		Durable: "brain", FilterSubject: "aurora.>",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: 5, MaxAckPending: 256,
	})
	if err != nil {
		return err
	}
	for range n {
		m, err := consumer.Next(jetstream.FetchMaxWait(30 * time.Second))
		if errors.Is(err, nats.ErrTimeout) {
			continue // nothing happened
		}
		if err != nil {
			return err
		}
		if strings.HasSuffix(m.Subject(), ".rejected") {
			err = m.DoubleAck(ctx)
		} else if e, parseErr := amp.Parse(m.Data()); parseErr != nil {
			err = m.TermWithReason(parseErr.Error())
		} else if handleErr := handle(e, m); handleErr != nil {
			err = m.NakWithDelay(100 * time.Millisecond)
		} else {
			err = m.DoubleAck(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handle fails the first time for the first event.
func handle(e *amp.Envelope, m jetstream.Msg) error {
	var data struct{ Text string }
	if err := json.Unmarshal(e.Payload.Data, &data); err != nil {
		return err
	}
	if meta, err := m.Metadata(); err == nil && e.Header.Seq == 1 && meta.NumDelivered == 1 {
		fmt.Printf("%d %s: not now\n", e.Header.Seq, data.Text)
		return errors.New("not now")
	}
	fmt.Println(e.Header.Seq, data.Text)
	return nil
}

func serve(dir string) (url string, stop func()) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		panic("the server does not start")
	}
	return s.ClientURL(), func() { s.Shutdown(); s.WaitForShutdown() }
}
