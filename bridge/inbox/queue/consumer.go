package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue/internal/watch"
)

// ErrLost says that an event is not this consumer's any more: its lease ran out
// and another may have it.
var ErrLost = errors.New("the claim was lost")

// ErrTaken says that a consumer that does not share the inbox has it.
var ErrTaken = errors.New("another consumer has the inbox to itself")

// ConsumerOptions say how a consumer works. Zero values are the defaults named.
type ConsumerOptions struct {
	Lease       time.Duration // how long a claim holds unless renewed; 1 minute
	MaxAttempts int           // claims of one event before it becomes a dead letter; 5
	Delete      bool          // acknowledged events are deleted, not moved to done/
	Poll        time.Duration // the folder is looked at this often whatever the file system's hints say; 2 s
	Logger      *slog.Logger  // discards when nil
}

// Consumer takes events. Several consumers, in one process or several, share an
// inbox; a consumer that locks consumer.lock for itself keeps all others out.
// It is safe for concurrent use.
//
// A claim is a lease and a rename: the lease says who owns the event and until
// when. A consumer that is killed loses its claims when the leases run out; the
// events are then pending again, and dead letters after MaxAttempts claims. So
// a consumer must be done within the lease, or renew it.
//
// Moves are synced by Ack, Nack and DeadLetter. A claim is not: a power cut can
// undo it, so a Brain that must never act twice keeps its own record of ids
// before it acknowledges.
type Consumer struct {
	dir    Dir
	opt    ConsumerOptions
	shared *os.File // held shared: no exclusive consumer
	moves  *os.File // locked for the moment of a move
	watch  *watch.Watch
	moving sync.Mutex // among goroutines what moves.lock is among processes

	claiming sync.Mutex // guards the fields below
	backlog  []Entry    // pending, in order, as of the last look
	reaped   time.Time

	token amp.IDs
}

// Event is a claimed event.
type Event struct {
	Item
	Attempts int // claims so far, with this one
	owner    string
}

// backlogSize is how many entries a consumer holds in memory.
const backlogSize = 20_000

// Consumer starts to consume. The error wraps [ErrTaken] when another consumer
// has the inbox to itself.
func (d Dir) Consumer(opt ConsumerOptions) (*Consumer, error) {
	if opt.Lease <= 0 {
		opt.Lease = time.Minute
	}
	if opt.MaxAttempts <= 0 {
		opt.MaxAttempts = 5
	}
	if opt.Poll <= 0 {
		opt.Poll = 2 * time.Second
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if _, err := Prepare(string(d)); err != nil {
		return nil, err
	}
	shared, err := os.OpenFile(filepath.Join(string(d), "consumer.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(shared.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		shared.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrTaken
		}
		return nil, fmt.Errorf("consuming %s: %w", d, err)
	}
	moves, err := os.OpenFile(filepath.Join(string(d), "moves.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		shared.Close()
		return nil, err
	}
	return &Consumer{dir: d, opt: opt, shared: shared, moves: moves, watch: watch.New(opt.Logger, d.path(Pending, ""))}, nil
}

// Close frees the consumer. Events it holds stay claimed until their leases run out.
func (c *Consumer) Close() error {
	return errors.Join(c.watch.Close(), c.moves.Close(), c.shared.Close())
}

// alone runs fn while no other consumer moves files.
func (c *Consumer) alone(fn func() error) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	for {
		err := unix.Flock(int(c.moves.Fd()), unix.LOCK_EX)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("locking the queue: %w", err)
		}
		break
	}
	defer unix.Flock(int(c.moves.Fd()), unix.LOCK_UN)
	return fn()
}

