package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
)

const stateFile = "clock.json"

// state is all that survives a restart: one small file, replaced as a whole.
type state struct {
	Version int    `json:"version"`
	LastID  int64  `json:"last_id"` // numbers are never given twice: events are told apart by them
	Items   []Item `json:"items"`   // what is active
	Rings   []Ring `json:"rings"`   // what has rung and is not yet handed over
}

// lock makes this process the only one that keeps its state in dir, until the
// file is closed or the process is dead: two hosts may start the same app.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "clock.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the alarms: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another clock keeps its alarms in %s: end it, or give this one a folder of its own", dir)
		}
		return nil, fmt.Errorf("locking the alarms: %w", err)
	}
	leftovers, _ := filepath.Glob(filepath.Join(dir, ".tmp-*")) // of writes that were killed
	for _, path := range leftovers {
		_ = os.Remove(path) // in nobody's way, so it may stay
	}
	return f, nil
}

// load reads the state in dir; there is none at first. A state that cannot be
// read is an error and stays where it is: starting empty would lose alarms.
func load(dir string) (*state, error) {
	path := filepath.Join(dir, stateFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &state{Version: 1}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the alarms: %w", err)
	}
	var st state
	if err := json.Unmarshal(raw, &st); err != nil {
		return nil, fmt.Errorf("reading the alarms in %s (repair it, or move it away to begin with none): %w", path, err)
	}
	if st.Version != 1 {
		return nil, fmt.Errorf("reading the alarms in %s: version %d is not known here", path, st.Version)
	}
	return &st, nil
}

// save replaces the state in dir. After it returns nil the state survives a
// power cut; after an error the one before is whole.
func (st *state) save(dir string) error {
	raw, err := json.MarshalIndent(st, "", " ")
	if err != nil {
		return fmt.Errorf("encoding the alarms: %w", err)
	}
	if err := appkit.WriteFile(filepath.Join(dir, stateFile), append(raw, '\n')); err != nil {
		return fmt.Errorf("writing the alarms: %w", err)
	}
	return nil
}
