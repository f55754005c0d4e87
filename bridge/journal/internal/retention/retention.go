// Package retention drops what is old of a journal: whole segments, the summaries
// of ids that are remembered no longer, and damaged parts that were kept aside.
package retention

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal/internal/ids"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
)

// Policy says what a journal may keep.
type Policy struct {
	Dir   string
	Bytes int64         // of segments, or a quarter of the disk where that is less
	Age   time.Duration // of segments and of damaged parts
}

// Dropped is a file that retention removed, or would.
type Dropped struct {
	Path  string
	Bytes int64
}

// Apply drops full segments that have a summary and no record after delivered, and
// summaries whose ids all lie below horizon (0: keeps all). The newest summary
// stays: it knows the seqs of all sources. A damaged part that was kept aside goes
// after its segment; see outlived. A dry run only tells.
func (p Policy) Apply(delivered, horizon uint64, dryRun bool) (dropped []Dropped, err error) {
	logs, err := segment.List(p.Dir)
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
	total, keep := int64(0), min(p.Bytes, space.Size(p.Dir)/4)
	for i := len(logs) - 1; i >= 0; i-- { // newest first
		path := segment.Path(p.Dir, logs[i])
		info, err := os.Stat(path)
		if err != nil {
			return dropped, err
		}
		total += info.Size()
		old := time.Since(info.ModTime()) > p.Age || total > keep
		if i == len(logs)-1 || !old || logs[i+1]-1 > delivered {
			continue
		}
		if _, err := os.Stat(ids.Path(p.Dir, logs[i])); err != nil {
			continue
		}
		if err := drop(path); err != nil {
			return dropped, err
		}
	}
	summaries, err := segment.ListNamed(p.Dir, ids.Suffix)
	if err != nil {
		return dropped, err
	}
	for i := 0; i+1 < len(summaries); i++ {
		if slices.Contains(logs, summaries[i]) || summaries[i+1] > horizon {
			continue
		}
		if err := drop(ids.Path(p.Dir, summaries[i])); err != nil {
			return dropped, err
		}
	}
	aside, err := p.outlived(logs)
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

// outlived are the damaged parts kept aside that are older than Age and whose
// segment is none of logs, and the copies of such parts that a crash left
// unfinished. Both have an age because a reader or a repair may be copying now.
func (p Policy) outlived(logs []uint64) (paths []string, err error) {
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		first, unfinished, ok := segment.ParseTorn(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) { // the copy has just been finished
			continue
		}
		if err != nil {
			return nil, err
		}
		age := time.Since(info.ModTime())
		if unfinished && age > copying || !unfinished && age > p.Age && !slices.Contains(logs, first) {
			paths = append(paths, filepath.Join(p.Dir, e.Name()))
		}
	}
	return paths, nil
}
