package authority

import (
	"slices"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// maxLearned is how many tokens, codes and secrets that came up at run time are
// kept out of what is written. They are short-lived: the oldest are given up.
const maxLearned = 512

// Secrets are what a redactor removes: the values of the manifests, and those
// that came up at run time.
type Secrets struct {
	redactor *redact.Redactor

	mu         sync.Mutex
	configured []string
	learned    []string
}

// NewSecrets makes r remove what is configured and learned from now on.
func NewSecrets(r *redact.Redactor) *Secrets { return &Secrets{redactor: r} }

// Configure replaces the secrets of the manifests.
func (s *Secrets) Configure(values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configured = values
	s.redactor.Set(slices.Concat(s.configured, s.learned))
}

// Learn adds secrets that came up at run time.
func (s *Secrets) Learn(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.learned)
	for _, v := range values {
		if v != "" && !slices.Contains(s.learned, v) {
			s.learned = append(s.learned, v)
		}
	}
	if n := len(s.learned); n == before {
		return
	} else if n > maxLearned {
		s.learned = slices.Clone(s.learned[n-maxLearned:])
	}
	s.redactor.Set(slices.Concat(s.configured, s.learned))
}
