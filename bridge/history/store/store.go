// Package store keeps the entries of the history in one SQLite file, with an index
// of their words and of all that they can be filtered by, and finds them again.
//
//	s, err := store.Open("data/state/history.db", "inbox")
//	err = s.Write(ctx, drafts, position)
//	list, err := s.List(ctx, store.Filter{Tool: "com.example.diary.delete"}, store.Page{Limit: 50})
//
// The file can be made again of the journal at any time, so it is written without
// waiting for the disk (WAL, synchronous=NORMAL: it survives kill -9, and after a loss
// of power it lacks the last entries), and no version of it is brought up to another.
// [Open] begins anew with a file that is damaged or older, and refuses a newer one.
//
// The table entries has one row for each entry. The table found has no text, only the
// posting lists of FTS5 with detail=none: of each word, and of one word of its own for
// each value that entries are filtered by. A filter of several values is therefore an
// intersection of such lists, and no scan.
package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/aurorabot-dev/platform/bridge/history/entry"
)

// version is that of the file's layout and of the words in it.
const version = 1

const layout = `
CREATE TABLE entries (
	id INTEGER PRIMARY KEY, time INTEGER NOT NULL, started INTEGER NOT NULL,
	kind TEXT NOT NULL, type TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL, caller TEXT NOT NULL, session TEXT NOT NULL,
	outcome TEXT NOT NULL, call_id TEXT NOT NULL, summary TEXT NOT NULL, risk TEXT NOT NULL, decision TEXT NOT NULL,
	actor TEXT NOT NULL, approval TEXT NOT NULL, error_code TEXT NOT NULL,
	duration INTEGER NOT NULL, waited INTEGER NOT NULL, size INTEGER NOT NULL, marks INTEGER NOT NULL, records BLOB NOT NULL);
CREATE INDEX entries_of_call ON entries (call_id) WHERE call_id <> '';
CREATE INDEX open_entries ON entries (id) WHERE marks & 8 <> 0;
CREATE VIRTUAL TABLE found USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), bus TEXT NOT NULL, position INTEGER NOT NULL, time INTEGER NOT NULL);
`

// What the bits of the column marks say.
const (
	markAsked = 1 << iota
	markGranted
	markQuestion
	markOpen
)

// ErrNewer is wrapped by Open and OpenReader where a newer platform wrote the file.
var ErrNewer = errors.New("a newer version of the platform wrote the history")

// ErrDamaged is wrapped by what meets a file that cannot be read, or is of an older
// version.
var ErrDamaged = errors.New("the history is damaged")

// Store is an open file. It is safe for concurrent use; one process at a time writes.
type Store struct {
	path  string
	write *sql.DB // nil for a reader
	read  *sql.DB
}

// Open opens the file at path for writing, and begins anew where there is none, where
// it is damaged or older, or where it is of another bus: then fresh says why.
func Open(path, bus string) (s *Store, fresh string, err error) {
	s, err = open(path, bus)
	switch {
	case err == nil, errors.Is(err, ErrNewer):
		return s, "", err
	case !errors.Is(err, ErrDamaged):
		return nil, "", err
	}
	fresh = err.Error()
	if err := Remove(path); err != nil {
		return nil, "", err
	}
	s, err = open(path, bus)
	return s, fresh, err
}

// Remove removes the file, with what SQLite keeps beside it.
func Remove(path string) error {
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.RemoveAll(path + end); err != nil {
			return fmt.Errorf("removing the history: %w", err)
		}
	}
	return nil
}

func open(path, bus string) (_ *Store, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would take the umask's mode
	if err == nil {
		err = errors.Join(f.Chmod(0o600), f.Close())
	}
	if err != nil {
		if info, e := os.Lstat(path); e == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%w: %s is no file", ErrDamaged, path)
		}
		return nil, fmt.Errorf("opening the history: %w", err)
	}
	s := &Store{path: path}
	if s.write, err = connect(path, 1, "rwc", "journal_mode(wal)", "synchronous(normal)"); err != nil {
		return nil, err
	}
	if err = s.prepare(bus); err == nil {
		s.read, err = connect(path, 4, "ro")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, explain(err)), s.Close())
	}
	return s, nil
}

// OpenReader opens the file at path without changing it. While no platform runs, it
// is as that left it.
func OpenReader(path string) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("opening the history: %w", err)
	}
	db, err := connect(path, 1, "ro")
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, read: db}
	var v int
	if err := db.QueryRow("PRAGMA user_version").Scan(&v); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, explain(err)), db.Close())
	}
	if err := compare(v); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), db.Close())
	}
	return s, nil
}

