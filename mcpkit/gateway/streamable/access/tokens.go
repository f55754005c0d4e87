package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
)

// Token is one entry of a file of tokens: a YAML list, mode 0600. The token itself
// is not in it.
//
//   - name: laptop
//     sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//     servers: [weather, "im.polaris.*"]
//     tools: ["*.get_*"]
//     approve: true
type Token struct {
	Name    string   `yaml:"name"`
	SHA256  string   `yaml:"sha256"`            // of the token, in hexadecimal
	Servers []string `yaml:"servers,omitempty"` // as in view.View, and so are the others
	Tools   []string `yaml:"tools,omitempty"`
	Only    string   `yaml:"only,omitempty"`
	Approve bool     `yaml:"approve,omitempty"`
}

// NewToken is a token that nobody can guess, and its hash for the file.
func NewToken() (token, sum string) {
	token = "aur_" + rand.Text() + rand.Text()
	return token, hash(token)
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Tokens are those of a file. A change of the file is seen within a second; one
// that cannot be read leaves the tokens of before in force.
type Tokens struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	looked time.Time
	stamp  string // of the file as it was read
	views  map[string]*view.View
	known  map[string]Token // as the views were made of them
}

// LookAgain is how long the file is taken to be as it was.
const LookAgain = time.Second

// OpenTokens reads a file of tokens.
func OpenTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: log, known: map[string]Token{}}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// View is what the holder of a token sees, or nil. It is the same as long as the
// token's entry is.
func (t *Tokens) View(token string) *view.View {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.looked) > LookAgain {
		if err := t.read(); err != nil {
			t.log.Error("the gateway's tokens stay as they were", "error", err)
		}
	}
	return t.views[hash(token)] // a hash is looked up: time tells nothing of a token
}

func (t *Tokens) read() error {
	t.looked = time.Now()
	info, err := os.Stat(t.path)
	if err != nil {
		return fmt.Errorf("reading the gateway's tokens: %w", err)
	}
	stamp := fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
	if stamp == t.stamp {
		return nil
	}
	raw, err := smallfile.Read(t.path, MaxTokens, smallfile.Private)
	if err != nil {
		return fmt.Errorf("reading the gateway's tokens: %w", err)
	}
	list, err := ParseTokens(t.path, raw)
	if err != nil {
		return err
	}
	views := make(map[string]*view.View, len(list))
	known := make(map[string]Token, len(list))
	for _, e := range list {
		known[e.SHA256] = e
		if old, ok := t.known[e.SHA256]; ok && fmt.Sprint(old) == fmt.Sprint(e) {
			views[e.SHA256] = t.views[e.SHA256]
			continue
		}
		views[e.SHA256] = &view.View{Client: e.Name, Servers: e.Servers, Tools: e.Tools, Only: e.Only, Approve: e.Approve}
	}
	t.views, t.known, t.stamp = views, known, stamp
	return nil
}

// MaxTokens is how large a file of tokens may be, in bytes.
const MaxTokens = 1 << 20

// ParseTokens reads the entries of a file with the name path and checks them.
func ParseTokens(path string, raw []byte) ([]Token, error) {
	var list []Token
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the gateway's tokens from %s: %w", path, err)
	}
	seen := map[string]bool{}
	for i, e := range list {
		if b, err := hex.DecodeString(e.SHA256); err != nil || len(b) != sha256.Size {
			return nil, fmt.Errorf("%s: entry %d has no sha256 of 64 hex digits", path, i+1)
		}
		if e.Name == "" || seen[e.Name] || seen[e.SHA256] {
			return nil, fmt.Errorf("%s: entry %d has no name of its own, or the token of another", path, i+1)
		}
		seen[e.Name], seen[e.SHA256] = true, true
		if err := (&view.View{Servers: e.Servers, Tools: e.Tools}).Check(); err != nil {
			return nil, fmt.Errorf("%s: entry %s: %w", path, e.Name, err)
		}
	}
	return list, nil
}
