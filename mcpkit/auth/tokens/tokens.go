// Package tokens keeps what authorization servers have issued: clients, access
// tokens and refresh tokens, each for one MCP server, one resource and one issuer.
//
//	store, err := tokens.Open("data/auth", nil)
//	unlock, err := store.Lock(ctx, "im.example")
//	defer unlock()
//	r, err := store.Get(tokens.Key{Server: "im.example", Resource: "https://example.com/mcp", Issuer: "https://id.example.com"})
//	r.Access = "…"
//	err = store.Put(r)
//
// A record answers only to the key it was put under: one that was renamed or
// copied in the folder is refused, so nothing is ever handed to another server,
// resource or issuer. A record is replaced whole, on disk before Put returns.
// On disk:
//
//	auth/                        mode 0700
//	  HASH-HASH.json             a record, mode 0600; the hashes are of the server, and of resource and issuer
//	  HASH.lock                  what two processes lock while they change records of one server
//
// With a key the confidential part is sealed with AES-256-GCM, bound to the
// record's key; a record from before there was a key is read, and sealed when it
// is next put. The package knows nothing of HTTP or OAuth's rules.
package tokens

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Key says for whom a record is. All three are compared byte for byte.
type Key struct {
	Server   string `json:"server"`   // the name in the manifest
	Resource string `json:"resource"` // RFC 8707, as the server publishes it or its URL
	Issuer   string `json:"issuer"`   // RFC 8414
}

// Record is what one authorization server has issued for one resource.
type Record struct {
	Key     Key       `json:"-"`
	Client  Client    `json:"client"`
	Updated time.Time `json:"-"` // when it was last put

	TokenEndpoint      string `json:"token_endpoint"`
	RevocationEndpoint string `json:"revocation_endpoint,omitempty"`

	Access   string    `json:"access_token,omitempty"`
	Refresh  string    `json:"refresh_token,omitempty"`
	Obtained time.Time `json:"obtained,omitzero"`
	Expiry   time.Time `json:"expiry,omitzero"` // zero: not known
	Scopes   []string  `json:"scopes,omitempty"`

	// Refused says that the resource did not accept Access, although it had not
	// expired. Wanted are scopes that it asked for and that are not granted.
	Refused bool     `json:"refused,omitempty"`
	Wanted  []string `json:"wanted,omitempty"`
	// Ended says why there are no tokens any more.
	Ended string `json:"ended,omitempty"`
}

// Client is this platform as the issuer knows it.
type Client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	Method string `json:"method,omitempty"` // of authentication at the token endpoint
	// RedirectURI is what a dynamically registered client was registered with;
	// empty for others.
	RedirectURI   string    `json:"redirect_uri,omitempty"`
	SecretExpires time.Time `json:"secret_expires,omitzero"`
}

var (
	// ErrNotFound says that there is no such record.
	ErrNotFound = errors.New("nothing is stored")
	// ErrSealed says that a record cannot be opened with the key there is, or
	// that there is none.
	ErrSealed = errors.New("the record is sealed with another key")
)

// MinKey is the least length of a key in bytes.
const MinKey = 32

// Store is a folder of records. It is safe for concurrent use, also by several
// processes.
type Store struct {
	dir string
	key []byte // of AES-256, or nil
}

// Open opens the store in dir, which is made where it is missing. From secret,
// at least [MinKey] bytes that are hard to guess, comes the key that records are
// sealed with; without one they are not sealed.
func Open(dir string, secret []byte) (*Store, error) {
	s := &Store{dir: dir}
	if secret != nil {
		if len(secret) < MinKey {
			return nil, fmt.Errorf("the key of the token store has %d bytes; it needs %d", len(secret), MinKey)
		}
		var err error
		if s.key, err = hkdf.Key(sha256.New, secret, nil, "aurora platform token store 1", 32); err != nil {
			return nil, fmt.Errorf("making the key of the token store: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the token store: %w", err)
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the token store: %w", err)
	}
	return s, s.sweep()
}

// sweep removes what writers that were killed have left behind.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("opening the token store: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), durable.TempPrefix) && time.Since(info.ModTime()) > time.Hour {
			os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
	return nil
}

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

// Sealed reports whether records are sealed when they are put.
func (s *Store) Sealed() bool { return s.key != nil }

func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

const ending = ".json"

func (s *Store) path(k Key) string {
	return filepath.Join(s.dir, hash(k.Server)+"-"+hash(k.Resource, k.Issuer)+ending)
}

// Get is the record of k, or an error that wraps ErrNotFound or ErrSealed.
func (s *Store) Get(k Key) (*Record, error) {
	r, err := s.read(s.path(k))
	if err == nil && r.Key != k {
		err = fmt.Errorf("%s holds the record of another server", s.path(k))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the tokens of %s: %w", k.Server, err)
	}
	return r, nil
}

