// Package artifact keeps what is too large for an event as files that are named
// by the SHA-256 of their content.
//
//	store, err := artifact.Open("data/artifacts", artifact.Options{MaxSize: 64 << 20})
//	ref, err := store.Put(ctx, strings.NewReader(text), "text/plain")
//	f, err := store.Open(ref.SHA256)
//
// On disk, below the store's folder:
//
//	ab/abcdef…0123             the content, mode 0600
//	tmp/put-*                  what is being written; never a valid artifact
//
// A file that has its name is whole and survives power loss; the same content is
// kept once. The store knows nothing of what refers to its files: [Store.Prune]
// goes by age and size alone.
package artifact

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

var (
	// ErrTooLarge is wrapped by Put where the content exceeds Options.MaxSize.
	ErrTooLarge = errors.New("artifact too large")
	// ErrCorrupt is returned by a reader of Open whose content is not what its
	// name says.
	ErrCorrupt = errors.New("artifact is corrupt")
)

// Options bound a store. Zero means the default.
type Options struct {
	MaxSize int64 // bytes of one artifact; default 256 MiB
}

// Ref says where a content is.
type Ref struct {
	SHA256 string `json:"sha256"`         // lower-case hex
	Size   int64  `json:"size"`           // bytes
	MIME   string `json:"mime,omitempty"` // as the caller of Put gave it; not stored
	Path   string `json:"path"`           // of the file
}

// Store is a folder of artifacts. It is safe for concurrent use. Other processes
// may read the files; only one puts and prunes.
type Store struct {
	dir  string
	opts Options
	// touch keeps Prune from removing a file between the moment at which Put
	// finds it and the moment at which Put has made it young again.
	touch sync.Mutex
}

// Open makes a store of dir, which is created if need be, and removes what
// writers left behind that did not finish within an hour.
func Open(dir string, o Options) (*Store, error) {
	o.MaxSize = cmp.Or(o.MaxSize, 256<<20)
	s := &Store{dir: dir, opts: o}
	if err := os.MkdirAll(s.tmp(), 0o700); err != nil {
		return nil, fmt.Errorf("opening the artifact store: %w", err)
	}
	left, err := os.ReadDir(s.tmp())
	if err != nil {
		return nil, fmt.Errorf("opening the artifact store: %w", err)
	}
	for _, e := range left {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(filepath.Join(s.tmp(), e.Name()))
		}
	}
	return s, nil
}

func (s *Store) tmp() string { return filepath.Join(s.dir, "tmp") }

func (s *Store) path(hash string) string { return filepath.Join(s.dir, hash[:2], hash) }

// Put keeps what r holds and returns where. When it returns without an error the
// content is durable. On any error nothing is left behind.
func (s *Store) Put(ctx context.Context, r io.Reader, mime string) (ref Ref, err error) {
	defer func() {
		if err != nil {
			ref, err = Ref{}, fmt.Errorf("keeping an artifact: %w", err)
		}
	}()
	f, err := os.CreateTemp(s.tmp(), "put-*") // mode 0600
	if err != nil {
		return ref, err
	}
	defer func() {
		f.Close() // again, where all went well: harmless
		os.Remove(f.Name())
	}()
	h := sha256.New()
	limited := io.LimitReader(r, s.opts.MaxSize+1)
	n, err := io.Copy(io.MultiWriter(f, h), readerFunc(func(p []byte) (int, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		return limited.Read(p)
	}))
	if err != nil {
		return ref, err
	}
	if n > s.opts.MaxSize {
		return ref, fmt.Errorf("%w: over %d bytes", ErrTooLarge, s.opts.MaxSize)
	}
	hash := hex.EncodeToString(h.Sum(nil))
	ref = Ref{SHA256: hash, Size: n, MIME: mime, Path: s.path(hash)}

	if s.renew(ref) {
		return ref, nil
	}
	if err := f.Sync(); err != nil {
		return ref, err
	}
	if err := f.Close(); err != nil {
		return ref, err
	}
	folder := filepath.Dir(ref.Path)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return ref, err
	}
	// Also where the folder was there: who made it may not have come this far.
	if err := durable.SyncDir(s.dir); err != nil {
		return ref, err
	}
	if err := os.Rename(f.Name(), ref.Path); err != nil {
		return ref, err
	}
	return ref, durable.SyncDir(folder)
}

// renew reports whether the content is there already, and makes it young.
func (s *Store) renew(ref Ref) bool {
	s.touch.Lock()
	defer s.touch.Unlock()
	info, err := os.Stat(ref.Path)
	if err != nil || info.Size() != ref.Size {
		return false
	}
	now := time.Now()
	return os.Chtimes(ref.Path, now, now) == nil
}

