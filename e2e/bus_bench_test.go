//go:build bench

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// The figures of the bus, beside what the same disk does in the same minute:
//
//	N   files written to tmp/ and renamed without overwriting, no sync
//	F   the same with the file and the folder synced for each event
//	B   batches written, synced by one syncfs and renamed, the three at once: the
//	    system calls of the bus for its files, and nothing else
//	R2  a log alone: preallocated, appended to and synced for all who wait
//	J   JetStream that syncs each message
//
// The baselines are given encoded events; the bus is given envelopes. A step that
// other processes disturbed is done again, as long as there is time for that.
const (
	producers = 64
	window    = 16 // events of one producer on their way at once where visibility counts
	busRounds = 9
)

// benchDisk is a folder on an ext4 of its own where the test may mount one: the
// machine's file system may be of another kind, and shared with others.
func benchDisk(t *testing.T, megabytes int) string {
	if os.Geteuid() != 0 {
		t.Log("not root: measured on TMPDIR, whatever file system that is")
		return t.TempDir()
	}
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"fallocate", "-l", fmt.Sprint(megabytes, "M"), image},
		{"mkfs.ext4", "-q", "-F", "-N", "2000000", image},
		{"mount", "-o", "loop,noatime", image, mount},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Logf("%s: %v %s: measured on TMPDIR, whatever file system that is", argv[0], err, out)
			return dir
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mount).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v %s", mount, err, out)
		}
	})
	return mount
}

// sizes are of the data of events, in turn.
var sizes = []int{500, 1000, 1000, 2000, 500, 1000, 4000, 1000}

func event(i int) *amp.Envelope {
	data, _ := json.Marshal(map[string]string{"text": strings.Repeat("word ", sizes[i%len(sizes)]/5)})
	return &amp.Envelope{
		Header:  amp.Header{Protocol: amp.Protocol, Method: amp.MethodEvent, Timestamp: amp.Now(), Source: amp.Source{App: fmt.Sprint("app", i%producers)}},
		Payload: amp.Payload{Type: fmt.Sprint("bench.p", i%producers), Summary: "an event", Data: data},
	}
}

// events makes n events outside of what is measured, and their encoded form.
func events(t *testing.T, n int) (all []*amp.Envelope, raw [][]byte) {
	for i := range n {
		e := event(i)
		all = append(all, e)
		known := *e
		known.Header.MessageID, known.Header.Seq = amp.NewID(), uint64(i)
		b, err := known.Encode()
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, b)
	}
	return all, raw
}

// each runs op for 0 to n-1 in a number of goroutines and returns how often
// per second, and how long each took, sorted.
func each(t *testing.T, goroutines, n int, op func(i int) error) (perSecond float64, took []time.Duration) {
	took = make([]time.Duration, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				t0 := time.Now()
				if err := op(i); err != nil {
					t.Error(err)
					return
				}
				took[i] = time.Since(t0)
			}
		})
	}
	wg.Wait()
	perSecond = float64(n) / time.Since(begun).Seconds()
	if t.Failed() {
		t.FailNow()
	}
	slices.Sort(took)
	return perSecond, took
}

// plainFiles is N, and F with sync.
type plainFiles struct {
	tmp, pending string
	n            atomic.Int64
}

func newPlainFiles(t *testing.T, dir string) *plainFiles {
	p := &plainFiles{tmp: filepath.Join(dir, "tmp"), pending: filepath.Join(dir, "pending")}
	for _, d := range []string{p.tmp, p.pending} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *plainFiles) put(raw []byte, sync bool) error {
	name := p.name()
	if err := p.write(name, raw, sync); err != nil {
		return err
	}
	if err := p.show(name); err != nil || !sync {
		return err
	}
	return durable.SyncDir(p.pending)
}

func (p *plainFiles) name() string {
	return fmt.Sprintf("event_bench.event_%d.json", p.n.Add(1))
}

