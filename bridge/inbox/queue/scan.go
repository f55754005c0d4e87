package queue

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/amp"
)

// found is a name in a folder.
type found struct {
	name, typ, id string
	inode         uint64
}

const scanBuffer = 1 << 20 // about 12,000 names

// scan calls fn with the events of a folder by their names, thousands at a time
// and in no order. Nothing but names was read. A folder that is not there is empty.
func (d Dir) scan(folder string, fn func(dir int, batch []found) error) error {
	f, err := os.Open(d.path(folder, ""))
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	buf := make([]byte, scanBuffer)
	for {
		n, err := unix.Getdents(int(f.Fd()), buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "getdents", Path: f.Name(), Err: err}
		}
		if n <= 0 {
			return nil
		}
		if err := fn(int(f.Fd()), parseNames(buf[:n])); err != nil {
			return err
		}
	}
}

// parseNames finds the names of events in what getdents64(2) gives: inode,
// offset, length of the entry, type, name.
func parseNames(b []byte) (batch []found) {
	const head = 19
	for len(b) > head {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= head || size > len(b) {
			return batch
		}
		name := b[head:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if kind := b[18]; kind == unix.DT_REG || kind == unix.DT_UNKNOWN {
			text := string(name)
			if typ, id, ok := amp.ParseFileName(text); ok {
				batch = append(batch, found{text, typ, id, binary.NativeEndian.Uint64(b)})
			}
		}
		b = b[size:]
	}
	return batch
}

// look calls fn with the entries of a batch, in the order of their inodes, which
// lie together on the disk. Files that are gone are left out.
func look(dir int, folder string, batch []found, fn func(Entry) error) error {
	slices.SortFunc(batch, func(a, b found) int { return cmp.Compare(a.inode, b.inode) })
	for _, f := range batch {
		var st unix.Stat_t
		err := unix.Fstatat(dir, f.name, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case errors.Is(err, unix.ENOENT) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
			continue
		case err != nil:
			return &os.PathError{Op: "stat", Path: f.name, Err: err}
		}
		if err := fn(Entry{folder, f.name, f.typ, f.id, time.Unix(st.Mtim.Unix()), st.Size}); err != nil {
			return err
		}
	}
	return nil
}

// many is from how many files on a folder is not looked at file by file, where
// that can be avoided; some is how many of these are read at first for those of
// one source. Tests have fewer.
var many, some = 50_000, 4096

// likely chooses, by names alone, the files of a large folder that are most
// likely the first in an order: by the times in their ids, which are ULIDs where
// the platform or its kit gave them, and UUIDs of version 7.
type likely struct {
	newest bool
	heap   smallest
}

func newLikely(newest bool, size int) *likely {
	l := &likely{newest: newest, heap: smallest{order: Compare, max: size}}
	if newest {
		l.heap.order = func(a, b Entry) int { return Compare(b, a) }
	}
	return l
}

// note takes up a batch and returns those whose ids hold no time: it may not
// choose among these.
func (l *likely) note(folder string, batch []found) (timeless []found) {
	for _, f := range batch {
		at, ok := timeOf(f.id)
		if !ok {
			timeless = append(timeless, f)
			continue
		}
		l.heap.add(Entry{Folder: folder, Name: f.name, Type: f.typ, ID: f.id, Time: at})
	}
	return timeless
}

// reach reports whether the files chosen go beyond an end of a time.
func (l *likely) reach(since, until time.Time) bool {
	if len(l.heap.heap) < l.heap.max {
		return true
	}
	last := l.heap.heap[0].Time
	if l.newest {
		return last.Before(since)
	}
	return !until.IsZero() && last.After(until)
}

// timeOf is the time in an id.
func timeOf(id string) (time.Time, bool) {
	if u, err := ulid.ParseStrict(id); err == nil {
		return ulid.Time(u.Time()), true
	}
	if u, err := uuid.Parse(id); err == nil && u.Version() == 7 {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(u[:8]) >> 16)), true
	}
	return time.Time{}, false
}
