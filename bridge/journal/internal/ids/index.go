// Package ids is what a journal remembers of its records without reading them
// again: which message ids it has, how far each source has counted, and the
// summaries of full segments in which both are kept on the disk.
package ids

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// Index finds the record of an id. An entry below the horizon counts as absent;
// such entries are removed when the map has a tenth more entries than the limit.
// It is not safe for concurrent use.
type Index struct {
	entries map[segment.Key]uint64 // position<<16 | owner
	max     int
	age     time.Duration
	horizon uint64
	marks   []mark    // one every markStep records, to turn the age into a position
	last    time.Time // of the last record, as its clock said
	passed  time.Time // of the last record, as the window counts
}

type mark struct {
	pos  uint64
	time int64
}

const markStep = 1024

// maxPause is how much time passes for the window between two records at most. A
// clock that is wrong for a while thus forgets no id; a journal to which little is
// written remembers its ids for longer than the age, up to their number.
const maxPause = time.Hour

// NewIndex is an empty index that reaches back over max records, and over age,
// whichever is less. The age is of time in which records are written: of a longer pause
// an hour counts, and of a clock that is put back nothing.
func NewIndex(max int, age time.Duration) *Index {
	return &Index{entries: map[segment.Key]uint64{}, max: max, age: age, horizon: 1}
}

// Len is the number of ids in memory.
func (x *Index) Len() int { return len(x.entries) }

// Horizon is the position from which on all ids are remembered.
func (x *Index) Horizon() uint64 { return x.horizon }

// Lookup finds the record with the key k, and who the key belongs to.
func (x *Index) Lookup(k segment.Key) (pos uint64, owner uint16, ok bool) {
	v, ok := x.entries[k]
	if pos = v >> 16; !ok || pos < x.horizon {
		return 0, 0, false
	}
	return pos, uint16(v), true
}

// Add remembers the record at pos, which is above all before. A zero key is not
// remembered, but moves the horizon.
func (x *Index) Add(k segment.Key, pos uint64, owner uint16, t time.Time) {
	if k != (segment.Key{}) {
		x.entries[k] = pos<<16 | uint64(owner)
	}
	if x.last.IsZero() {
		x.passed = t
	} else {
		x.passed = x.passed.Add(min(max(t.Sub(x.last), 0), maxPause))
	}
	x.last = t
	if n := len(x.marks); n == 0 || pos >= x.marks[n-1].pos+markStep {
		x.marks = append(x.marks, mark{pos, x.passed.UnixNano()})
	}
	if pos > uint64(x.max) {
		x.horizon = max(x.horizon, pos-uint64(x.max)+1)
	}
	oldest := x.passed.Add(-x.age).UnixNano()
	for len(x.marks) > 1 && x.marks[1].time < oldest {
		x.horizon = max(x.horizon, x.marks[1].pos)
		x.marks = x.marks[1:]
	}
	if len(x.entries) > x.max+x.max/10 {
		maps.DeleteFunc(x.entries, func(_ segment.Key, v uint64) bool { return v>>16 < x.horizon })
	}
}

// Sources holds the highest seq of each source.
type Sources map[string]Source

// Source is how far a source has counted.
type Source struct {
	Seq uint64
	pos uint64 // of its last record
}

// maxSources bounds the memory of sources: beyond it those silent longest are
// forgotten, and count from 1 again.
const maxSources = 10_000

// Note remembers the seq of a record of the source name at pos; an empty name is of none.
func (s Sources) Note(name string, seq, pos uint64) {
	if name == "" {
		return
	}
	old := s[name]
	s[name] = Source{max(seq, old.Seq), max(pos, old.pos)}
	if len(s) > maxSources {
		byAge := slices.SortedFunc(maps.Keys(s), func(a, b string) int { return cmp.Compare(s[a].pos, s[b].pos) })
		for _, name := range byAge[:len(byAge)/4] {
			delete(s, name)
		}
	}
}

// Merge adds what another memory of sources knows of one.
func (s Sources) Merge(name string, known Source) { s.Note(name, known.Seq, known.pos) }

// Summary is the index of all records up to last, and sources, as the summary of
// one segment. The time of an id is that of the nearest mark before it.
func (x *Index) Summary(last uint64, sources Sources) *Summary {
	s := &Summary{Last: last, Sources: maps.Clone(sources)}
	for k, v := range x.entries {
		if pos := v >> 16; pos >= x.horizon && pos <= last {
			s.ids = append(s.ids, idEntry{key: k, value: v})
		}
	}
	slices.SortFunc(s.ids, func(a, b idEntry) int { return cmp.Compare(a.value, b.value) })
	marks := x.marks
	for i := range s.ids {
		pos := s.ids[i].value >> 16
		if at := sort.Search(len(marks), func(k int) bool { return marks[k].pos > pos }); at > 0 {
			s.ids[i].time = marks[at-1].time
		} else {
			s.ids[i].time = time.Now().UnixNano()
		}
	}
	if len(s.ids) > 0 {
		s.First = s.ids[0].value >> 16
	}
	return s
}
