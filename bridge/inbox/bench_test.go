package inbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// body is a payload's data of about a kilobyte.
var body = map[string]any{"text": string(slices.Repeat([]byte("word "), 200))}

// timed runs total operations by a number of producers and returns how long
// each took, sorted, and all of them.
func timed(producers, total int, op func(producer int) error) (latencies []time.Duration, all time.Duration, err error) {
	latencies = make([]time.Duration, total)
	errs := make([]error, producers)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for p := range producers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(total); i = next.Add(1) - 1 {
				began := time.Now()
				if errs[p] = op(p); errs[p] != nil {
					return
				}
				latencies[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	all = time.Since(start)
	slices.Sort(latencies)
	for _, e := range errs {
		if e != nil {
			err = e
		}
	}
	return latencies, all, err
}

// plain makes one event's file without a journal: written to tmp/ and renamed;
// with sync the file and the folder are synced each time.
func plain(dir string, e *amp.Envelope, sync bool) error {
	raw, err := e.Encode()
	if err != nil {
		return err
	}
	name := amp.FileName(e.Payload.Type, e.Header.MessageID)
	tmp := filepath.Join(dir, queue.Tmp, name)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(raw); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	pending := filepath.Join(dir, queue.Pending)
	if err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, filepath.Join(pending, name), unix.RENAME_NOREPLACE); err != nil || !sync {
		return err
	}
	return durable.SyncDir(pending)
}

func benchBaseline(b *testing.B, producers, total int, sync bool) (perSecond, p50 float64) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "inbox")
	if _, err := queue.Prepare(dir); err != nil {
		b.Fatal(err)
	}
	latencies, all, err := timed(producers, total, func(p int) error {
		e := bustest.Event(fmt.Sprint("app", p), "bench.event", body)
		e.Header.MessageID = amp.NewID()
		return plain(dir, e, sync)
	})
	if err != nil {
		b.Fatal(err)
	}
	return float64(total) / all.Seconds(), float64(latencies[total/2])
}

// BenchmarkPublish compares the bus with two baselines in the same run: N,
// files written and renamed without any sync, and F, file and folder synced for
// each event. Run it on a disk with a journal; the figures are ratios:
//
//	events/s        acknowledged and, in the end, visible
//	acks/s          acknowledged while files are made behind
//	ack-p50-ms      of one Publish
//	x-N, x-F        events/s over N's and F's
//	ack/F-p50       acknowledgement over F's time for one event
//	syncs/event     of the journal
func BenchmarkPublish(b *testing.B) {
	for _, producers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(producers), func(b *testing.B) {
			small := max(200, min(b.N, 300*producers))
			n, _ := benchBaseline(b, producers, max(1000, min(b.N, 20_000)), false)
			f, fp50 := benchBaseline(b, producers, small, true)
			opt := options(b.TempDir())
			opt.Journal.SegmentBytes = 0
			x := open(b, opt)
			b.ResetTimer()
			latencies, acks, err := timed(producers, b.N, func(p int) error {
				_, err := x.Publish(context.Background(), bus.Item{Envelope: bustest.Event(fmt.Sprint("app", p), "bench.event", body)})
				return err
			})
			if err == nil {
				err = x.Close()
			}
			b.StopTimer()
			if err != nil {
				b.Fatal(err)
			}
			perSecond := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(perSecond, "events/s")
			b.ReportMetric(float64(b.N)/acks.Seconds(), "acks/s")
			b.ReportMetric(float64(latencies[b.N/2])/1e6, "ack-p50-ms")
			b.ReportMetric(perSecond/n, "x-N")
			b.ReportMetric(perSecond/f, "x-F")
			b.ReportMetric(float64(latencies[b.N/2])/fp50, "ack/F-p50")
			b.ReportMetric(float64(x.Journal().Syncs())/float64(b.N), "syncs/event")
		})
	}
}

// BenchmarkVisible is the time from Publish to the visible file with 64
// producers, each of which waits until everything published so far is visible.
func BenchmarkVisible(b *testing.B) {
	opt := options(b.TempDir())
	opt.Journal.SegmentBytes = 0
	opt.MaxLag = 64
	x := open(b, opt)
	latencies, all, err := timed(64, b.N, func(p int) error {
		if _, err := x.Publish(context.Background(), bus.Item{Envelope: bustest.Event(fmt.Sprint("app", p), "bench.event", body)}); err != nil {
			return err
		}
		return x.Flush(context.Background())
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/all.Seconds(), "events/s")
	b.ReportMetric(float64(latencies[b.N/2])/1e6, "p50-ms")
	b.ReportMetric(float64(latencies[b.N*99/100])/1e6, "p99-ms")
}