func connect(path string, conns int, mode string, pragmas ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {mode}, "_pragma": append([]string{"busy_timeout(5000)", "trusted_schema(off)", "cell_size_check(on)", "cache_size(-8000)", "temp_store(memory)"}, pragmas...)}
	if mode != "ro" {
		q["_txlock"] = []string{"immediate"}
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: abs}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// prepare makes the tables of a new file, and looks at those of another.
func (s *Store) prepare(bus string) error {
	tx, err := s.write.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	var v, tables int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&v); err != nil {
		return err
	}
	if err := tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if v == 0 && tables == 0 {
		if _, err := tx.Exec(layout + fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO state VALUES (1, ?, 0, 0)", bus); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := compare(v); err != nil {
		return err
	}
	var of string
	if err := tx.QueryRow("SELECT bus FROM state").Scan(&of); err != nil {
		return err
	}
	if of != bus {
		return fmt.Errorf("%w: it is of the journal of the bus %q, not of %q", ErrDamaged, of, bus)
	}
	return tx.Commit()
}

func compare(v int) error {
	switch {
	case v > version:
		return fmt.Errorf("%w: its version is %d, and this platform knows %d", ErrNewer, v, version)
	case v < version:
		return fmt.Errorf("%w: its version is %d, and this platform writes %d", ErrDamaged, v, version)
	}
	return nil
}

// explain tells damage from other failures.
func explain(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR: // the last: a table is missing
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: its state is missing", ErrDamaged)
	}
	return err
}

// Close frees the file.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// State is how far the journal was read: the bus, the position and the time of the
// last record.
func (s *Store) State(ctx context.Context) (bus string, position uint64, at time.Time, err error) {
	var ns int64
	err = s.read.QueryRowContext(ctx, "SELECT bus, position, time FROM state").Scan(&bus, &position, &ns)
	return bus, position, time.Unix(0, ns), explain(err)
}

// Write stores entries and says that the journal was read up to position, whose record
// is of the time at. It is one transaction.
func (s *Store) Write(ctx context.Context, drafts []entry.Draft, position uint64, at time.Time) (err error) {
	defer func() { err = explain(err) }()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// No statement here may be one that replaces rows: SQLite would begin a savepoint for
	// it, and FTS5 writes what it gathered to the disk at each savepoint.
	put, err := tx.PrepareContext(ctx, "INSERT OR IGNORE INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
	if err != nil {
		return err
	}
	defer put.Close()
	find, err := tx.PrepareContext(ctx, "INSERT OR IGNORE INTO found (rowid, words) VALUES (?,?)")
	if err != nil {
		return err
	}
	defer find.Close()
	for i := range drafts {
		d := &drafts[i]
		if d.Stored != 0 {
			for _, table := range []string{"entries WHERE id", "found WHERE rowid"} {
				if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" = ?", int64(d.Stored)); err != nil {
					return err
				}
			}
		}
		if _, err := put.ExecContext(ctx, int64(d.ID), d.Time.UnixNano(), d.Started.UnixNano(),
			d.Kind, d.Type, d.Server, d.Tool, d.Caller, d.Session, d.Outcome, d.CallID, d.Summary, d.Risk, d.Decision,
			d.Actor, d.Approval, d.ErrorCode, d.DurationMS, d.WaitedMS, d.Size, marks(&d.Entry), packed(d.Records)); err != nil {
			return err
		}
		if _, err := find.ExecContext(ctx, int64(d.ID), tokens(d)); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE state SET position = ?, time = ?", int64(position), at.UnixNano()); err != nil {
		return err
	}
	return tx.Commit()
}

// Prune removes the entries of records before position, at most so many at once, and
// reports whether there were no more.
func (s *Store) Prune(ctx context.Context, position uint64, most int) (done bool, err error) {
	defer func() { err = explain(err) }()
	limit := int64(entry.ID(position, 0))
	var last sql.NullInt64
	if err := s.read.QueryRowContext(ctx, "SELECT id FROM entries WHERE id < ? ORDER BY id LIMIT 1 OFFSET ?", limit, most).Scan(&last); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	if last.Valid {
		limit = last.Int64
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	for _, table := range []string{"found WHERE rowid IN (SELECT id FROM entries WHERE id < ?)", "entries WHERE id < ?"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table, limit); err != nil {
			return false, err
		}
	}
	return !last.Valid, tx.Commit()
}

func marks(e *entry.Entry) int {
	n := 0
	for i, set := range []bool{e.Asked, e.Granted, e.Question, e.Open} {
		if set {
			n |= 1 << i
		}
	}
	return n
}

// packed are rising positions as varints of their differences.
func packed(positions []uint64) []byte {
	b, last := []byte{}, uint64(0)
	for _, p := range positions {
		b, last = binary.AppendUvarint(b, p-last), p
	}
	return b
}

func unpacked(b []byte) []uint64 {
	var out []uint64
	for last := uint64(0); len(b) > 0; {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			break
		}
		last, b = last+d, b[n:]
		out = append(out, last)
	}
	return out
}
