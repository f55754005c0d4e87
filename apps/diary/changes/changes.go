// Package changes ties the change of a file to what is told of it: after a crash
// between the change and its telling it is still told, and what is to be told of a
// change that was not made is forgotten.
//
//	log := changes.New(dir, sumOf, tell)
//	err := log.Recover() // at the start
//	err = log.Do("2026-11-29", text, news, func() error { return write(text) })
//
// For the moment of the change its news are in a file of a folder. The package knows
// nothing of what is told, nor of the files themselves: it compares sums.
package changes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
)

// note is a change that is about to be made.
type note struct {
	Key    string          `json:"key"` // names it, in order: a ULID
	File   string          `json:"file"`
	Before string          `json:"before"` // sum of the file; empty: there is none
	After  string          `json:"after"`
	News   json.RawMessage `json:"news"`
}

// Sum is the sum of a file's content.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Log is a folder of notes, one file for each: KEY.json.
type Log struct {
	dir  string
	sum  func(file string) (string, error)
	tell func(key string, news json.RawMessage) error
}

// New makes a Log in dir, which is made with the first change. Sum is the sum of a
// file's present content, empty where there is no such file. Tell is called with the
// news of each change, and a key that names it: once for each, or again with the same
// key after a crash and after an error of tell.
func New(dir string, sum func(file string) (string, error), tell func(key string, news json.RawMessage) error) *Log {
	return &Log{dir, sum, tell}
}

// Do makes a change of a file by do, which leaves after in it, or removes it where after
// is nil; then it tells the news, or leaves that to the next [Log.Recover]. Its error
// means that nothing was changed and nothing will be told. Two changes of one file are
// not made at once.
func (l *Log) Do(file string, after []byte, news any, do func() error) (err error) {
	n := note{Key: ulid.Make().String(), File: file}
	if after != nil {
		n.After = Sum(after)
	}
	if n.Before, err = l.sum(file); err != nil {
		return err
	}
	if n.News, err = json.Marshal(news); err != nil {
		return err
	}
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if err := appkit.WriteFile(l.path(n.Key), raw); err != nil {
		return err
	}
	if err := do(); err != nil {
		_ = l.end(n) // if it stays, the next start sees that nothing was changed
		return err
	}
	_ = l.told(n) // if not, the next start tells
	return nil
}

// Recover tells of the changes that were made before a crash and not told, in order. A
// change was made if its file is as it left it, or as a later change found it.
func (l *Log) Recover() error {
	all, err := l.notes()
	if err != nil {
		return err
	}
	for i, n := range all {
		now, err := l.sum(n.File)
		if err != nil {
			return err
		}
		later := func(o note) bool { return o.File == n.File && o.Before == n.After }
		deal := l.end
		if now == n.After || slices.ContainsFunc(all[i+1:], later) {
			deal = l.told
		}
		if err := deal(n); err != nil {
			return err
		}
	}
	return nil
}

// notes are the notes there are, in order.
func (l *Log) notes() (all []note, err error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, e := range entries {
		key, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		raw, err := os.ReadFile(l.path(key))
		if err != nil {
			return nil, err
		}
		var n note
		if err := json.Unmarshal(raw, &n); err != nil || n.Key != key {
			return nil, fmt.Errorf("%s holds no change", l.path(key))
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b note) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

func (l *Log) path(key string) string { return filepath.Join(l.dir, key+".json") }

// told tells of a change, and forgets it.
func (l *Log) told(n note) error {
	if err := l.tell(n.Key, n.News); err != nil {
		return err
	}
	return l.end(n)
}

// end forgets a change.
func (l *Log) end(n note) error { return appkit.RemoveFile(l.path(n.Key)) }
