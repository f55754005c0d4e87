package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/stream"
)

// Position is that of the last event that is durable.
func (b *Backend) Position() uint64 { return b.o.Journal.Durable() }

// Events reads the journal as it grows.
func (b *Backend) Events(ctx context.Context, after uint64, alive time.Duration, emit func(*stream.Event) error) error {
	j := b.o.Journal
	r := j.Reader(after + 1)
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			if err := nextCommit(ctx, j, alive, emit); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the journal: %w", err)
		}
		part := 0
		for step := range rec.Before() {
			part++
			if err := emitted(&stream.Event{Position: rec.Pos, Part: part, Envelope: step}, emit); err != nil {
				return err
			}
		}
		if err := emitted(&stream.Event{Position: rec.Pos, Envelope: rec.Event(), Inbox: rec.Kind == segment.Deliver}, emit); err != nil {
			return err
		}
	}
}

// emitted emits an event under the type that its envelope has.
func emitted(e *stream.Event, emit func(*stream.Event) error) error {
	var env struct {
		Payload struct{ Type string }
	}
	if err := json.Unmarshal(e.Envelope, &env); err != nil {
		return fmt.Errorf("reading record %d of the journal: %w", e.Position, err)
	}
	e.Type = env.Payload.Type
	return emit(e)
}

// nextCommit waits until the journal grew, or says that it is waiting.
func nextCommit(ctx context.Context, j *journal.Journal, alive time.Duration, emit func(*stream.Event) error) error {
	wait, cancel := context.WithTimeout(ctx, alive)
	defer cancel()
	err := j.Wait(wait, j.Durable()+1)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil:
		return emit(nil)
	}
	return err
}
