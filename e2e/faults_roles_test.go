//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
)

// The fault tests run this test binary again as a producer or a consumer, which
// they kill, stop, and take the disk away from.
const (
	roleEnv = "AURORA_FAULTS_ROLE"
	specEnv = "AURORA_FAULTS_SPEC"
)

func init() { roles = append(roles, playRole) }

func playRole() {
	role := os.Getenv(roleEnv)
	if role == "" {
		return
	}
	// Under strace the parent is strace: whoever kills that kills this.
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	switch {
	case err != nil:
	case role == "producer":
		err = runRole(produce)
	case role == "consumer":
		err = runRole(consume)
	default:
		err = fmt.Errorf("no such role: %s", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runRole[S any](run func(S) error) error {
	var spec S
	if err := json.Unmarshal([]byte(os.Getenv(specEnv)), &spec); err != nil {
		return err
	}
	return run(spec)
}

// producerSpec is what a producer does. It publishes, for each of its sources,
// the events 1, 2, 3…, and takes up where the last acknowledgement was. All of
// an event follows from its source and number, so its bytes are known before it
// is published, and the number is the seq it must get.
type producerSpec struct {
	Dir     string // holds inbox/ and journal/
	Emitted string // tries and acknowledgements, see record
	Sources int
	Each    int // events per source, then it closes the inbox and ends; 0: until killed, negative: none
	// Batch events of all sources are published in one call, with ids that rise
	// over all sources in the order of publication. 0: each source publishes by
	// itself, one event at a time, and ids rise within a source alone.
	Batch      int
	Pause      time.Duration // after each batch, for a consumer that is to keep up
	Forget     bool          // a negative control: ids are forgotten at once
	MaxPending int64         // files in pending/
	MaxLag     int
}

// record is one line of the file of what was emitted.
type record struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Seq    int    `json:"seq"`
	SHA    string `json:"sha"` // of the file's bytes
	Ev     string `json:"ev"`  // try, or ack: the promise that it is durable
}

// faultEvent is event k of a source.
func faultEvent(source string, k int, id string) (*amp.Envelope, record, error) {
	h := fnv.New64a()
	h.Write([]byte(source))
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(k)))
	text := make([]byte, 200+r.IntN(2000))
	for i := range text {
		text[i] = byte('a' + r.IntN(26))
	}
	data, err := json.Marshal(map[string]any{"k": k, "text": string(text)})
	if err != nil {
		return nil, record{}, err
	}
	e := &amp.Envelope{
		Header: amp.Header{Protocol: amp.Protocol, Method: amp.MethodEvent, MessageID: id,
			Timestamp: amp.Timestamp{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(k) * time.Millisecond)},
			Source:    amp.Source{App: "test.faults", Instance: source}, Seq: uint64(k)},
		Payload: amp.Payload{Type: "test.event", Data: data},
	}
	body, err := e.Encode()
	sum := sha256.Sum256(body)
	e.Header.Seq = 0 // the inbox gives it
	return e, record{ID: id, Source: source, Seq: k, SHA: hex.EncodeToString(sum[:])}, err
}

// again is how many acknowledged events a producer publishes once more when it
// starts, as one does that missed the acknowledgements.
const again = 40

type producer struct {
	spec producerSpec
	log  *os.File
	in   *inbox.Inbox
}

