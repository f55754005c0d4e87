package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// BenchmarkAppend is the log alone: what the bus on top can be measured against.
func BenchmarkAppend(b *testing.B) {
	for _, producers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(producers), func(b *testing.B) {
			j := open(b, Options{Dir: b.TempDir(), SegmentBytes: 16 << 20})
			body := make([]byte, 1000)
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range producers {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						r := segment.Record{Kind: segment.Deliver, Body: body}
						binary.LittleEndian.PutUint64(r.Key[:], uint64(i))
						add(b, j, r)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(j.Syncs())/float64(b.N), "syncs/event")
		})
	}
}

// BenchmarkLoadAMillionIDs opens a journal whose memory of ids is full.
func BenchmarkLoadAMillionIDs(b *testing.B) {
	dir := b.TempDir()
	j := open(b, Options{Dir: dir, SegmentBytes: 16 << 20})
	const n = 1_000_000
	var last uint64
	for i := range n {
		if err := j.Append(context.Background(), func(q Queue) (err error) {
			r := segment.Record{Kind: segment.Deliver, Source: "app"}
			binary.BigEndian.PutUint64(r.Key[:], uint64(i+1)*0x9E3779B97F4A7C15) // all zeros would be no key
			last, err = q.Add(r)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Wait(context.Background(), last); err != nil {
		b.Fatal(err)
	}
	j.Close()
	open(b, Options{Dir: dir}).Close() // writes the summaries that are missing
	b.ResetTimer()
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		j := open(b, Options{Dir: dir})
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(took.Seconds(), "s/load")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		if ids, _ := j.IDs(); ids != n {
			b.Fatalf("%d ids", ids)
		}
		j.Close()
	}
}
