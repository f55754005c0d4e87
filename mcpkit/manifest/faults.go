package manifest

import (
	"errors"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Fault is one thing that is wrong with a file.
type Fault = strict.Fault

// Faults are the faults that an error of this package joins.
func Faults(err error) []*Fault {
	var joined *multierror.Error
	var one *Fault
	switch {
	case errors.As(err, &joined):
		var out []*Fault
		for _, e := range joined.Errors {
			out = append(out, Faults(e)...)
		}
		return out
	case errors.As(err, &one):
		return []*Fault{one}
	}
	return nil
}

// Join makes one error of faults, or nil of none.
func Join(faults []*Fault) error {
	if len(faults) == 0 {
		return nil
	}
	e := &multierror.Error{ErrorFormat: func(errs []error) string {
		lines := make([]string, len(errs))
		for i, err := range errs {
			lines[i] = err.Error()
		}
		return strings.Join(lines, "\n")
	}}
	for _, f := range faults {
		e.Errors = append(e.Errors, f)
	}
	return e
}
