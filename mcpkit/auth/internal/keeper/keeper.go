// Package keeper keeps the authorization of one server: the newest record of the
// store that fits its configuration, in memory as long as the disk has no other,
// and the turn of whoever may change it.
//
// It makes no request, and does not know when a token is needed.
package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
)

// Keeper keeps the record of one server. It is safe for concurrent use.
type Keeper struct {
	store  *tokens.Store
	server string
	fits   func(*tokens.Record) bool
	secret func(values ...string)

	turn chan struct{} // has one token: who took it changes the record

	mu      sync.Mutex
	rec     *tokens.Record // as last read; nil means none; never changed in place
	fault   error          // why it could not be read
	stamp   string         // of the store, when rec was read
	checked time.Time      // when the stamp was last compared
	unsaved *tokens.Record // issued, and not on disk
}

// New makes a Keeper that has read nothing yet. Fits reports whether a record is
// for the server as it is configured now; secret is told the tokens and secrets of
// a record before it is used.
func New(store *tokens.Store, server string, fits func(*tokens.Record) bool, secret func(values ...string)) *Keeper {
	return &Keeper{store: store, server: server, fits: fits, secret: secret, turn: make(chan struct{}, 1)}
}

// recheck is how often the disk is looked at for what another process has stored.
const recheck = 500 * time.Millisecond

// Current is the record to use; nil if there is none. With fresh the disk is
// looked at in any case.
func (k *Keeper) Current(fresh bool) (*tokens.Record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !fresh && time.Since(k.checked) < recheck {
		return k.rec, k.fault
	}
	if stamp := k.store.Stamp(k.server); stamp != k.stamp || k.checked.IsZero() || k.fault != nil {
		k.rec, k.fault = k.find()
		k.stamp = stamp
	}
	k.checked = time.Now()
	return k.rec, k.fault
}

// find reads the newest record that fits the configuration.
func (k *Keeper) find() (*tokens.Record, error) {
	all, err := k.store.Find(k.server)
	for _, r := range all {
		if k.fits(r) {
			k.secret(r.Access, r.Refresh, r.Client.Secret)
			return r, nil
		}
	}
	return nil, err
}

// Stamp names the state of the store that the record was last read in.
func (k *Keeper) Stamp() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stamp
}

// Put stores r. Where that fails r is remembered: an issuer does not issue twice.
func (k *Keeper) Put(r *tokens.Record) error {
	err := k.store.Put(r)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.unsaved = r
		return err
	}
	k.unsaved, k.rec, k.fault = nil, r, nil
	k.stamp, k.checked = k.store.Stamp(k.server), time.Now()
	return nil
}

// Unsaved is the record that was issued and could not be stored, or nil.
func (k *Keeper) Unsaved() *tokens.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unsaved
}

// Forget drops what is kept in memory, so that the disk is read anew.
func (k *Keeper) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec, k.unsaved, k.checked = nil, nil, time.Time{}
}

// Lock makes the caller the only one, here and in other processes, who changes
// the record, until unlock is called. It waits as long as ctx allows.
func (k *Keeper) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release, err := k.store.Lock(ctx, k.server)
	if err != nil {
		<-k.turn
		return nil, err
	}
	return func() { release(); <-k.turn }, nil
}
