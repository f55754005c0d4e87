// Package large moves data that is too large for an envelope to a store, and makes what
// stands in its place.
//
//	k := large.New(large.Options{Max: 256 << 10, Store: store, Logger: log})
//	data = k.Bound(ctx, data)
//
// The content is part of its event: it is durable before the event is published.
package large

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

// maxPreview is how many bytes of large data stay with the event.
const maxPreview = 2000

// retryPause is how long a store that failed is left alone.
const retryPause = 500 * time.Millisecond

// Store keeps data durably and describes where as a JSON-able value.
type Store interface {
	Put(ctx context.Context, data []byte, mediaType string) (any, error)
}

// Data is what stands in for data that is too large for an envelope.
type Data struct {
	Truncated bool   `json:"truncated"`
	Size      int    `json:"size"`
	Preview   string `json:"preview"`
	Artifact  any    `json:"artifact,omitempty"`
}

// Keeper moves large data. It is safe for concurrent use.
type Keeper struct {
	max   int
	store Store
	log   *slog.Logger

	mu   sync.Mutex
	held int   // events that wait until their data can be kept
	why  error // of the latest of them
}

// New makes a Keeper for data of more than max bytes. Without a store large data is cut.
func New(max int, store Store, log *slog.Logger) *Keeper {
	return &Keeper{max: max, store: store, log: log}
}

// Bound is data, or what stands in for data that is too large.
func (k *Keeper) Bound(ctx context.Context, data json.RawMessage) json.RawMessage {
	if len(data) <= k.max {
		return data
	}
	head := strings.ToValidUTF8(string(data[:min(len(data), maxPreview+utf8.UTFMax)]), "\uFFFD")
	d := Data{Truncated: true, Size: len(data), Preview: Cut(head, maxPreview)}
	if k.store != nil {
		d.Artifact = k.keep(ctx, data)
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil
	}
	return raw
}

// keep puts data into the store and returns where it is. It tries until the content is
// durable: the event waits, like one that the bus does not take, and holds back its
// server. keep returns nil where the store never takes content of that size, and when
// ctx ends; in the latter case the envelope must not be published.
func (k *Keeper) keep(ctx context.Context, data json.RawMessage) any {
	held := false
	defer func() {
		if held {
			k.hold(-1, nil)
		}
	}()
	for {
		ref, err := k.store.Put(ctx, data, "application/json")
		switch {
		case err == nil:
			return ref
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, artifact.ErrTooLarge):
			k.log.Error("large data is cut, as the store takes none of that size", "size", len(data), "error", err)
			return nil
		case !held: // else it is said already
			held = true
			k.hold(1, err)
			k.log.Error("keeping large data failed, trying until it is kept", "size", len(data), "error", err)
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// hold notes that an event waits because of why, or that one waits no more.
func (k *Keeper) hold(n int, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held += n
	if why != nil {
		k.why = why
	}
}

// Held says why events wait for their large data to be kept, or nil where none does.
func (k *Keeper) Held() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == 0 {
		return nil
	}
	return fmt.Errorf("events wait, as their large data cannot be kept: %w", k.why)
}

// Cut shortens s to at most n bytes at a rune's edge.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
