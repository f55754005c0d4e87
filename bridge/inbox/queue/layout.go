package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// The folders of an inbox.
const (
	Tmp        = "tmp"        // the platform's own: files that are not visible yet
	Pending    = "pending"    // events for the Brain
	Processing = "processing" // claimed
	Done       = "done"       // acknowledged
	Failed     = "failed"     // dead letters, each with a .reason beside it
	Rejected   = "rejected"   // events that were no envelopes
	Leases     = "leases"     // claims and attempts of consumers that use this package
)

var folders = []string{Tmp, Pending, Processing, Done, Failed, Rejected, Leases}

// Prepare makes the folders that are missing, 0700. It returns what is wrong
// with those that are there: another owner, or access for others.
func Prepare(dir string) (problems []string, err error) {
	for _, path := range append([]string{""}, folders...) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return problems, fmt.Errorf("making inbox folder: %w", err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return problems, err
		}
		if open := info.Mode().Perm() &^ 0o700; open != 0 {
			problems = append(problems, fmt.Sprintf("%s is open to others (mode %04o, want 0700)", path, info.Mode().Perm()))
		}
		if info.Mode().Perm()&0o700 != 0o700 {
			problems = append(problems, fmt.Sprintf("%s cannot be used by its owner (mode %04o, want 0700)", path, info.Mode().Perm()))
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
			problems = append(problems, fmt.Sprintf("%s belongs to user %d, not to user %d of this process", path, owner, os.Geteuid()))
		}
	}
	return problems, nil
}

// missing reports whether err is of a folder that is not there.
func missing(err error) bool { return errors.Is(err, os.ErrNotExist) }
