package journal

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// index is the memory of ids. An entry below the horizon counts as absent; such
// entries are removed when a tenth more than the limit have come together.
type index struct {
	entries map[Key]uint64 // position<<16 | owner
	max     int
	age     time.Duration
	horizon uint64
	last    uint64
	marks   []mark // one every markStep records, to turn the age into a position
}

type mark struct {
	pos  uint64
	time int64
}

const markStep = 1024

func newIndex(max int, age time.Duration) *index {
	return &index{entries: map[Key]uint64{}, max: max, age: age, horizon: 1}
}

func (x *index) lookup(k Key) (pos uint64, owner uint16, ok bool) {
	v, ok := x.entries[k]
	if pos = v >> 16; !ok || pos < x.horizon {
		return 0, 0, false
	}
	return pos, uint16(v), true
}

func (x *index) add(k Key, pos uint64, owner uint16, t time.Time) {
	if k != (Key{}) {
		x.entries[k] = pos<<16 | uint64(owner)
	}
	if n := len(x.marks); n == 0 || pos >= x.marks[n-1].pos+markStep {
		x.marks = append(x.marks, mark{pos, t.UnixNano()})
	}
	x.last = pos
	if pos > uint64(x.max) {
		x.horizon = max(x.horizon, pos-uint64(x.max)+1)
	}
	oldest := t.Add(-x.age).UnixNano()
	for len(x.marks) > 1 && x.marks[1].time < oldest {
		x.horizon = max(x.horizon, x.marks[1].pos)
		x.marks = x.marks[1:]
	}
	if len(x.entries) > x.max+x.max/10 {
		maps.DeleteFunc(x.entries, func(_ Key, v uint64) bool { return v>>16 < x.horizon })
	}
}

// sources holds the highest seq of each source.
type sources map[string]source

type source struct{ seq, pos uint64 }

// maxSources bounds the memory of sources: beyond it those silent longest are
// forgotten, and begin at 1 again.
const maxSources = 10_000

func (s sources) note(name string, seq, pos uint64) {
	if name == "" {
		return
	}
	old := s[name]
	s[name] = source{max(seq, old.seq), max(pos, old.pos)}
	if len(s) > maxSources {
		byAge := slices.SortedFunc(maps.Keys(s), func(a, b string) int { return cmp.Compare(s[a].pos, s[b].pos) })
		for _, name := range byAge[:len(byAge)/4] {
			delete(s, name)
		}
	}
}

// The summary of a full segment lets the journal start without reading bodies,
// and keeps the ids when the segment itself is dropped:
//
//	"auridsv1", first, last position, number of ids, number of sources;
//	ids of 32 bytes: key, position<<16|owner, time;
//	sources: length, name, seq, position (of all sources so far); crc32c of all
const idsMagic = "auridsv1"

type summary struct {
	first, last uint64
	ids         []idEntry
	sources     sources
}

type idEntry struct {
	key   Key
	value uint64
	time  int64
}

func idsPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d.ids", first))
}

// note adds a record. One without a key is in the summary only if it is the
// last: for its time.
func (s *summary) note(r *Record) {
	if n := len(s.ids); n > 0 && s.ids[n-1].key == (Key{}) {
		s.ids = s.ids[:n-1]
	}
	s.ids = append(s.ids, idEntry{r.Key, r.Pos<<16 | uint64(r.Owner), r.Time.UnixNano()})
	s.last = r.Pos
	s.sources.note(r.Source, r.Seq, r.Pos)
}

// write makes the summary durable under its name.
func (s *summary) write(dir string) (err error) {
	path := idsPath(dir, s.first)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	sum := crc32.New(castagnoli)
	buffered := bufio.NewWriterSize(f, 64<<10)
	out := io.MultiWriter(buffered, sum)
	le := binary.LittleEndian
	b := append([]byte(idsMagic), make([]byte, 0, 64)...)
	for _, v := range []uint64{s.first, s.last, uint64(len(s.ids)), uint64(len(s.sources))} {
		b = le.AppendUint64(b, v)
	}
	out.Write(b) // errors of a bufio.Writer stay until Flush
	for _, e := range s.ids {
		b = append(b[:0], e.key[:]...)
		b = le.AppendUint64(b, e.value)
		out.Write(le.AppendUint64(b, uint64(e.time)))
	}
	for name, src := range s.sources {
		b = le.AppendUint16(b[:0], uint16(len(name)))
		b = append(b, name...)
		b = le.AppendUint64(b, src.seq)
		out.Write(le.AppendUint64(b, src.pos))
	}
	buffered.Write(le.AppendUint32(nil, sum.Sum32()))
	if err := errors.Join(buffered.Flush(), f.Sync()); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

var errSummary = errors.New("is not a valid summary")

// CheckSummaries calls damaged with the name of each summary in dir that is not
// valid, and whether its segment is there, of which the next start makes it anew.
func CheckSummaries(dir string, damaged func(name string, again bool)) error {
	ids, err := list(dir, ".ids")
	if err != nil {
		return err
	}
	for _, first := range ids {
		_, err := readSummary(dir, first, func(Key, uint64, uint16, time.Time) {})
		if errors.Is(err, errSummary) {
			_, err := os.Stat(segmentPath(dir, first))
			damaged(filepath.Base(idsPath(dir, first)), err == nil)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) { // dropped in between
			return err
		}
	}
	return nil
}

// readSummary reads a summary whole; fn is called for each id once the file is
// known to be valid.
func readSummary(dir string, first uint64, fn func(k Key, pos uint64, owner uint16, t time.Time)) (*summary, error) {
	b, err := os.ReadFile(idsPath(dir, first))
	if err != nil {
		return nil, err
	}
	le, bad := binary.LittleEndian, fmt.Errorf("%s %w", idsPath(dir, first), errSummary)
	const head = 8 + 4*8
	if len(b) < head+4 || string(b[:8]) != idsMagic || crc32.Checksum(b[:len(b)-4], castagnoli) != le.Uint32(b[len(b)-4:]) {
		return nil, bad
	}
	s := &summary{first: le.Uint64(b[8:]), last: le.Uint64(b[16:]), sources: sources{}}
	ids, count := le.Uint64(b[24:]), le.Uint64(b[32:])
	if s.first != first || ids > uint64(len(b))/32 {
		return nil, bad
	}
	b = b[head : len(b)-4]
	entries, b := b[:ids*32], b[ids*32:]
	for range count {
		if len(b) < 2 || len(b) < 18+int(le.Uint16(b)) {
			return nil, bad
		}
		n := int(le.Uint16(b))
		s.sources[string(b[2:2+n])] = source{le.Uint64(b[2+n:]), le.Uint64(b[10+n:])}
		b = b[18+n:]
	}
	for ; len(entries) > 0; entries = entries[32:] {
		v := le.Uint64(entries[16:])
		fn(Key(entries[:16]), v>>16, uint16(v), time.Unix(0, int64(le.Uint64(entries[24:]))))
	}
	return s, nil
}
