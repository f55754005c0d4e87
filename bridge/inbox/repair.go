package inbox

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Repair is [Verify] that also does what can be done: what is damaged in the
// journal is copied aside, as a start does it, and a file that differs from its
// record is exchanged for one that does not. The file that was there is kept in
// rejected/. It may run beside a platform and a Brain: an event that the Brain
// takes meanwhile is left to it.
func Repair(opt Options) (*Report, error) { return compare(opt, true) }

// mend exchanges a file for one that holds what its record holds, in one step, so
// that a reader finds either, and a name that is gone stays so. It returns where
// the file that was there is kept.
func mend(dir, folder string, rec *segment.Record) (kept string, err error) {
	var ids amp.IDs
	kept = filepath.Join(queue.Rejected, "damaged_"+ids.New()+".json")
	path, aside := filepath.Join(dir, folder, rec.Name), filepath.Join(dir, kept)
	if err := errors.Join(os.MkdirAll(filepath.Dir(aside), 0o700), writeSynced(aside, rec.Body)); err != nil {
		return "", err
	}
	err = os.Chtimes(aside, rec.Time, rec.Time) // which shows the order
	if err == nil {
		err = durable.SyncDir(filepath.Dir(aside)) // so that no power cut leaves the old one's name alone
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return "", errors.Join(pathError("exchange", folder, rec.Name, err), os.Remove(aside))
	}
	now := time.Now() // it is kept as long as what is rejected now
	return kept, errors.Join(os.Chtimes(aside, now, now), durable.SyncDir(filepath.Dir(path)), durable.SyncDir(filepath.Dir(aside)))
}
