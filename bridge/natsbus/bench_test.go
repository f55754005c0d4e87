package natsbus

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/inbox"
)

// BenchmarkDelivered is how many events of a kilobyte are durable and where a
// Brain reads them, from 1 and 64 producers that wait for each acknowledgement:
// by the file inbox, by this bus, and by JetStream alone without a journal, the
// server syncing each message or, as is its default, every two minutes.
func BenchmarkDelivered(b *testing.B) {
	text := strings.Repeat("x", 800)
	item := func() bus.Item { return bus.Item{Envelope: bustest.Event("app", "test.event", text)} }
	overBus := func(b *testing.B, x bus.Bus) (func() error, func() error) {
		return func() error { _, err := x.Publish(context.Background(), item()); return err }, x.Close
	}
	serve := func(b *testing.B, always bool) *broker {
		server := newBroker(b)
		server.opt.SyncAlways = always
		server.start()
		return server
	}
	for _, way := range []struct {
		name string
		open func(b *testing.B) (publish, finish func() error)
	}{
		{"inbox", func(b *testing.B) (func() error, func() error) {
			dir := b.TempDir()
			x, err := inbox.Open(inbox.Options{Dir: filepath.Join(dir, "inbox"), Journal: journalOptions(dir)})
			if err != nil {
				b.Fatal(err)
			}
			return overBus(b, x)
		}},
		{"natsbus-sync-default", func(b *testing.B) (func() error, func() error) {
			return overBus(b, open(b, serve(b, false).options(b)))
		}},
		{"natsbus-sync-always", func(b *testing.B) (func() error, func() error) {
			return overBus(b, open(b, serve(b, true).options(b)))
		}},
		{"jetstream-sync-default", func(b *testing.B) (func() error, func() error) { return overJetStream(b, serve(b, false), item) }},
		{"jetstream-sync-always", func(b *testing.B) (func() error, func() error) { return overJetStream(b, serve(b, true), item) }},
	} {
		for _, producers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", way.name, producers), func(b *testing.B) {
				publish, finish := way.open(b)
				waits := make([]time.Duration, b.N)
				var n atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for range producers {
					wg.Go(func() {
						for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
							start := time.Now()
							if err := publish(); err != nil {
								b.Error(err)
								return
							}
							waits[i-1] = time.Since(start)
						}
					})
				}
				wg.Wait()
				acknowledged := b.Elapsed()
				if err := finish(); err != nil { // when all is delivered
					b.Error(err)
				}
				b.StopTimer()
				slices.Sort(waits)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "delivered/s")
				b.ReportMetric(float64(b.N)/acknowledged.Seconds(), "acknowledged/s")
				b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}

// overJetStream publishes with the client library alone.
func overJetStream(b *testing.B, server *broker, item func() bus.Item) (publish, finish func() error) {
	js := server.admin()
	if _, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "AURORA", Subjects: []string{"aurora.>"}}); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	return func() error {
		e := item().Envelope
		e.Header.MessageID = fmt.Sprint("id-", n.Add(1))
		body, err := e.Encode()
		if err != nil {
			return err
		}
		_, err = js.PublishMsg(context.Background(), &nats.Msg{Subject: "aurora.test.event", Data: body, Header: nats.Header{jetstream.MsgIDHeader: {e.Header.MessageID}}})
		return err
	}, func() error { return nil }
}
