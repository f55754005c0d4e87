package pending

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

// Limit says how much may be in pending/, and what is done beyond.
type Limit struct {
	Files int64 // 0: any number
	Bytes int64 // of the files' contents, estimated by their mean size; 0: any
	Do    Action
}

// Action is what is done beyond a limit. Nothing is ever lost: what is not
// delivered is in the journal.
type Action uint8

const (
	// Block delivers no more until a tenth has gone. Publishers wait once
	// MaxLag records wait for their files.
	Block Action = iota
	// Spill moves events whose expire_at has passed to done/, where retention
	// removes them. Delivery goes on beyond the soft limit; beyond the hard
	// one it waits as with Block until that, or the Brain, has made room.
	Spill
)

func (l Limit) exceeded(files, bytes int64) bool {
	return l.Files > 0 && files >= l.Files || l.Bytes > 0 && bytes >= l.Bytes
}

// less is nine tenths of l.
func (l Limit) less() Limit {
	return Limit{(l.Files*9 + 9) / 10, (l.Bytes*9 + 9) / 10, l.Do}
}

// Room is how many files may be added now, besides a number of files, with their
// bytes, that are on their way; none, with the reason, while a limit blocks.
func (c *Counter) Room(coming, comingBytes int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, bytes := c.files()+coming, c.bytes()+comingBytes
	room, wasBlocked := int64(math.MaxInt32), c.blocked
	c.blocked = false
	for name, limit := range map[string]Limit{"soft": c.opt.Soft, "hard": c.opt.Hard} {
		effective := limit
		if wasBlocked {
			effective = limit.less()
		}
		over := effective.exceeded(files, bytes)
		if over && limit.Do == Spill {
			poke(c.spill)
		}
		switch {
		case limit.Do == Spill && name == "soft":
			c.sayOver(over, files)
		case over:
			c.blocked = true
			if c.recount != nil && time.Now().After(c.due) {
				c.recount()
				c.recount = nil
			}
			return 0, fmt.Errorf("pending holds %d files of about %d bytes, the %s limit is %s: nobody takes them", files, bytes, name, limit)
		case effective.Files > 0:
			room = min(room, effective.Files-files)
		}
	}
	return int(room), nil
}

func (l Limit) String() string {
	if l.Bytes == 0 {
		return fmt.Sprintf("%d files", l.Files)
	}
	return fmt.Sprintf("%d files, %d bytes", l.Files, l.Bytes)
}

func (c *Counter) sayOver(over bool, files int64) {
	if over && !c.over {
		c.opt.Logger.Warn("inbox: pending is above its soft limit", "files", files, "limit", c.opt.Soft.String())
	}
	c.over = over
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var never = time.Unix(1<<40, 0)

// SpillExpired moves expired events out of pending/ when it is asked to, and
// when there can be any.
func (c *Counter) SpillExpired(ctx context.Context) {
	for {
		select {
		case <-c.spill:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		due := !c.expiry.After(time.Now())
		if due {
			c.expiry = never
		}
		c.mu.Unlock()
		if !due {
			continue
		}
		start := time.Now()
		moved, next, err := c.spillOnce(ctx)
		if err != nil {
			c.opt.Logger.Warn("inbox: moving expired events", "error", err)
			next = time.Time{}
		}
		c.noteExpiry(next)
		if moved > 0 {
			c.spilled.Add(moved)
			c.opt.Logger.Info("inbox: moved expired events to done, as pending is above its limit", "events", moved)
		}
		select {
		case <-time.After(max(c.opt.Retry, 20*time.Since(start))):
		case <-ctx.Done():
			return
		}
	}
}

// noteExpiry says that a file that expires at t may be in pending/.
func (c *Counter) noteExpiry(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Before(c.expiry) {
		c.expiry = t
	}
}

// spillOnce goes through pending/ once. It returns when the first of the files
// that stay expires.
func (c *Counter) spillOnce(ctx context.Context) (moved int64, next time.Time, err error) {
	next = never
	err = folders.Each(c.dir, func(name string) {
		if ctx.Err() != nil || !strings.HasPrefix(name, folders.EventPrefix) {
			return
		}
		path := filepath.Join(c.dir, name)
		switch expire := expiryOf(path); {
		case expire.IsZero():
		case expire.After(time.Now()):
			if expire.Before(next) {
				next = expire
			}
		default:
			e := os.Rename(path, filepath.Join(c.opt.Dir, queue.Done, name))
			if e == nil {
				moved++
			} else if !errors.Is(e, fs.ErrNotExist) { // the Brain was faster
				err = e
			}
		}
	})
	return moved, next, err
}

// expiryOf is when an event's file expires; zero for never, and for a file that
// is gone or not one of ours.
func expiryOf(path string) time.Time {
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(raw, []byte(`"expire_at"`)) {
		return time.Time{}
	}
	var e amp.Envelope
	if json.Unmarshal(raw, &e) != nil || e.Payload.ExpireAt == nil {
		return time.Time{}
	}
	return e.Payload.ExpireAt.Time
}
