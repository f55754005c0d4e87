package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Layout is where things are below the data folder.
type Layout struct{ Data string }

// Inbox and the others are absolute paths.
func (l Layout) Inbox() string     { return filepath.Join(l.Data, "kernel", "inbox") }
func (l Layout) Outbox() string    { return filepath.Join(l.Data, "kernel", "outbox") }
func (l Layout) Journal() string   { return filepath.Join(l.Data, "journal") }
func (l Layout) Artifacts() string { return filepath.Join(l.Data, "artifacts") }
func (l Layout) Logs() string      { return filepath.Join(l.Data, "logs") }
func (l Layout) State() string     { return filepath.Join(l.Data, "state") }
func (l Layout) History() string   { return filepath.Join(l.State(), "history.db") }
func (l Layout) Auth() string      { return filepath.Join(l.Data, "auth") }

// JournalOf is the journal of a bus.
func (l Layout) JournalOf(bus string) string {
	if bus == NATSBus {
		return filepath.Join(l.Journal(), "nats")
	}
	return l.Journal()
}

// App is the folder of one server's own data.
func (l Layout) App(pkg string) string { return filepath.Join(l.Data, "apps", pkg) }

// Make creates the folders that are missing, for their owner alone, and returns
// what is wrong with those that are there.
func (l Layout) Make() (problems []string, err error) {
	for _, dir := range []string{
		l.Data, filepath.Join(l.Data, "kernel"), l.Inbox(), l.Outbox(), l.Journal(), l.Artifacts(),
		l.Logs(), filepath.Join(l.Data, "apps"), l.State(),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return problems, fmt.Errorf("making the data folders: %w", err)
		}
		if p := wrongOwner(dir); p != "" {
			problems = append(problems, p)
		}
	}
	return problems, nil
}

// Home is the folder that a confined server has in place of the user's home.
func (l Layout) Home(pkg string) string { return filepath.Join(l.Data, "homes", pkg) }

// MakeHome creates that folder.
func (l Layout) MakeHome(pkg string) (string, error) {
	dir := l.Home(pkg)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the home of %s: %w", pkg, err)
	}
	return dir, nil
}

// MakeApp creates the folder of one server's own data.
func (l Layout) MakeApp(pkg string) (string, error) {
	dir := l.App(pkg)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the data folder of %s: %w", pkg, err)
	}
	return dir, nil
}

func wrongOwner(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return err.Error()
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("%s belongs to user %d, not to user %d who runs the platform", dir, st.Uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Sprintf("%s has mode %04o: others can look inside (chmod 0700 %s)", dir, mode, dir)
	}
	return ""
}

// Lock makes sure that one platform runs on a data folder. It is released when
// the process ends, however it ends.
func (l Layout) Lock() (release func(), err error) {
	path := filepath.Join(l.State(), "platform.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the data folder: %w", err)
		}
		raw, _ := os.ReadFile(path)
		return nil, &RunningError{Data: l.Data, PID: strings.TrimSpace(string(raw))}
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return func() { f.Close() }, nil
}

// RunningError says that another platform has the data folder.
type RunningError struct {
	Data string
	PID  string // may be empty
}

func (e *RunningError) Error() string {
	if e.PID == "" {
		return fmt.Sprintf("another platform runs on %s", e.Data)
	}
	return fmt.Sprintf("another platform (process %s) runs on %s", e.PID, e.Data)
}
