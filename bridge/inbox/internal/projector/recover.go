package projector

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/aurorabot-dev/platform/bridge/inbox/internal/checkpoint"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// Open completes what the last process left. tmpGone says that tmp/ was not there
// at the start, so that it cannot tell what was visible.
func Open(opt Options, tmpGone bool) (_ *Projector, err error) {
	p := &Projector{opt: opt, limit: opt.Batch}
	p.pacer = pacer{opt: &p.opt, backlog: p.Backlog}
	p.cp.Syncs = opt.Syncs
	dir := opt.JournalDir
	cp, turn, err := checkpoint.Read(dir)
	if err != nil {
		return nil, err
	}
	p.cp.Turn = turn
	if p.dirs, err = folders.Open(opt.Inbox, opt.Syncs); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.dirs.Close()
			p.cp.Close()
		}
	}()
	p.settled.Store(cp.Projected)
	end, _ := opt.Journal.End()
	switch {
	case turn == 0 && end > 0:
		opt.Problem("the checkpoint of the journal is missing: events that are in no folder are delivered, perhaps again")
		p.doubt = end
	case cp.Projected > end:
		opt.Problem(fmt.Sprintf("the journal ends at %d, but files were made up to %d: parts of it are gone", end, cp.Projected))
		p.settled.Store(end)
	case cp.Intent > cp.Projected && tmpGone:
		opt.Problem("the folder tmp was removed: events that are in no folder are delivered, perhaps again")
		p.doubt = cp.Intent
	case cp.Intent > cp.Projected:
		if err := p.finish(min(cp.Intent, end)); err != nil {
			return nil, err
		}
		opt.Logger.Info("inbox: completed what the last process left", "to", p.settled.Load(), "restarted", cp.Boot != checkpoint.BootID())
	}
	if err := p.dirs.Clear(""); err != nil {
		return nil, err
	}
	p.pos = p.settled.Load()
	p.visible.Store(p.pos)
	if err := p.cp.Renew(dir, p.pos); err != nil {
		return nil, err
	}
	opt.Journal.Delivered(p.pos)
	p.reader = opt.Journal.Reader(p.pos + 1)
	return p, nil
}

// finish renames the files of an intent that are still in tmp/. Those that are
// not there have been visible.
func (p *Projector) finish(intent uint64) error {
	r := p.opt.Journal.Reader(p.settled.Load() + 1)
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) || err == nil && rec.Pos > intent {
			break
		}
		if err != nil {
			return err
		}
		if rec.Kind != segment.Deliver {
			continue
		}
		if _, err := p.dirs.Publish(rec.Name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := p.dirs.SyncPending(); err != nil {
		return err
	}
	p.settled.Store(intent)
	return nil
}

// reset gets back to a known state after a failed attempt: the folders are
// there, what is visible is durable, the checkpoint says so without an intent,
// and tmp/ is empty. The files that are not visible are then made anew, since
// one whose sync failed must not be trusted.
func (p *Projector) reset() error {
	problems, err := queue.Prepare(p.opt.Inbox)
	if err != nil {
		return err
	}
	for _, text := range problems {
		p.opt.Problem(text)
	}
	fresh, err := folders.Open(p.opt.Inbox, p.opt.Syncs)
	if err != nil {
		return err
	}
	p.dirs.Close()
	p.dirs = fresh
	if err := p.opt.Fault("inbox folder sync"); err != nil {
		return err
	}
	if err := p.dirs.SyncPending(); err != nil {
		return err
	}
	if err := p.opt.Fault("inbox checkpoint"); err != nil {
		return err
	}
	if err := p.cp.Renew(p.opt.JournalDir, p.pos); err != nil {
		return err
	}
	if err := p.dirs.Clear(folders.EventPrefix); err != nil {
		return err
	}
	p.reader.Close()
	p.reader = p.opt.Journal.Reader(p.pos + 1)
	p.dirty, p.recent = false, nil
	p.visible.Store(p.pos)
	p.advance(p.pos)
	p.opt.Moved()
	return nil
}
