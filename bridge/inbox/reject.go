package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// maxRaw bounds what is kept of one rejected event; more is cut.
const maxRaw = 1 << 20

// rejects keeps rejected events as files, the latest up to a number and size.
type rejects struct {
	turn  chan struct{} // holds one token: the right to write
	files []rejectedFile
	bytes int64
}

type rejectedFile struct {
	name string
	size int64
}

func openRejects(opt Options) (*rejects, error) {
	r := &rejects{turn: make(chan struct{}, 1)}
	entries, err := os.ReadDir(filepath.Join(opt.Dir, queue.Rejected))
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // sorted by name, so by time
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), "rejected_") {
			r.files = append(r.files, rejectedFile{e.Name(), info.Size()})
			r.bytes += info.Size()
		}
	}
	r.turn <- struct{}{}
	return r, nil
}

// Reject keeps what came but is no envelope in rejected/, with the reason, and
// returns the file's name. Beyond MaxRejected and RejectedBytes the oldest go.
// It returns when the file is durable and waits while that is not possible.
func (x *Inbox) Reject(ctx context.Context, r bus.Rejected) (string, error) {
	if !x.door.Enter() {
		return "", ErrClosed
	}
	defer x.door.Leave()
	if len(r.Raw) > maxRaw || !json.Valid(r.Raw) || !utf8.Valid(r.Raw) {
		text := string(r.Raw[:min(len(r.Raw), maxRaw)])
		if len(r.Raw) > maxRaw {
			text += "… (cut)"
		}
		r.Raw, _ = json.Marshal(strings.ToValidUTF8(text, "\uFFFD")) // a string always marshals
	}
	body, err := json.MarshalIndent(struct {
		Time amp.Timestamp `json:"time"`
		bus.Rejected
	}{amp.Now(), r}, "", "  ")
	if err != nil {
		return "", err
	}
	select {
	case <-x.rejects.turn:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { x.rejects.turn <- struct{}{} }()
	name := "rejected_" + x.desk.NewID() + ".json"
	for {
		err := x.writeRejected(name, body)
		if err == nil {
			break
		}
		x.opt.Logger.Error("inbox: keeping a rejected event", "error", err)
		select {
		case <-time.After(x.opt.Retry):
		case <-x.door.Closing():
			return "", errors.Join(ErrClosed, err)
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), err)
		}
	}
	x.rejected.Add(1)
	x.trimRejected(rejectedFile{name, int64(len(body))})
	return name, nil
}

func (x *Inbox) writeRejected(name string, body []byte) error {
	tmp, dir := filepath.Join(x.opt.Dir, queue.Tmp, name), filepath.Join(x.opt.Dir, queue.Rejected)
	err := x.opt.Fault("inbox reject")
	if err == nil {
		err = folders.WriteSynced(tmp, body)
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(tmp)
		if errors.Is(err, os.ErrNotExist) { // somebody removed a folder
			queue.Prepare(x.opt.Dir)
		}
		return err
	}
	return durable.SyncDir(dir)
}

func (x *Inbox) trimRejected(added rejectedFile) {
	r := x.rejects
	r.files = append(r.files, added)
	r.bytes += added.size
	drop := 0
	for ; drop < len(r.files)-1 && (len(r.files)-drop > x.opt.MaxRejected || r.bytes > x.opt.RejectedBytes); drop++ {
		r.bytes -= r.files[drop].size
		if err := os.Remove(filepath.Join(x.opt.Dir, queue.Rejected, r.files[drop].name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			x.opt.Logger.Warn("inbox: dropping an old rejected event", "error", err)
		}
	}
	r.files = slices.Delete(r.files, 0, drop)
}
