// Package db opens the policy's database: one SQLite file that belongs to one
// process at a time.
//
//	db, err := db.Open("data/policy.db")
//	defer db.Close()
//
// It is in WAL mode with synchronous=FULL: a transaction that was committed has
// been synced, so it survives kill -9 and the loss of power. A commit costs one
// fsync. The file is readable by its owner alone. A file that is damaged or empty, or
// that a newer platform wrote, is an error and stays as it is: what guards calls does
// not begin anew without a word.
package db

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// ErrInUse is wrapped by Open where another process holds the file.
var ErrInUse = errors.New("the database is in use by another process")

// steps bring a database from one version of the schema to the next; its
// user_version counts the ones that were taken.
var steps = []string{`
CREATE TABLE pins (
	server TEXT NOT NULL, tool TEXT NOT NULL, hash TEXT NOT NULL, definition BLOB NOT NULL,
	actor TEXT NOT NULL, at INTEGER NOT NULL,
	PRIMARY KEY (server, tool));
CREATE TABLE pinned (server TEXT PRIMARY KEY, actor TEXT NOT NULL, at INTEGER NOT NULL);
CREATE TABLE approvals (
	id TEXT PRIMARY KEY, state TEXT NOT NULL, scope TEXT NOT NULL DEFAULT '',
	server TEXT NOT NULL, tool TEXT NOT NULL, hash TEXT NOT NULL, definition TEXT NOT NULL, causes INTEGER NOT NULL,
	arguments BLOB NOT NULL, cut INTEGER NOT NULL, size INTEGER NOT NULL, reason TEXT NOT NULL, risk TEXT NOT NULL, entrance TEXT NOT NULL, call_id TEXT NOT NULL,
	actor TEXT NOT NULL DEFAULT '', note TEXT NOT NULL DEFAULT '',
	created INTEGER NOT NULL, expires INTEGER NOT NULL, decided INTEGER NOT NULL DEFAULT 0);
CREATE INDEX approvals_of_call ON approvals (server, tool, hash, state);
CREATE INDEX approvals_by_state ON approvals (state, expires);
CREATE TABLE calls (
	key TEXT PRIMARY KEY, state TEXT NOT NULL,
	call_id TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL, hash TEXT NOT NULL, risk TEXT NOT NULL,
	started INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
	is_error INTEGER NOT NULL DEFAULT 0, fault BLOB, result BLOB, ref BLOB, sha256 TEXT NOT NULL DEFAULT '', size INTEGER NOT NULL DEFAULT 0);
CREATE INDEX calls_by_time ON calls (started);
`}

// Open opens the database at path, and makes it where there is none. The folder
// has to exist. Every page of the file is looked at.
func Open(path string) (_ *sql.DB, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("opening %s: %w", path, err)
		}
	}()
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	switch info, err := os.Stat(abs); {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(abs); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case info.Size() == 0:
		return nil, damaged("it is empty")
	}
	return open(abs)
}

// create makes a database under another name and gives it its own when it is whole, so
// that a file that is empty or half is never one that was about to be made.
func create(path string) error {
	fresh := path + ".new"
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} { // of a start that was killed
		if err := os.Remove(fresh + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// SQLite would make the file with the umask's mode.
	f, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db, err := open(fresh)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	if err := os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
		return err
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.Remove(fresh)
}

// open opens a file that is there.
func open(abs string) (*sql.DB, error) {
	pragmas := url.Values{"_pragma": {
		"busy_timeout(500)", "locking_mode(exclusive)", "journal_mode(wal)", "synchronous(full)", "trusted_schema(off)",
	}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: abs}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // one writer; the lock of the file is its connection's
	db.SetConnMaxLifetime(0)
	if err = check(db); err == nil {
		err = migrate(db)
	}
	if err != nil {
		return nil, errors.Join(explain(err), db.Close())
	}
	return db, nil
}

// check looks at every page.
func check(db *sql.DB) error {
	var found string
	if err := db.QueryRow("PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return damaged(found)
	}
	return nil
}

// migrate takes the steps that are missing. Its write takes the file's lock.
func migrate(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	var version int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(steps) {
		return fmt.Errorf("the file is of version %d; this platform knows up to %d", version, len(steps))
	}
	for _, step := range steps[version:] {
		if _, err := tx.Exec(step); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps))); err != nil {
		return err
	}
	return tx.Commit()
}

// explain gives the common failures a sentence of their own.
func explain(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w: %w", ErrInUse, err)
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return damaged(strings.TrimSpace(err.Error()))
	}
	return err
}

func damaged(how string) error {
	return fmt.Errorf("the file is damaged; move it away to begin anew, without what was approved and done: %s", how)
}
