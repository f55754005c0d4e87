package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Delivered tells the journal that all records up to pos need no delivery any
// more. Segments with later ones are kept whatever their age.
func (j *Journal) Delivered(pos uint64) {
	j.mu.Lock()
	j.debts.paid(pos)
	j.mu.Unlock()
	j.delivered.Store(pos)
	poke(j.gotRoom)
}

// keep summarises segments as they become full and drops what is too old.
func (j *Journal) keep() {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	said := "" // the last failure, which comes again while the disk is full
	for {
		select {
		case <-j.closing:
			return
		case <-j.rotated:
		case <-tick.C:
		}
		err := j.summariseFull() // else it is tried again with the next one, and at start
		j.mu.Lock()
		horizon := j.index.horizon
		j.mu.Unlock()
		if _, e := retain(j.opt, j.delivered.Load(), horizon, false); e != nil {
			err = errors.Join(err, fmt.Errorf("dropping old segments: %w", e))
		}
		if err != nil && err.Error() != said {
			j.opt.Logger.Warn("journal: keeping what is old in order", "error", err)
			said = err.Error()
		}
	}
}

func (j *Journal) summariseFull() error {
	logs, err := list(j.opt.Dir, ".log")
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(logs); i++ {
		if _, err := os.Stat(idsPath(j.opt.Dir, logs[i])); err == nil {
			continue
		}
		if _, err := j.summarise(logs[i], logs[i+1], func(*Record) {}); err != nil {
			return fmt.Errorf("summary of a full segment: %w", err)
		}
	}
	return nil
}

// Dropped is a file that retention removed, or would.
type Dropped struct {
	Path  string
	Bytes int64
}

// Prune drops old segments of a journal that no process has open, by the
// options' KeepBytes and KeepAge; none that holds records after delivered, nor
// the last one. A dry run only tells which.
func Prune(opt Options, delivered uint64, dryRun bool) ([]Dropped, error) {
	opt.defaults()
	lock, err := Lock(filepath.Join(opt.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return retain(opt, delivered, 0, dryRun)
}

// retain drops full segments that have a summary, and summaries whose ids all
// lie below horizon (0: keeps all). The newest summary stays: it knows the
// seqs of all sources. What was kept aside of a segment goes after it; see
// outlived.
func retain(opt Options, delivered, horizon uint64, dryRun bool) (dropped []Dropped, err error) {
	logs, err := list(opt.Dir, ".log")
	if err != nil {
		return nil, err
	}
	drop := func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !dryRun {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		dropped = append(dropped, Dropped{path, info.Size()})
		return nil
	}
	total, keep := int64(0), min(opt.KeepBytes, DiskSize(opt.Dir)/4)
	for i := len(logs) - 1; i >= 0; i-- { // newest first
		path := segmentPath(opt.Dir, logs[i])
		info, err := os.Stat(path)
		if err != nil {
			return dropped, err
		}
		total += info.Size()
		old := time.Since(info.ModTime()) > opt.KeepAge || total > keep
		if i == len(logs)-1 || !old || logs[i+1]-1 > delivered {
			continue
		}
		if _, err := os.Stat(idsPath(opt.Dir, logs[i])); err != nil {
			continue
		}
		if err := drop(path); err != nil {
			return dropped, err
		}
	}
	ids, err := list(opt.Dir, ".ids")
	if err != nil {
		return dropped, err
	}
	for i := 0; i+1 < len(ids); i++ {
		if slices.Contains(logs, ids[i]) || ids[i+1] > horizon {
			continue
		}
		if err := drop(idsPath(opt.Dir, ids[i])); err != nil {
			return dropped, err
		}
	}
	aside, err := outlived(opt, logs)
	if err != nil {
		return dropped, err
	}
	for _, path := range aside {
		if err := drop(path); err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

// copying is longer than it takes to copy a damaged part aside.
const copying = time.Hour

// outlived are the damaged parts kept aside whose segment is none of logs and
// that are older than KeepAge, and copies of such that a crash left unfinished. A
// reader or a repair may be at one just now; so these have an age, too.
func outlived(opt Options, logs []uint64) (paths []string, err error) {
	entries, err := os.ReadDir(opt.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		unfinished := strings.Contains(name, ".torn"+copyMark)
		if !unfinished && !strings.HasSuffix(name, ".torn") {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) { // it has just become whole
			continue
		}
		if err != nil {
			return nil, err
		}
		age := time.Since(info.ModTime())
		first, _ := strconv.ParseUint(name[:min(20, len(name))], 10, 64)
		if unfinished && age > copying || !unfinished && age > opt.KeepAge && !slices.Contains(logs, first) {
			paths = append(paths, filepath.Join(opt.Dir, name))
		}
	}
	return paths, nil
}

// TornFiles lists the damaged parts kept aside in dir.
func TornFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var torn []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".torn") {
			torn = append(torn, e.Name())
		}
	}
	return torn, err
}
