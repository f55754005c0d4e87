package handshake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// EraInitialize is the era of a server that is to be greeted with initialize
// at once, because it does not stand the probe for the newer one.
const EraInitialize = "initialize"

// Eras remembers which servers to spare the probe. An empty era means that
// nothing is known. It is safe for concurrent use.
type Eras interface {
	Get(server string) string
	Set(server, era string) error
}

// NewEras remembers for the life of the process.
func NewEras() Eras { return &eras{known: map[string]string{}} }

// OpenEras remembers in the file at path, a JSON object from server to era with
// mode 0600, which is made when there is something to remember. A file that
// cannot be read as one is an error.
func OpenEras(path string) (Eras, error) {
	e := &eras{path: path, known: map[string]string{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading protocol eras: %w", err)
	}
	if err := json.Unmarshal(b, &e.known); err != nil {
		return nil, fmt.Errorf("reading protocol eras from %s: %w", path, err)
	}
	if e.known == nil { // the file says null
		e.known = map[string]string{}
	}
	return e, nil
}

type eras struct {
	path  string // empty: in memory alone
	mu    sync.Mutex
	known map[string]string
}

func (e *eras) Get(server string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[server]
}

// Set writes the file under the lock: it is small, and written once per server.
func (e *eras) Set(server, era string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known[server] == era {
		return nil
	}
	if era == "" {
		delete(e.known, server)
	} else {
		e.known[server] = era
	}
	if e.path == "" {
		return nil
	}
	b, err := json.MarshalIndent(e.known, "", "\t")
	if err == nil {
		err = durable.WriteFile(e.path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing protocol eras: %w", err)
	}
	return nil
}

// Probes knows which servers to spare the probe for the newest protocol. It is
// safe for concurrent use.
type Probes struct {
	eras Eras
	log  *slog.Logger

	mu       sync.Mutex
	suspects map[string]bool // servers that ended with the probe unanswered
}

// NewProbes remembers in eras.
func NewProbes(eras Eras, log *slog.Logger) *Probes {
	return &Probes{eras: eras, log: log, suspects: map[string]bool{}}
}

func (p *Probes) era(server string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspects[server] {
		return EraInitialize
	}
	return p.eras.Get(server)
}

func (p *Probes) learn(server, era string) {
	p.mu.Lock()
	delete(p.suspects, server)
	p.mu.Unlock()
	if err := p.eras.Set(server, era); err != nil {
		p.log.Warn("the protocol era of a server is not remembered", "server", server, "error", err)
	}
}

// suspect notes that a server ended with the probe unanswered. Only once
// it has taken initialize is that remembered for good: it may have ended for
// another reason.
func (p *Probes) suspect(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.suspects[server] = true
}

func (p *Probes) suspected(server string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspects[server]
}