// Claim takes up to n pending events in the order of publication and waits for
// the first. Events that expired are moved to done/ unseen, files that hold no
// envelope become dead letters.
func (c *Consumer) Claim(ctx context.Context, n int) ([]*Event, error) {
	for {
		events, wake, err := c.tryClaim(n)
		if err != nil || len(events) > 0 {
			return events, err
		}
		pause := c.opt.Poll
		if !wake.IsZero() {
			pause = min(pause, max(time.Until(wake), time.Millisecond))
		}
		timer := time.NewTimer(pause)
		select {
		case <-c.watch.Hint:
		case <-timer.C:
			c.watch.Renew()
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// tryClaim claims what there is. Without any, it says when to try again at the
// latest, where a delayed event or a lease sets that time.
func (c *Consumer) tryClaim(n int) (events []*Event, wake time.Time, err error) {
	c.claiming.Lock()
	defer c.claiming.Unlock()
	if time.Since(c.reaped) > c.opt.Lease/4 || len(c.backlog) == 0 {
		if err := c.alone(func() error { wake, err = c.reap(); return err }); err != nil {
			return nil, wake, err
		}
		c.reaped = time.Now()
	}
	if len(c.backlog) == 0 {
		if c.backlog, err = c.dir.head(backlogSize); err != nil {
			return nil, wake, err
		}
	}
	err = c.alone(func() error {
		for len(events) < n && len(c.backlog) > 0 {
			entry := c.backlog[0]
			c.backlog = c.backlog[1:]
			event, notBefore, err := c.claim(entry)
			if err != nil {
				return err
			}
			if event != nil {
				events = append(events, event)
			}
			if !notBefore.IsZero() && (wake.IsZero() || notBefore.Before(wake)) {
				wake = notBefore
			}
		}
		return nil
	})
	if len(events) > 0 {
		err = nil // what is claimed is the caller's; the error comes again
	}
	return events, wake, err
}

// head returns the first pending entries in order. One scan of a folder may see
// a later file and miss an earlier one that appears meanwhile; so a first scan
// finds the latest, and a second takes what is not after it.
func (d Dir) head(n int) ([]Entry, error) {
	var latest Entry
	if err := d.walk(Pending, nil, func(e Entry) error {
		if Compare(e, latest) > 0 {
			latest = e
		}
		return nil
	}); err != nil || latest.Name == "" {
		return nil, err
	}
	first := smallest{order: Compare, max: n}
	err := d.walk(Pending, nil, func(e Entry) error {
		if Compare(e, latest) <= 0 {
			first.add(e)
		}
		return nil
	})
	return first.sorted(), err
}

// claim takes one entry; neither event nor error where it is not to be had now.
func (c *Consumer) claim(e Entry) (_ *Event, notBefore time.Time, _ error) {
	d := c.dir
	old, _, err := d.readLease(e.Name)
	if err != nil {
		return nil, notBefore, err
	}
	if time.Now().Before(old.NotBefore) {
		return nil, old.NotBefore, nil
	}
	if _, err := os.Lstat(d.path(Processing, e.Name)); err == nil {
		return nil, notBefore, nil // the same event is claimed: it came back while it was worked on
	}
	owner := c.token.New()
	l := lease{Owner: owner, Until: time.Now().Add(c.opt.Lease), Attempts: old.Attempts + 1, Reason: old.Reason}
	if err := d.writeLease(e.Name, l); err != nil {
		return nil, notBefore, err
	}
	if err := os.Rename(d.path(Pending, e.Name), d.path(Processing, e.Name)); err != nil {
		if missing(err) { // somebody else took or deleted it
			return nil, notBefore, d.dropLease(e.Name)
		}
		return nil, notBefore, err
	}
	e.Folder = Processing
	envelope, raw, err := d.read(e)
	if err != nil {
		return nil, notBefore, d.bury(e.Name, "not an envelope: "+err.Error(), l.Attempts)
	}
	if expire := envelope.Payload.ExpireAt; expire != nil && expire.Before(time.Now()) {
		return nil, notBefore, errors.Join(os.Rename(d.path(Processing, e.Name), d.path(Done, e.Name)), d.dropLease(e.Name))
	}
	return &Event{Item: Item{Entry: e, Envelope: envelope, Raw: raw}, Attempts: l.Attempts, owner: owner}, notBefore, nil
}

// reap takes back what consumers that died have claimed, and tells when the
// next lease runs out.
func (c *Consumer) reap() (next time.Time, err error) {
	d, now := c.dir, time.Now()
	err = d.names(Processing, func(name string) error {
		if _, _, ok := amp.ParseFileName(name); !ok {
			return nil
		}
		l, leased, err := d.readLease(name)
		if err != nil {
			return err
		}
		if !leased { // claimed without this package, or a power cut took the lease
			info, err := os.Lstat(d.path(Processing, name))
			if err != nil {
				return ignoreMissing(err)
			}
			l.Attempts, l.Until = 1, changed(info).Add(c.opt.Lease)
		}
		if l.Until.After(now) {
			if next.IsZero() || l.Until.Before(next) {
				next = l.Until
			}
			return nil
		}
		c.opt.Logger.Warn("inbox: a claim ran out", "event", name, "attempts", l.Attempts)
		why := "its consumer did not acknowledge it in time"
		return ignoreMissing(c.giveBack(name, l, why, time.Time{}))
	})
	if err != nil {
		return next, ignoreMissing(err)
	}
	return next, ignoreMissing(d.names(Leases, func(name string) error { // of events that are gone
		for _, folder := range []string{Pending, Processing} {
			if _, err := os.Lstat(d.path(folder, name)); err == nil {
				return nil
			}
		}
		return d.dropLease(name)
	}))
}

// giveBack makes a claimed event pending again, or a dead letter.
func (c *Consumer) giveBack(name string, l lease, why string, notBefore time.Time) error {
	d := c.dir
	if l.Attempts >= c.opt.MaxAttempts {
		return d.bury(name, fmt.Sprintf("given up after %d attempts: %s", l.Attempts, why), l.Attempts)
	}
	if err := d.writeLease(name, lease{Attempts: l.Attempts, Reason: why, NotBefore: notBefore}); err != nil {
		return err
	}
	return os.Rename(d.path(Processing, name), d.path(Pending, name))
}

// mine runs fn with each event's lease while its claim holds.
func (c *Consumer) mine(events []*Event, fn func(*Event, lease) error) error {
	var errs []error
	err := c.alone(func() error {
		for _, e := range events {
			l, _, err := c.dir.readLease(e.Name)
			if err == nil && l.Owner != e.owner {
				err = ErrLost
			}
			if err == nil {
				err = fn(e, l)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("event %s: %w", e.ID, err))
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// Ack says that events are dealt with: they go to done/, durably. The error
// wraps [ErrLost] for each that was not this consumer's any more.
func (c *Consumer) Ack(events ...*Event) error {
	err := c.mine(events, func(e *Event, _ lease) error {
		var err error
		if c.opt.Delete {
			err = os.Remove(c.dir.path(Processing, e.Name))
		} else {
			err = os.Rename(c.dir.path(Processing, e.Name), c.dir.path(Done, e.Name))
		}
		return errors.Join(err, c.dir.dropLease(e.Name))
	})
	return errors.Join(err, c.dir.sync(Processing, Done))
}

// Nack gives an event back: it is pending again after delay, or a dead letter
// when it was claimed MaxAttempts times. The reason is kept with it.
func (c *Consumer) Nack(e *Event, delay time.Duration, why string) error {
	err := c.mine([]*Event{e}, func(e *Event, l lease) error {
		return c.giveBack(e.Name, l, why, time.Now().Add(delay))
	})
	return errors.Join(err, c.dir.sync(Processing, Pending, Failed))
}

// DeadLetter puts an event into failed/, with the reason beside it.
func (c *Consumer) DeadLetter(e *Event, why string) error {
	err := c.mine([]*Event{e}, func(e *Event, l lease) error { return c.dir.bury(e.Name, why, l.Attempts) })
	return errors.Join(err, c.dir.sync(Processing, Failed))
}

// Renew makes a claim hold for d from now on.
func (c *Consumer) Renew(e *Event, d time.Duration) error {
	return c.mine([]*Event{e}, func(e *Event, l lease) error {
		l.Until = time.Now().Add(d)
		return c.dir.writeLease(e.Name, l)
	})
}

func (d Dir) sync(folders ...string) error {
	var errs []error
	for _, folder := range folders {
		f, err := os.Open(d.path(folder, ""))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, f.Sync(), f.Close())
	}
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if missing(err) {
		return nil
	}
	return err
}

// changed is when a file was last renamed or changed.
func changed(info os.FileInfo) time.Time {
	st := info.Sys().(*syscall.Stat_t)
	return time.Unix(st.Ctim.Unix())
}
