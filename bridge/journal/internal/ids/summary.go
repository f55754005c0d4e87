package ids

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/bridge/internal/format"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

var table = crc32.MakeTable(crc32.Castagnoli)

const (
	summaryMagic = "auridsv1"

	// Suffix ends the names of summaries.
	Suffix = ".ids"
)

// Summary lists the ids of a full segment. With it the journal starts without
// reading bodies, and keeps the ids when the segment itself is dropped:
//
//	"auridsv1", first, last position, number of ids, number of sources;
//	ids of 32 bytes: key, position<<16|owner, time;
//	sources: length, name, seq, position (of all sources so far); crc32c of all
type Summary struct {
	First, Last uint64
	Sources     Sources // as of the last record
	ids         []idEntry
}

// Len is the number of ids in a summary that is to be written.
func (s *Summary) Len() int { return len(s.ids) }

type idEntry struct {
	key   segment.Key
	value uint64
	time  int64
}

// Path is that of the summary of the segment whose first record has the position first.
func Path(dir string, first uint64) string { return segment.Name(dir, first, Suffix) }

// note adds a record. One without a key is in the summary only if it is the
// last: for its time.
func (s *Summary) note(r *segment.Record) {
	if n := len(s.ids); n > 0 && s.ids[n-1].key == (segment.Key{}) {
		s.ids = s.ids[:n-1]
	}
	s.ids = append(s.ids, idEntry{r.Key, r.Pos<<16 | uint64(r.Owner), r.Time.UnixNano()})
	s.Last = r.Pos
	s.Sources.Note(r.Source, r.Seq, r.Pos)
}

// Write makes the summary durable under its name.
func (s *Summary) Write(dir string) (err error) {
	path := Path(dir, s.First)
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
	sum := crc32.New(table)
	buffered := bufio.NewWriterSize(f, 64<<10)
	out := io.MultiWriter(buffered, sum)
	le := binary.LittleEndian
	b := append([]byte(summaryMagic), make([]byte, 0, 64)...)
	for _, v := range []uint64{s.First, s.Last, uint64(len(s.ids)), uint64(len(s.Sources))} {
		b = le.AppendUint64(b, v)
	}
	out.Write(b) // errors of a bufio.Writer stay until Flush
	for _, e := range s.ids {
		b = append(b[:0], e.key[:]...)
		b = le.AppendUint64(b, e.value)
		out.Write(le.AppendUint64(b, uint64(e.time)))
	}
	for name, src := range s.Sources {
		b = le.AppendUint16(b[:0], uint16(len(name)))
		b = append(b, name...)
		b = le.AppendUint64(b, src.Seq)
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

// ErrInvalid says that a summary is damaged.
var ErrInvalid = errors.New("is not a valid summary")

// Check calls damaged with the name of each summary in dir that is not valid, and
// whether its segment is there, of which the next start makes the summary anew.
func Check(dir string, damaged func(name string, again bool)) error {
	ids, err := segment.ListNamed(dir, Suffix)
	if err != nil {
		return err
	}
	for _, first := range ids {
		_, err := Read(dir, first, func(segment.Key, uint64, uint16, time.Time) {})
		if errors.Is(err, ErrInvalid) {
			_, err := os.Stat(segment.Path(dir, first))
			damaged(filepath.Base(Path(dir, first)), err == nil)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) { // dropped in between
			return err
		}
	}
	return nil
}

// Read reads a summary whole; fn is called for each id once the file is
// known to be valid. That of a newer format is a [format.ErrNewer].
func Read(dir string, first uint64, fn func(k segment.Key, pos uint64, owner uint16, t time.Time)) (*Summary, error) {
	b, err := os.ReadFile(Path(dir, first))
	if err != nil {
		return nil, err
	}
	le, bad := binary.LittleEndian, fmt.Errorf("%s %w", Path(dir, first), ErrInvalid)
	if err := format.Check(Path(dir, first), b, summaryMagic); err != nil {
		return nil, err
	}
	const head = 8 + 4*8
	if len(b) < head+4 || string(b[:8]) != summaryMagic || crc32.Checksum(b[:len(b)-4], table) != le.Uint32(b[len(b)-4:]) {
		return nil, bad
	}
	s := &Summary{First: le.Uint64(b[8:]), Last: le.Uint64(b[16:]), Sources: Sources{}}
	ids, count := le.Uint64(b[24:]), le.Uint64(b[32:])
	if s.First != first || ids > uint64(len(b))/32 {
		return nil, bad
	}
	b = b[head : len(b)-4]
	entries, b := b[:ids*32], b[ids*32:]
	for range count {
		if len(b) < 2 || len(b) < 18+int(le.Uint16(b)) {
			return nil, bad
		}
		n := int(le.Uint16(b))
		s.Sources[string(b[2:2+n])] = Source{le.Uint64(b[2+n:]), le.Uint64(b[10+n:])}
		b = b[18+n:]
	}
	for ; len(entries) > 0; entries = entries[32:] {
		v := le.Uint64(entries[16:])
		fn(segment.Key(entries[:16]), v>>16, uint16(v), time.Unix(0, int64(le.Uint64(entries[24:]))))
	}
	return s, nil
}

// Summarise reads a full segment, whose records have positions below limit, and
// writes its summary, with the seqs of all sources known before it. It calls fn
// with each record, and keep with what is damaged.
func Summarise(dir string, first, limit uint64, fn func(*segment.Record), keep func([]segment.Damage) error) (*Summary, error) {
	s := &Summary{First: first, Last: first - 1, Sources: Sources{}}
	if before, err := segment.ListNamed(dir, Suffix); err == nil {
		if at, _ := slices.BinarySearch(before, first); at > 0 {
			older, err := Read(dir, before[at-1], func(segment.Key, uint64, uint16, time.Time) {})
			if err != nil {
				return nil, err
			}
			s.Sources = older.Sources
		}
	}
	_, damage, err := segment.Scan(dir, first, limit, func(r segment.Record) {
		s.note(&r)
		fn(&r)
	})
	if err != nil {
		return nil, err
	}
	if err := keep(damage); err != nil {
		return nil, err
	}
	return s, s.Write(dir)
}

// SummariseAll makes the summaries that are missing of the full segments in dir:
// all but the last. It calls keep with what is damaged.
func SummariseAll(dir string, keep func([]segment.Damage) error) error {
	logs, err := segment.List(dir)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(logs); i++ {
		if _, err := os.Stat(Path(dir, logs[i])); err == nil {
			continue
		}
		if _, err := Summarise(dir, logs[i], logs[i+1], func(*segment.Record) {}, keep); err != nil {
			return fmt.Errorf("summary of a full segment: %w", err)
		}
	}
	return nil
}
