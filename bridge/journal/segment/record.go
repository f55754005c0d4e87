// Package segment is how a journal lies on the disk, and how it is read.
//
// A folder holds segments NNN.log, each named after the position of its first
// record, and NNN-OFFSET.torn, what had to be cut from a segment:
//
//	segment  64 bytes: "aurjrnl1", first position, zeros; then records, zeros
//	record   64 bytes: size, crc32c of all that follows, position, time, seq,
//	         key, lengths, kind, owner, expiry; then source, name and body,
//	         padded to 8 bytes
//
// A body is one line for each event, without a line end behind the last. Most
// records are one event; the steps of a call lie in the record of its end.
//
// A [Reader] gives the records in order, also while another process writes the
// journal, and steps over bytes that hold no valid record: see [Damage].
//
//	r, err := segment.OpenReader("data/journal", 1)
//	rec, err := r.Next() // io.EOF where the log ends at present
//
// The package writes no segment: package journal does.
package segment

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
)

// Key stands for an id in the journal's memory of ids.
type Key [16]byte

// KeyOf is the key of a message id: the bytes of a ULID or UUID, else half of
// the SHA-256 of the text.
func KeyOf(id string) Key {
	switch len(id) {
	case ulid.EncodedSize:
		if u, err := ulid.ParseStrict(id); err == nil {
			return Key(u)
		}
	case 36:
		if u, err := uuid.Parse(id); err == nil {
			return Key(u)
		}
	}
	sum := sha256.Sum256([]byte(id))
	return Key(sum[:16])
}

// Kind is what is to become of a record.
type Kind uint8

const (
	Deliver    Kind = 1 + iota // it goes to the Brain
	RecordOnly                 // it is kept for the audit
	Expired                    // it came too late to be delivered
)

func (k Kind) String() string {
	switch k {
	case Deliver:
		return "deliver"
	case RecordOnly:
		return "record"
	case Expired:
		return "expired"
	}
	return "unknown"
}

// Record is one event in the journal, with others that are recorded together with
// it: the steps of a call with its end.
type Record struct {
	Pos    uint64    // from 1, without gaps
	Time   time.Time // when it was queued; rises strictly
	Kind   Kind
	Key    Key       // zero: the record's id is not remembered
	Owner  uint16    // who the key belongs to
	Source string    // who Seq counts for; at most 64 KiB
	Seq    uint64    // of the event; rises by one per source and event
	Name   string    // under which it is delivered; at most 64 KiB
	Expire time.Time // zero: never
	Body   []byte    // at most MaxBody; its last line is the event, those before it the others
}

// Event is the event that the record is for: the last line of its body.
func (r *Record) Event() []byte {
	return r.Body[bytes.LastIndexByte(r.Body, '\n')+1:]
}

// First is the seq of the first of the record's events.
func (r *Record) First() uint64 {
	return r.Seq - uint64(bytes.Count(r.Body, []byte{'\n'}))
}

// Before are the events that are recorded with it, in order: the steps of a call.
func (r *Record) Before() iter.Seq[[]byte] {
	if r.First() == r.Seq {
		return func(func([]byte) bool) {}
	}
	return bytes.SplitSeq(bytes.TrimSuffix(r.Body[:len(r.Body)-len(r.Event())], []byte{'\n'}), []byte{'\n'})
}

// MaxBody bounds a record's body, in bytes.
const MaxBody = 256 << 20

// HeaderSize is that of a segment's header and of a record's, in bytes.
const HeaderSize = 64

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append encodes r at the end of b.
func (r *Record) Append(b []byte) []byte {
	start := len(b)
	var h [HeaderSize]byte
	le := binary.LittleEndian
	le.PutUint32(h[0:], uint32(len(r.Source)+len(r.Name)+len(r.Body)))
	le.PutUint64(h[8:], r.Pos)
	le.PutUint64(h[16:], uint64(r.Time.UnixNano()))
	le.PutUint64(h[24:], r.Seq)
	copy(h[32:], r.Key[:])
	le.PutUint16(h[48:], uint16(len(r.Source)))
	le.PutUint16(h[50:], uint16(len(r.Name)))
	h[52] = byte(r.Kind)
	le.PutUint16(h[54:], r.Owner)
	if !r.Expire.IsZero() {
		le.PutUint64(h[56:], uint64(r.Expire.UnixNano()))
	}
	b = append(b, h[:]...)
	b = append(b, r.Source...)
	b = append(b, r.Name...)
	b = append(b, r.Body...)
	le.PutUint32(b[start+4:], crc32.Checksum(b[start+8:], castagnoli))
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// recordSize is the size of the record whose header is h, padding included,
// or 0 when h cannot be the header of a record at or after position least.
func recordSize(h []byte, least uint64) int64 {
	le := binary.LittleEndian
	size, pos := int64(le.Uint32(h)), le.Uint64(h[8:])
	if pos < least || pos > least+1<<40 || pos == 0 || size > MaxBody+2<<16 || h[52] == 0 ||
		int64(le.Uint16(h[48:]))+int64(le.Uint16(h[50:])) > size {
		return 0
	}
	return (HeaderSize + size + 7) &^ 7
}

// decode reads the record at the beginning of b, which holds all of it. The
// record keeps b's bytes.
func decode(b []byte) (r Record, ok bool) {
	le := binary.LittleEndian
	end := HeaderSize + int(le.Uint32(b))
	if crc32.Checksum(b[8:end], castagnoli) != le.Uint32(b[4:]) {
		return r, false
	}
	r.Pos = le.Uint64(b[8:])
	r.Time = time.Unix(0, int64(le.Uint64(b[16:])))
	r.Seq = le.Uint64(b[24:])
	r.Key = Key(b[32:48])
	source := HeaderSize + int(le.Uint16(b[48:]))
	name := source + int(le.Uint16(b[50:]))
	r.Kind = Kind(b[52])
	r.Owner = le.Uint16(b[54:])
	if ns := le.Uint64(b[56:]); ns != 0 {
		r.Expire = time.Unix(0, int64(ns))
	}
	r.Source, r.Name, r.Body = string(b[HeaderSize:source]), string(b[source:name]), b[name:end:end]
	return r, true
}
