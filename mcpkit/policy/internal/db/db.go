// Package db opens the policy's database: one SQLite file that belongs to one
// process at a time.
//
//	db, err := db.Open("data/policy.db")
//	defer db.Close()
//
// It is in WAL mode with synchronous=FULL: a transaction that was committed has
// been synced, so it survives kill -9 and the loss of power. A commit costs one
// fsync. The file is readable by its owner alone. A file that is damaged, or that
// a newer platform wrote, is an error and stays as it is.
package db

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
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
// has to exist.
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
	// SQLite would make the file with the umask's mode.
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	pragmas := url.Values{"_pragma": {
		"busy_timeout(500)", "locking_mode(exclusive)", "journal_mode(wal)", "synchronous(full)", "trusted_schema(off)",
	}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: abs}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // one writer; the lock of the file is its connection's
	db.SetConnMaxLifetime(0)
	if err := migrate(db); err != nil {
		return nil, errors.Join(explain(err), db.Close())
	}
	return db, nil
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
		return fmt.Errorf("the file is damaged; move it away to begin anew, without what was approved and done: %s", strings.TrimSpace(err.Error()))
	}
	return err
}
