package queue

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Policy says what may stay. Zero fields are no limit.
type Policy struct {
	Age   time.Duration // since the event was published
	Bytes int64         // on the disk, in whole blocks
	Files int64
}

// Pruned is what was removed from a folder, or would be.
type Pruned struct {
	Folder string `json:"folder"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// prunable are the folders of things nobody waits for.
var prunable = []string{Done, Failed, Rejected}

// Prune removes the oldest files of done/, failed/ and rejected/ by a policy for
// each; never anything pending or claimed. A dry run only counts. Limits of
// size and number are met to the minute, and within the last hour to the second:
// files of one go together.
func (d Dir) Prune(policies map[string]Policy, dryRun bool) ([]Pruned, error) {
	var all []Pruned
	for _, folder := range slices.Sorted(maps.Keys(policies)) {
		if !slices.Contains(prunable, folder) {
			return all, fmt.Errorf("%s is not a folder that may be pruned: %s", folder, strings.Join(prunable, ", "))
		}
		p, err := d.prune(folder, policies[folder], dryRun)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (d Dir) prune(folder string, policy Policy, dryRun bool) (Pruned, error) {
	out := Pruned{Folder: folder}
	now := time.Now()
	var cut time.Time // files before this go by their age
	if policy.Age > 0 {
		cut = now.Add(-policy.Age)
	}
	each := func(fn func(path string, info os.FileInfo) error) error {
		return ignoreMissing(d.names(folder, func(name string) error {
			info, err := os.Lstat(d.path(folder, name))
			if err != nil || !info.Mode().IsRegular() || strings.HasSuffix(name, ".reason") {
				return ignoreMissing(err)
			}
			return fn(d.path(folder, name), info)
		}))
	}
	spans := map[span]sums{} // of what is young enough, so that a million files need no list
	if err := each(func(_ string, info os.FileInfo) error {
		if info.ModTime().Before(cut) {
			out.Files, out.Bytes = out.Files+1, out.Bytes+info.Size()
			return nil
		}
		s := spanOf(info.ModTime(), now)
		spans[s] = spans[s].plus(sums{1, info.Size(), onDisk(info)})
		return nil
	}); err != nil {
		return out, err
	}
	var kept sums
	for _, s := range slices.Backward(slices.SortedFunc(maps.Keys(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })) {
		kept = kept.plus(spans[s])
		if policy.Files > 0 && kept.files > policy.Files || policy.Bytes > 0 && kept.disk > policy.Bytes {
			if end := time.Unix(s.to, 0); end.After(cut) {
				cut = end // this one and all before
			}
		}
		if s.to <= cut.Unix() {
			out.Files, out.Bytes = out.Files+spans[s].files, out.Bytes+spans[s].bytes
		}
	}
	if dryRun || out.Files == 0 {
		return out, nil
	}
	out = Pruned{Folder: folder}
	err := each(func(path string, info os.FileInfo) error {
		if !info.ModTime().Before(cut) {
			return nil
		}
		if err := os.Remove(path); err != nil {
			return ignoreMissing(err)
		}
		if folder == Failed {
			if err := os.Remove(reasonName(path)); err != nil && !missing(err) {
				return err
			}
		}
		out.Files++
		out.Bytes += info.Size()
		return nil
	})
	return out, err
}

// sums are of files: their number, their size, and what they take of the disk.
type sums struct{ files, bytes, disk int64 }

func (s sums) plus(o sums) sums { return sums{s.files + o.files, s.bytes + o.bytes, s.disk + o.disk} }

// span is a minute, or a second of the last hour, in Unix time.
type span struct{ from, to int64 }

func spanOf(t, now time.Time) span {
	second := t.Unix()
	if now.Unix()-second < 3600 {
		return span{second, second + 1}
	}
	return span{second / 60 * 60, second/60*60 + 60}
}

// onDisk is what a file takes of the disk.
func onDisk(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return max(info.Size(), st.Blocks*512)
	}
	return info.Size()
}
