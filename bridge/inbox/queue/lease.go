package queue

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"
)

// lease is what consumers remember of an event, in leases/ under its name. It
// is read and written only by the holder of the queue's lock.
type lease struct {
	Owner     string    `json:"owner,omitempty"` // of the claim; empty while nobody has it
	Until     time.Time `json:"until,omitzero"`
	NotBefore time.Time `json:"not_before,omitzero"`
	Attempts  int       `json:"attempts"`
	Reason    string    `json:"reason,omitempty"` // of the last failed attempt
}

// reason is the file beside a dead letter.
type reason struct {
	Reason   string    `json:"reason"`
	Attempts int       `json:"attempts"`
	Time     time.Time `json:"time"`
}

// readLease returns a zero lease where there is none. One that a crash left
// half-written counts as expired.
func (d Dir) readLease(name string) (l lease, found bool, err error) {
	raw, err := os.ReadFile(d.path(Leases, name))
	if missing(err) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	if json.Unmarshal(raw, &l) != nil {
		l = lease{Attempts: 1, Reason: "the claim was not completed"}
	}
	return l, true, nil
}

func (d Dir) writeLease(name string, l lease) error {
	return d.writeJSON(d.path(Leases, name), l)
}

func (d Dir) writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	err = os.WriteFile(path, raw, 0o600)
	if missing(err) {
		if _, err := Prepare(string(d)); err != nil {
			return err
		}
		err = os.WriteFile(path, raw, 0o600)
	}
	return err
}

func (d Dir) dropLease(name string) error {
	if err := os.Remove(d.path(Leases, name)); err != nil && !missing(err) {
		return err
	}
	return nil
}

func reasonName(name string) string { return strings.TrimSuffix(name, ".json") + ".reason" }

func (d Dir) readReason(name string) (r reason, err error) {
	raw, err := os.ReadFile(d.path(Failed, reasonName(name)))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// bury moves a claimed event to failed/, its reason first.
func (d Dir) bury(name, why string, attempts int) error {
	if err := d.writeJSON(d.path(Failed, reasonName(name)), reason{why, attempts, time.Now()}); err != nil {
		return err
	}
	return errors.Join(os.Rename(d.path(Processing, name), d.path(Failed, name)), d.dropLease(name))
}