// remove removes a file unless it was renewed since it was seen at that time.
func (s *Store) remove(path string, seen time.Time) (bool, error) {
	s.touch.Lock()
	defer s.touch.Unlock()
	info, err := os.Stat(path)
	if err == nil && info.ModTime().Equal(seen) {
		err = os.Remove(path)
		return err == nil, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Open returns a reader of the content with that hash. Its last Read fails with
// ErrCorrupt where the content is not what was put. The error wraps
// fs.ErrNotExist where there is none or hash is no hash.
func (s *Store) Open(hash string) (io.ReadCloser, error) {
	if !isHash(hash) {
		return nil, fmt.Errorf("opening artifact %.80q: %w", hash, fs.ErrNotExist)
	}
	f, err := os.Open(s.path(hash))
	if err != nil {
		return nil, fmt.Errorf("opening artifact %s: %w", hash, err)
	}
	h := sha256.New()
	read := func(p []byte) (int, error) {
		n, err := f.Read(p)
		h.Write(p[:n])
		if err == io.EOF && hex.EncodeToString(h.Sum(nil)) != hash {
			err = fmt.Errorf("artifact %s: %w", hash, ErrCorrupt)
		}
		return n, err
	}
	return struct {
		io.Reader
		io.Closer
	}{readerFunc(read), f}, nil
}

// Check reads the content with that hash in the store at dir, also while another
// process has it open. The error wraps fs.ErrNotExist where there is none, and
// ErrCorrupt where the content is not what was put.
func Check(dir, hash string) error {
	r, err := (&Store{dir: dir}).Open(hash)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}

// Policy says what Prune keeps. Zero values bound nothing.
type Policy struct {
	MaxAge   time.Duration // since the content was last put
	MaxTotal int64         // bytes of all artifacts together
	MinAge   time.Duration // what is younger is kept even over MaxTotal
	// Needed, if set, is asked once which of the contents that would go, by their
	// hashes, are kept all the same. Where it fails nothing is removed.
	Needed func(hashes []string) (map[string]bool, error)
}

// Pruned says what Prune did.
type Pruned struct {
	Removed      int   `json:"removed"`
	RemovedBytes int64 `json:"removed_bytes"`
	Kept         int   `json:"kept"`
	KeptBytes    int64 `json:"kept_bytes"`
	Needed       int   `json:"needed,omitempty"` // kept only because they are needed
}

// Prune removes what is older than the policy allows, and then the oldest until
// the rest fits. What it cannot remove it counts as kept and reports in the
// error; it goes on with the others.
func (s *Store) Prune(ctx context.Context, p Policy) (Pruned, error) {
	type file struct {
		hash string
		path string
		size int64
		time time.Time
	}
	var files []file
	var done Pruned
	var errs []error
	folders, err := os.ReadDir(s.dir)
	if err != nil {
		return done, fmt.Errorf("pruning artifacts: %w", err)
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(filepath.Join(s.dir, folder.Name()))
		if len(folder.Name()) != 2 || err != nil {
			continue
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !isHash(e.Name()) { // gone meanwhile, or not ours
				continue
			}
			files = append(files, file{e.Name(), s.path(e.Name()), info.Size(), info.ModTime()})
			done.Kept, done.KeptBytes = done.Kept+1, done.KeptBytes+info.Size()
		}
	}
	slices.SortFunc(files, func(a, b file) int { return a.time.Compare(b.time) })
	now := time.Now()
	goes := func(f file, kept int64) bool {
		age := now.Sub(f.time)
		return p.MaxAge > 0 && age > p.MaxAge || p.MaxTotal > 0 && kept > p.MaxTotal && age >= p.MinAge
	}
	var needed map[string]bool
	if p.Needed != nil {
		var hashes []string // of all that may go, also in the place of one that is needed
		for _, f := range files {
			if goes(f, done.KeptBytes) {
				hashes = append(hashes, f.hash)
			}
		}
		if len(hashes) > 0 {
			if needed, err = p.Needed(hashes); err != nil {
				return done, fmt.Errorf("pruning artifacts: finding which of them are needed: %w", err)
			}
		}
	}
	for _, f := range files {
		if err := context.Cause(ctx); err != nil {
			return done, fmt.Errorf("pruning artifacts: %w", err)
		}
		if !goes(f, done.KeptBytes) {
			continue
		}
		if needed[f.hash] {
			done.Needed++
			continue
		}
		removed, err := s.remove(f.path, f.time)
		if err != nil {
			errs = append(errs, fmt.Errorf("pruning artifacts: %w", err))
		}
		if !removed {
			continue
		}
		done.Kept, done.KeptBytes = done.Kept-1, done.KeptBytes-f.size
		done.Removed, done.RemovedBytes = done.Removed+1, done.RemovedBytes+f.size
	}
	return done, errors.Join(errs...)
}
