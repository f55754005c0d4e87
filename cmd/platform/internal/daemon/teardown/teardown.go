// Package teardown takes down in reverse order what was set up, each part under a
// name, within one bound of time. It does not know what the parts are.
package teardown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/go-multierror"
)

// Stack is what is to be taken down.
type Stack struct {
	Log *slog.Logger // gets at debug how long each step took

	steps []step
}

type step struct {
	name string
	do   func(context.Context) error
}

// Add puts the end of a part on the stack.
func (t *Stack) Add(name string, do func(context.Context) error) {
	t.steps = append(t.steps, step{name, do})
}

// lastMoment is what a step has after the bound to end by force.
const lastMoment = 3 * time.Second

// Run does all steps, also after one failed, within the bound altogether. One that
// does not heed it is left behind, so that what is below it is closed too.
func (t *Stack) Run(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	end := time.Now().Add(bound)
	var faults *multierror.Error
	for i := len(t.steps) - 1; i >= 0; i-- {
		begun, done := time.Now(), make(chan error, 1)
		go func() { done <- t.steps[i].do(ctx) }()
		var err error
		select {
		case err = <-done:
		case <-time.After(max(time.Until(end), 0) + lastMoment):
			err = errors.New("it does not end")
		}
		if err != nil {
			faults = multierror.Append(faults, fmt.Errorf("closing %s: %w", t.steps[i].name, err))
		}
		t.Log.Debug("closed", "part", t.steps[i].name, "took", time.Since(begun))
	}
	return faults.ErrorOrNil()
}