func (p *plainFiles) write(name string, raw []byte, sync bool) error {
	f, err := os.OpenFile(filepath.Join(p.tmp, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (p *plainFiles) show(name string) error {
	return unix.Renameat2(unix.AT_FDCWD, filepath.Join(p.tmp, name), unix.AT_FDCWD, filepath.Join(p.pending, name), unix.RENAME_NOREPLACE)
}

// putAll is B: each batch is in one of three stages, as in the bus.
func (p *plainFiles) putAll(t *testing.T, raw [][]byte) (perSecond float64) {
	const batch = 256
	tmp, err := os.Open(p.tmp)
	if err != nil {
		t.Fatal(err)
	}
	defer tmp.Close()
	written, synced := make(chan []string), make(chan []string)
	var stages sync.WaitGroup
	begun := time.Now()
	stages.Go(func() {
		defer close(written)
		for part := range slices.Chunk(raw, batch) {
			var names []string
			for _, b := range part {
				name := p.name()
				if err := p.write(name, b, false); err != nil {
					t.Error(err)
				}
				names = append(names, name)
			}
			written <- names
		}
	})
	stages.Go(func() {
		defer close(synced)
		for names := range written {
			if err := unix.Syncfs(int(tmp.Fd())); err != nil {
				t.Error(err)
			}
			synced <- names
		}
	})
	for names := range synced {
		for _, name := range names {
			if err := p.show(name); err != nil {
				t.Error(err)
			}
		}
	}
	stages.Wait()
	return float64(len(raw)) / time.Since(begun).Seconds()
}

// bareLog is R2. The committer yields before it syncs, so that all who can
// append do.
type bareLog struct {
	f    *os.File
	off  int64
	mu   sync.Mutex
	buf  []byte
	done chan struct{}
	kick chan struct{}
	end  sync.WaitGroup
}

func newBareLog(t *testing.T, dir string, size int) *bareLog {
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	l := &bareLog{f: f, done: make(chan struct{}), kick: make(chan struct{}, 1)}
	l.end.Go(func() {
		for range l.kick {
			runtime.Gosched()
			l.mu.Lock()
			buf, done := l.buf, l.done
			l.buf, l.done = nil, make(chan struct{})
			l.mu.Unlock()
			if _, err := f.WriteAt(buf, l.off); err != nil {
				t.Error(err)
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				t.Error(err)
			}
			l.off += int64(len(buf))
			close(done)
		}
	})
	return l
}

func (l *bareLog) append(raw []byte) error {
	l.mu.Lock()
	l.buf = append(l.buf, raw...)
	done := l.done
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
	<-done
	return nil
}

// rewind begins anew, over what was written; nobody may append meanwhile.
func (l *bareLog) rewind() { l.off = 0 }

func (l *bareLog) close() {
	close(l.kick)
	l.end.Wait()
	l.f.Close()
}

// newStream is J: publishing to a JetStream server of this process that syncs each
// message before it acknowledges.
func newStream(t *testing.T, dir string) (publish func(raw []byte) error) {
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, SyncAlways: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the nats-server does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(raw []byte) error {
		_, err := js.Publish(context.Background(), "bench", raw)
		return err
	}
}

func openInbox(t *testing.T, dir string) *inbox.Inbox {
	unlimited := inbox.Limit{Files: 1e9} // more than the measurements leave pending
	x, err := inbox.Open(inbox.Options{Dir: filepath.Join(dir, "inbox"), Soft: unlimited, Hard: unlimited, Journal: journal.Options{Dir: filepath.Join(dir, "journal")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func publish(x *inbox.Inbox, e *amp.Envelope) error {
	e.Header.MessageID = ""
	_, err := x.Publish(context.Background(), bus.Item{Envelope: e})
	return err
}

func flush(t *testing.T, x *inbox.Inbox) {
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// load publishes all, of each producer up to window events that are not visible
// yet, as the folder itself says: a name that comes to pending/ is visible. It
// returns how many became visible per second, and how long after Publish was
// called, sorted.
func load(t *testing.T, x *inbox.Inbox, pending string, all []*amp.Envelope) (perSecond float64, took []time.Duration) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, pending, unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	slots := make([]chan struct{}, producers)
	for p := range slots {
		slots[p] = make(chan struct{}, window)
	}
	began := make([]time.Time, len(all))
	var wg sync.WaitGroup
	begun := time.Now()
	for p := range producers {
		// A second goroutine for each of its events: the next is published
		// before the one before is acknowledged.
		var turn atomic.Int64
		for range window {
			wg.Go(func() {
				for i := p + int(turn.Add(1)-1)*producers; i < len(all); i = p + int(turn.Add(1)-1)*producers {
					slots[p] <- struct{}{}
					began[i] = time.Now()
					if err := publish(x, all[i]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	seen := make(map[string]time.Time, len(all))
	for buf := make([]byte, 64<<10); len(seen) < len(all); {
		n, err := unix.Read(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		time.Sleep(time.Millisecond) // so that the bus does not pay for waking this up for each file
		for b := buf[:n]; len(b) > 0; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:size], "\x00"))
			b = b[size:]
			typ, id, _ := amp.ParseFileName(name)
			p, err := strconv.Atoi(strings.TrimPrefix(typ, "bench.p"))
			if err != nil {
				t.Fatalf("%s became visible", name)
			}
			seen[id] = now
			<-slots[p]
		}
	}
	perSecond = float64(len(all)) / time.Since(begun).Seconds()
	wg.Wait()
	for i, e := range all {
		took = append(took, seen[e.Header.MessageID].Sub(began[i]))
	}
	slices.Sort(took)
	return perSecond, took
}

// rest lets the disk come to rest, so that no measurement pays for the one before.
func rest(dir string) {
	if d, err := os.Open(dir); err == nil {
		unix.Syncfs(int(d.Fd()))
		d.Close()
	}
}

// run lets the disk come to rest and runs the step undisturbed. It returns the
// processor time that this process took for it, which depends little on what others do.
func run(t *testing.T, dir string, step func()) (used time.Duration) {
	machine.undisturbed(func() {
		rest(dir)
		before := cpu(t)
		step()
		used = cpu(t) - before
	})
	return used
}

// empty is the Brain.
func empty(t *testing.T, pending string) {
	names, err := os.ReadDir(pending)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		os.Remove(filepath.Join(pending, name.Name()))
	}
}

func TestBus(t *testing.T) {
	const n = 6000
	dir := benchDisk(t, 3000)
	x := openInbox(t, dir)
	pending := filepath.Join(dir, "inbox", queue.Pending)
	all, raw := events(t, n)
	stream := newStream(t, filepath.Join(dir, "stream"))
	var steady, p50, p99, syncs, plain, batches, synced, syncedOne, burst, bare, ackOne, streamed []float64
	var steadyCPU, plainCPU, batchesCPU, syncedCPU []float64 // microseconds of an event
	for round := range busRounds {
		files := newPlainFiles(t, filepath.Join(dir, fmt.Sprint("plain", round)))
		log := newBareLog(t, dir, 24<<20)
		var rate float64
		var took []time.Duration
		used := run(t, dir, func() { rate, _ = each(t, producers, n, func(i int) error { return files.put(raw[i], false) }) })
		plainCPU = append(plainCPU, float64(used.Microseconds())/n)
		plain = append(plain, rate)
		used = run(t, dir, func() { rate = files.putAll(t, raw) })
		batchesCPU = append(batchesCPU, float64(used.Microseconds())/n)
		batches = append(batches, rate)
		used = run(t, dir, func() { rate, _ = each(t, producers, n/4, func(i int) error { return files.put(raw[i], true) }) })
		syncedCPU = append(syncedCPU, float64(used.Microseconds())/(n/4))
		synced = append(synced, rate)
		run(t, dir, func() {
			log.rewind()
			rate, _ = each(t, producers, n, func(i int) error { return log.append(raw[i]) })
		})
		bare = append(bare, rate)
		run(t, dir, func() {
			rate, _ = each(t, producers, n, func(i int) error { return publish(x, all[i]) })
			flush(t, x)
		})
		burst = append(burst, rate)
		run(t, dir, func() { rate, _ = each(t, producers, n/8, func(i int) error { return stream(raw[i]) }) })
		streamed = append(streamed, rate)
		var before int64
		used = run(t, dir, func() {
			before = x.Counters().Syncs
			rate, took = load(t, x, pending, all)
		})
		steadyCPU = append(steadyCPU, float64(used.Microseconds())/n)
		steady = append(steady, rate)
		p50 = append(p50, float64(took[n/2])/1e6)
		p99 = append(p99, float64(took[n*99/100])/1e6)
		syncs = append(syncs, float64(x.Counters().Syncs-before)/n)
		run(t, dir, func() { _, took = each(t, 1, 200, func(i int) error { return files.put(raw[i], true) }) })
		syncedOne = append(syncedOne, float64(took[100])/1e6)
		run(t, dir, func() {
			_, took = each(t, 1, 200, func(i int) error { return publish(x, all[i]) })
			flush(t, x)
		})
		ackOne = append(ackOne, float64(took[100])/1e6)
		log.close()
		empty(t, files.pending)
		empty(t, pending)
	}
	what := fmt.Sprintf("durable and visible, %d producers; ", producers)
	rows = append(rows,
		row{what + "N, files renamed without sync", perSecond(steady), perSecond(plain), ratios(steady, plain), ">= 0.45"},
		row{what + "F, file and folder synced each", perSecond(steady), perSecond(synced), ratios(steady, synced), ">= 2.5"},
		row{what + "B, the system calls for its files alone", perSecond(steady), perSecond(batches), ratios(steady, batches), ""},
		row{what + "J, JetStream with sync always", perSecond(steady), perSecond(streamed), ratios(steady, streamed), ">= 5"},
		row{"CPU of an event, durable and visible; N", microseconds(steadyCPU), microseconds(plainCPU), ratios(steadyCPU, plainCPU), ""},
		row{"CPU of an event, durable and visible; F", microseconds(steadyCPU), microseconds(syncedCPU), ratios(steadyCPU, syncedCPU), ""},
		row{"CPU of an event, durable and visible; B", microseconds(steadyCPU), microseconds(batchesCPU), ratios(steadyCPU, batchesCPU), ""},
		row{"B; F", perSecond(batches), perSecond(synced), ratios(batches, synced), ""},
		row{fmt.Sprintf("visible after, %d events on their way, p50", producers*window), milliseconds(p50), "", "", ""},
		row{fmt.Sprintf("visible after, %d events on their way, p99", producers*window), milliseconds(p99), "", "", "< 100 ms"},
		row{"sync calls per event, of commits and files", fmt.Sprintf("%.3f", median(syncs)), "", "", "<= 0.1"},
		row{fmt.Sprintf("acknowledged in a burst of %d, %d producers; R2, a log alone", n, producers), perSecond(burst), perSecond(bare), ratios(burst, bare), ">= 0.45"},
		row{"acknowledged, one producer, p50; F", milliseconds(ackOne), milliseconds(syncedOne), ratios(ackOne, syncedOne), "<= 0.5"},
	)
}

func TestBusInALongBurst(t *testing.T) {
	const n, rounds = 30_000, 5
	dir := benchDisk(t, 3000)
	x := openInbox(t, dir)
	all, raw := events(t, n)
	log := newBareLog(t, dir, 96<<20)
	defer log.close()
	var burst, bare []float64
	for range rounds {
		var rate float64
		run(t, dir, func() {
			log.rewind()
			rate, _ = each(t, producers, n, func(i int) error { return log.append(raw[i]) })
		})
		bare = append(bare, rate)
		run(t, dir, func() {
			rate, _ = each(t, producers, n, func(i int) error { return publish(x, all[i]) })
			flush(t, x)
		})
		burst = append(burst, rate)
		empty(t, filepath.Join(dir, "inbox", queue.Pending))
	}
	rows = append(rows, row{fmt.Sprintf("acknowledged in a burst of %d, %d producers; R2, a log alone", n, producers), perSecond(burst), perSecond(bare), ratios(burst, bare), ">= 0.45"})
}

// many is how many files are pending: a tenth of a million, times AURORA_LONG.
func many() int {
	if f, err := strconv.Atoi(os.Getenv("AURORA_LONG")); err == nil && f > 0 {
		return min(f*100_000, 1_000_000)
	}
	return 100_000
}

const ids = 1_000_000

// remember makes a journal that remembers ids, of events that are not pending.
func remember(t *testing.T, dir string) {
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	var last uint64
	for i := range ids {
		if err := j.Append(t.Context(), func(q journal.Queue) (err error) {
			last, err = q.Add(segment.Record{Kind: segment.RecordOnly, Source: fmt.Sprint("app", i%producers), Key: segment.KeyOf(fmt.Sprint(i))})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(j.Wait(t.Context(), last), j.Close()); err != nil {
		t.Fatal(err)
	}
	x := openInbox(t, dir) // makes what summaries are missing
	flush(t, x)
	x.Close()
}

// fillPending makes pending files of events that the journal has forgotten.
func fillPending(t *testing.T, pending string) {
	root, err := os.OpenRoot(pending)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range many() {
		if err := root.WriteFile(amp.FileName("bench.event", amp.NewID()), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// counted waits until the inbox knows what is pending, which takes a listing in
// the background.
func counted(x *inbox.Inbox) {
	for x.Counters().Pending < int64(many()) {
		time.Sleep(time.Millisecond)
	}
}

func TestBusWithManyIDsAndFilesPending(t *testing.T) {
	const n = 4000
	dir := benchDisk(t, 8000)
	full, none := filepath.Join(dir, "full"), filepath.Join(dir, "none")
	remember(t, full)
	fillPending(t, filepath.Join(full, "inbox", queue.Pending))
	rest(dir)

	var start, startCPU, grown []float64
	for range 5 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		begun, used := time.Now(), cpu(t)
		x := openInbox(t, full)
		start, startCPU = append(start, time.Since(begun).Seconds()), append(startCPU, (cpu(t)-used).Seconds())
		counted(x)
		runtime.GC()
		runtime.ReadMemStats(&after)
		grown = append(grown, float64(after.HeapAlloc-before.HeapAlloc)/1e6)
		if c := x.Counters(); c.IDs != ids {
			t.Fatalf("%d ids remembered", c.IDs)
		}
		x.Close()
	}

	x, y := openInbox(t, full), openInbox(t, none)
	counted(x)
	all, _ := events(t, n)
	var a, b, aCPU, bCPU []float64
	rate := func(x *inbox.Inbox, of string, rates, used *[]float64) {
		var rate float64
		took := run(t, dir, func() { rate, _ = load(t, x, filepath.Join(of, "inbox", queue.Pending), all) })
		*rates, *used = append(*rates, rate), append(*used, float64(took.Microseconds())/n)
	}
	for range busRounds {
		rate(x, full, &a, &aCPU)
		rate(y, none, &b, &bCPU)
	}
	with := fmt.Sprintf("with %d ids and %d files pending", ids, many())
	rows = append(rows,
		row{"durable and visible " + with + "; with none", perSecond(a), perSecond(b), ratios(a, b), ">= 0.8"},
		row{"CPU of an event " + with + "; with none", microseconds(aCPU), microseconds(bCPU), ratios(aCPU, bCPU), ""},
		row{"start " + with + "; CPU of that", fmt.Sprintf("%.2f s", median(start)), fmt.Sprintf("%.2f s", median(startCPU)), "", "< 1 s"},
		row{"memory " + with, fmt.Sprintf("%.0f MB", median(grown)), "", "", "< 64 MB"},
	)
}
