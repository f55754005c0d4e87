package policy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/internal/db"
	"github.com/aurorabot-dev/platform/mcpkit/policy/ledger"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// ErrStoreInUse is wrapped by OpenStore where another process holds the file.
var ErrStoreInUse = db.ErrInUse

// Store is what the policy keeps: questions and answers, the ledger, the
// approved definitions. It is one SQLite file, mode 0600, that one process holds
// at a time; each change is one transaction that is synced before it is told.
type Store struct {
	Approvals *approval.Desk
	Ledger    *ledger.Ledger
	Pins      *review.Pins

	db *sql.DB
}

// StoreOptions say how a Store works. The zero value will do.
type StoreOptions struct {
	// Redact takes secrets out of the arguments that people are shown and keeps
	// them JSON. nil keeps all.
	Redact func(json.RawMessage) json.RawMessage
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil is the real clock
}

// OpenStore opens the file at path and makes it where there is none. What an
// earlier process left is settled: approvals for its session expire, and its
// calls in flight are unknown.
func OpenStore(ctx context.Context, path string, o StoreOptions) (_ *Store, err error) {
	s := &Store{}
	if s.db, err = db.Open(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.db.Close())
		}
	}()
	if s.Approvals, err = approval.Open(ctx, s.db, approval.Options{Redact: o.Redact, Logger: o.Logger, Now: o.Now}); err != nil {
		return nil, err
	}
	if s.Ledger, err = ledger.Open(ctx, s.db, ledger.Options{Logger: o.Logger, Now: o.Now}); err != nil {
		return nil, err
	}
	if s.Pins, err = review.Open(ctx, s.db, review.Options{Logger: o.Logger, Now: o.Now}); err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the file. Whatever was told is in it already.
func (s *Store) Close() error { return s.db.Close() }