// note writes lines that a kill does not mix up: each call is one write, led by
// a newline, in case the one before was cut.
func (p *producer) note(ev string, records []record) error {
	b := []byte("\n")
	for _, r := range records {
		r.Ev = ev
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	for {
		_, err := p.log.Write(b)
		if err == nil || !errors.Is(err, unix.EIO) { // an injected error: nothing was written
			return err
		}
	}
}

// publish publishes the events of one call; known says that they were acknowledged before.
func (p *producer) publish(items []bus.Item, records []record, known bool) error {
	if len(items) == 0 {
		return nil
	}
	if !known {
		if err := p.note("try", records); err != nil {
			return err
		}
	}
	if _, err := p.in.Publish(context.Background(), items...); err != nil {
		return err
	}
	if known {
		return nil
	}
	return p.note("ack", records)
}

func produce(spec producerSpec) error {
	acked, err := lastAcked(spec.Emitted)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(spec.Emitted, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	opt := inbox.Options{Dir: filepath.Join(spec.Dir, "inbox"), Hard: inbox.Limit{Files: spec.MaxPending}, MaxLag: spec.MaxLag, Retry: 50 * time.Millisecond,
		Journal: journal.Options{Dir: filepath.Join(spec.Dir, "journal"), SegmentBytes: 1 << 20}}
	if spec.Forget {
		opt.Journal.MaxIDs = 1
	}
	in, err := inbox.Open(opt)
	if err != nil {
		return err
	}
	fmt.Printf("open %d\n", os.Getpid())
	for _, problem := range in.Problems() {
		fmt.Println("problem", problem)
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { tellState(in, stop) })
	p := &producer{spec, log, in}
	switch {
	case spec.Each < 0:
	case spec.Batch > 0:
		err = p.together(acked)
	default:
		err = p.apart(acked)
	}
	if err == nil { // a backlog may take longer than Close waits for it
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		err = in.Flush(ctx)
		cancel()
	}
	err = errors.Join(err, in.Close())
	close(stop)
	watching.Wait()
	return err
}

// tellState prints each change of the inbox's state.
func tellState(in *inbox.Inbox, stop <-chan struct{}) {
	last := "ok"
	for {
		now := "ok"
		if err := in.State().Err; err != nil {
			now = "degraded " + err.Error()
		}
		if now != last {
			fmt.Println("state", now)
			last = now
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-stop:
			return
		}
	}
}

// lastAcked is the highest number acknowledged of each source.
func lastAcked(emitted string) (map[string]int, error) {
	acked := make(map[string]int)
	records, err := readRecords(emitted)
	for _, r := range records {
		if r.Ev == "ack" {
			acked[r.Source] = max(acked[r.Source], r.Seq)
		}
	}
	return acked, err
}

func readRecords(path string) ([]record, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []record
	for line := range bytes.Lines(raw) {
		var r record
		if json.Unmarshal(line, &r) == nil { // a killed producer's last line may be torn
			all = append(all, r)
		}
	}
	return all, err
}

// together publishes events of all sources in turn, in batches.
func (p *producer) together(acked map[string]int) error {
	done := 0 // events of all sources, in order
	for _, k := range acked {
		done += k
	}
	total := p.spec.Each * p.spec.Sources
	for n := max(0, done-again); p.spec.Each == 0 || n < total; {
		end := n + p.spec.Batch
		if n < done {
			end = min(end, done)
		}
		if p.spec.Each > 0 {
			end = min(end, total)
		}
		var items []bus.Item
		var records []record
		for i := n; i < end; i++ {
			e, r, err := faultEvent(fmt.Sprint("s", i%p.spec.Sources), i/p.spec.Sources+1, fmt.Sprintf("%012d", i))
			if err != nil {
				return err
			}
			items, records = append(items, bus.Item{Envelope: e}), append(records, r)
		}
		if err := p.publish(items, records, n < done); err != nil {
			return err
		}
		n = end
		time.Sleep(p.spec.Pause)
	}
	return nil
}

// apart publishes the events of each source by itself, all sources at once.
func (p *producer) apart(acked map[string]int) error {
	var wg sync.WaitGroup
	errs := make([]error, p.spec.Sources)
	for i := range p.spec.Sources {
		wg.Go(func() {
			source := fmt.Sprint("s", i)
			for k := max(1, acked[source]-again/p.spec.Sources); p.spec.Each == 0 || k <= p.spec.Each; k++ {
				e, r, err := faultEvent(source, k, fmt.Sprintf("%s-%09d", source, k))
				if err == nil {
					err = p.publish([]bus.Item{{Envelope: e}}, []record{r}, k <= acked[source])
				}
				if err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// consumerSpec is what a consumer does: it has each event's effect, a line in
// delivered.log, once, across kills of either side.
type consumerSpec struct {
	Inbox  string
	Idle   time.Duration // ends when nothing came for so long; 0: until killed
	Delete bool          // removes what it took, instead of moving it to done/
	Leases bool          // works with bridge/inbox/queue, as a Brain in Go does
}

// delivery is a line of delivered.log.
type delivery struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Seq    int    `json:"seq"`
	SHA    string `json:"sha"`
}

type consumer struct {
	spec consumerSpec
	log  *os.File
	size int64
	seen map[string]bool
}

func consume(spec consumerSpec) error {
	if spec.Leases {
		return consumeByLease(spec)
	}
	lock, err := os.OpenFile(filepath.Join(spec.Inbox, "consumer.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	c, err := openConsumer(spec)
	if err != nil {
		return err
	}
	fmt.Printf("open %d\n", os.Getpid())
	old, err := c.inOrder("processing", time.Time{})
	if err == nil {
		err = c.handle(old, true)
	}
	if err != nil {
		return err
	}
	for last := time.Now(); spec.Idle == 0 || time.Since(last) < spec.Idle; {
		n, err := c.take()
		if err != nil {
			return err
		}
		if n > 0 {
			last = time.Now()
			continue
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// openConsumer reads what had its effect already.
func openConsumer(spec consumerSpec) (c *consumer, err error) {
	c = &consumer{spec: spec, seen: make(map[string]bool)}
	if c.log, err = os.OpenFile(filepath.Join(spec.Inbox, "delivered.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(c.log.Name())
	if err != nil {
		return nil, err
	}
	c.size = int64(bytes.LastIndexByte(raw, '\n') + 1) // a torn line's event is still in processing/
	if err := c.log.Truncate(c.size); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(raw[:c.size]) {
		var d delivery
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, err
		}
		c.seen[d.ID] = true
	}
	return c, nil
}

// consumeByLease claims and acknowledges with the queue's own consumer. A claim
// of a consumer that was killed comes back when its lease has run out.
func consumeByLease(spec consumerSpec) error {
	q, err := queue.Dir(spec.Inbox).Consumer(queue.ConsumerOptions{Lease: time.Second, MaxAttempts: 1000, Delete: spec.Delete})
	if err != nil {
		return err
	}
	defer q.Close()
	c, err := openConsumer(spec)
	if err != nil {
		return err
	}
	fmt.Printf("open %d\n", os.Getpid())
	for {
		ctx, cancel := context.WithCancel(context.Background())
		if spec.Idle > 0 {
			ctx, cancel = context.WithTimeout(ctx, 2*time.Second+spec.Idle) // leases of the dead run out first
		}
		events, err := q.Claim(ctx, 50)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		var lines, dups bytes.Buffer
		for _, e := range events {
			if c.seen[e.ID] {
				if e.Attempts == 1 {
					fmt.Fprintln(&dups, e.Name)
				}
				continue
			}
			c.seen[e.ID] = true
			sum := sha256.Sum256(e.Raw)
			line, err := json.Marshal(delivery{e.ID, e.Envelope.Header.Source.Instance, int(e.Envelope.Header.Seq), hex.EncodeToString(sum[:])})
			if err != nil {
				return err
			}
			lines.Write(append(line, '\n'))
		}
		if err := errors.Join(c.record(lines.Bytes()), c.again(dups.Bytes())); err != nil {
			return err
		}
		if err := q.Ack(events...); err != nil && !errors.Is(err, queue.ErrLost) {
			return err
		}
	}
}

// visible is a file's name and the time of its record, which is the order.
type visible struct {
	name string
	at   time.Time
}

// inOrder lists the events of a folder that are not after latest (zero: all).
func (c *consumer) inOrder(folder string, latest time.Time) ([]visible, error) {
	d, err := os.Open(filepath.Join(c.spec.Inbox, folder))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var found []visible
	for _, name := range names {
		if !strings.HasPrefix(name, "event_") || !strings.HasSuffix(name, ".json") {
			continue
		}
		info, err := os.Lstat(filepath.Join(d.Name(), name))
		if err != nil {
			return nil, err
		}
		if at := info.ModTime(); latest.IsZero() || !at.After(latest) {
			found = append(found, visible{name, at})
		}
	}
	slices.SortFunc(found, func(a, b visible) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	return found, nil
}

// take takes what is pending: one scan finds the latest, a second all before it.
func (c *consumer) take() (int, error) {
	first, err := c.inOrder("pending", time.Time{})
	if errors.Is(err, os.ErrNotExist) { // somebody removed the folder; the platform makes it again
		return 0, nil
	}
	if err != nil || len(first) == 0 {
		return 0, err
	}
	batch, err := c.inOrder("pending", first[len(first)-1].at)
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(batch, 200) {
		for _, v := range part {
			if err := c.move(v.name, "pending", "processing"); err != nil {
				return 0, err
			}
		}
		if err := c.handle(part, false); err != nil {
			return 0, err
		}
	}
	return len(batch), nil
}

func (c *consumer) move(name, from, to string) error {
	return patiently(func() error {
		return os.Rename(filepath.Join(c.spec.Inbox, from, name), filepath.Join(c.spec.Inbox, to, name))
	})
}

// patiently repeats what a full disk refuses.
func patiently(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// handle has the effect of what is in processing/, durably, before it moves on.
func (c *consumer) handle(batch []visible, replay bool) error {
	var lines, dups bytes.Buffer
	for _, v := range batch {
		body, err := os.ReadFile(filepath.Join(c.spec.Inbox, "processing", v.name))
		if err != nil {
			return err
		}
		var e envelope
		if err := json.Unmarshal(body, &e); err != nil {
			return fmt.Errorf("%s is visible and not whole: %w", v.name, err)
		}
		id := e.Header.MessageID
		if c.seen[id] {
			if !replay { // it was published twice, or a power cut undid a move
				fmt.Fprintln(&dups, v.name)
			}
			continue
		}
		c.seen[id] = true
		sum := sha256.Sum256(body)
		line, err := json.Marshal(delivery{id, e.Header.Source.Instance, int(e.Header.Seq), hex.EncodeToString(sum[:])})
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	if err := c.record(lines.Bytes()); err != nil {
		return err
	}
	if err := c.again(dups.Bytes()); err != nil {
		return err
	}
	for _, v := range batch {
		err := error(nil)
		if c.spec.Delete {
			err = os.Remove(filepath.Join(c.spec.Inbox, "processing", v.name))
		} else {
			err = c.move(v.name, "processing", "done")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// again notes names that were visible again after their effect.
func (c *consumer) again(names []byte) error {
	if len(names) == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(c.spec.Inbox, "dups.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(names)
	return errors.Join(err, f.Close())
}

// record makes lines durable in delivered.log.
func (c *consumer) record(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	err := patiently(func() error {
		_, err := c.log.Write(lines)
		if err != nil {
			return errors.Join(err, c.log.Truncate(c.size))
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.size += int64(len(lines))
	return patiently(c.log.Sync)
}