// Find are the records of a server, of whatever resource and issuer, the newest
// first. Where one cannot be read there is an error besides those that can.
func (s *Store) Find(server string) ([]*Record, error) {
	paths, err := s.paths(server)
	if err != nil {
		return nil, fmt.Errorf("reading the token store: %w", err)
	}
	var found []*Record
	var faults []error
	for _, path := range paths {
		r, err := s.read(path)
		if errors.Is(err, ErrNotFound) {
			continue // it was removed just now
		}
		if err == nil && (s.path(r.Key) != path || r.Key.Server != server) {
			err = errors.New("it is the record of another server")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("reading %s: %w", path, err))
			continue
		}
		found = append(found, r)
	}
	slices.SortStableFunc(found, func(a, b *Record) int { return b.Updated.Compare(a.Updated) })
	return found, errors.Join(faults...)
}

// paths are the files of a server's records.
func (s *Store) paths(server string) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), hash(server)+"-") && strings.HasSuffix(e.Name(), ending) {
			paths = append(paths, filepath.Join(s.dir, e.Name()))
		}
	}
	return paths, err
}

// Stamp changes whenever a record of the server does. It reads no record.
func (s *Store) Stamp(server string) string {
	paths, err := s.paths(server)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok { // a replaced file has another inode, whatever its time
			fmt.Fprintf(&b, "%s %d %d %d\n", path, st.Ino, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// Put stores r under its key. When it has returned nil, r is there after power
// loss too.
func (s *Store) Put(r *Record) error {
	k := r.Key
	if k.Server == "" || k.Resource == "" || k.Issuer == "" {
		return fmt.Errorf("storing the tokens of %q: server, resource and issuer are needed", k.Server)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("storing the tokens of %s: %w", k.Server, err)
	}
	f := file{Format: 1, Key: k, Updated: time.Now().UTC()}
	if s.key == nil {
		f.Body = body
	} else if f.Sealed, err = seal(s.key, k, body); err != nil {
		return fmt.Errorf("sealing the tokens of %s: %w", k.Server, err)
	}
	raw, err := json.Marshal(f)
	if err == nil {
		err = durable.WriteFile(s.path(k), append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("storing the tokens of %s: %w", k.Server, err)
	}
	r.Updated = f.Updated
	return nil
}

// Delete removes the record of k. One that is not there is no error.
func (s *Store) Delete(k Key) error {
	if err := durable.RemoveFile(s.path(k)); err != nil {
		return fmt.Errorf("removing the tokens of %s: %w", k.Server, err)
	}
	return nil
}

// lockPoll is how often a lock that another holds is tried.
const lockPoll = 20 * time.Millisecond

// Lock keeps everybody else, in this process and in others, from changing the
// records of the server until unlock is called. It waits as long as ctx allows.
func (s *Store) Lock(ctx context.Context, server string) (unlock func(), err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("locking the tokens of %s: %w", server, err)
		}
	}()
	f, err := os.OpenFile(filepath.Join(s.dir, hash(server)+".lock"), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		switch err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}

// file is a record on disk. Exactly one of Body and Sealed is there.
type file struct {
	Format  int             `json:"format"`
	Key     Key             `json:"key"`
	Updated time.Time       `json:"updated"`
	Body    json.RawMessage `json:"record,omitempty"`
	Sealed  []byte          `json:"sealed,omitempty"`
}

const maxFile = 1 << 20

func load(path string) (f file, err error) {
	fd, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return f, ErrNotFound
	}
	if err != nil {
		return f, err
	}
	defer fd.Close()
	info, err := fd.Stat()
	if err != nil {
		return f, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return f, fmt.Errorf("it has mode %04o, so that others may have read or changed it: log in again, or chmod 600 %s", mode, path)
	}
	raw, err := io.ReadAll(io.LimitReader(fd, maxFile))
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, errors.New("it is damaged") // the cause would quote it
	}
	if f.Format != 1 {
		return f, fmt.Errorf("its format %d is not known", f.Format)
	}
	return f, nil
}

func (s *Store) read(path string) (*Record, error) {
	f, err := load(path)
	if err != nil {
		return nil, err
	}
	body := []byte(f.Body)
	if len(f.Sealed) > 0 {
		if s.key == nil {
			return nil, fmt.Errorf("%w: there is no key", ErrSealed)
		}
		if body, err = open(s.key, f.Key, f.Sealed); err != nil {
			return nil, err
		}
	}
	r := &Record{}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, errors.New("it is damaged")
	}
	r.Key, r.Updated = f.Key, f.Updated
	return r, nil
}

// Grants reports whether all of scopes are granted.
func (r *Record) Grants(scopes []string) bool {
	return Contain(r.Scopes, scopes)
}

// Contain reports whether each scope of some is one of all.
func Contain(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// Union is all scopes of lists, each once, in order.
func Union(lists ...[]string) []string {
	var out []string
	for _, s := range slices.Concat(lists...) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Skew is how long before its end a token counts as expired, unless it lives
// less than four times that.
const Skew = time.Minute

// Fresh reports whether the access token can be used at a time: it is there, was
// not refused and does not expire within [Skew].
func (r *Record) Fresh(now time.Time) bool {
	if r == nil || r.Access == "" || r.Refused {
		return false
	}
	if r.Expiry.IsZero() {
		return true
	}
	skew := Skew
	if !r.Obtained.IsZero() {
		skew = max(0, min(skew, r.Expiry.Sub(r.Obtained)/4))
	}
	return now.Before(r.Expiry.Add(-skew))
}
