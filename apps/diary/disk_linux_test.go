package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// smallDisk is set, to a folder, in the process that tests on a disk of its own.
const smallDisk = "DIARY_TEST_SMALL_DISK"

func TestMain(m *testing.M) {
	if dir := os.Getenv(smallDisk); dir != "" {
		if err := onSmallDisk(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestAFullOrReadOnlyDiskLosesNothing(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || strings.Contains(string(out), "mounting") {
		t.Skipf("this machine lets nobody have a disk of their own: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// onSmallDisk writes until the disk is full, then makes it read-only, and checks
// what is there each time.
func onSmallDisk(dir string) error {
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=128k"); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	s, err := Open(filepath.Join(dir, "entries"), shanghaiNow)
	if err != nil {
		return err
	}
	const date = "2026-11-29"
	old := strings.Repeat("a", 60_000)
	if _, err := s.Write(Draft{Date: date, Content: old, Mode: Create}); err != nil {
		return err
	}
	whole := func(when string) error {
		if e, err := s.Read(date); err != nil || e.Content != old {
			return fmt.Errorf("%s: the entry is no longer whole: %v", when, err)
		}
		files, err := os.ReadDir(s.store.dir)
		if err != nil || len(files) != 1 {
			return fmt.Errorf("%s: the folder holds %v, %v", when, files, err)
		}
		return nil
	}
	refused := func(why string, err error) error {
		if code(err) != "DIARY_STORAGE" || !strings.Contains(err.Error(), why) {
			return fmt.Errorf("got %v, want a failure that says %s", err, why)
		}
		return whole(why)
	}
	for range 3 {
		_, err = s.Write(Draft{Date: date, Content: strings.Repeat("b", 90_000), Mode: Replace})
		if err := refused("full", err); err != nil {
			return err
		}
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mounting again: %w", err)
	}
	_, err = s.Write(Draft{Date: date, Content: "c", Mode: Append})
	if err := refused("read-only", err); err != nil {
		return err
	}
	if err := refused("read-only", s.Delete(date)); err != nil {
		return err
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		return fmt.Errorf("mounting again: %w", err)
	}
	_, err = s.Write(Draft{Date: date, Content: "c", Mode: Append})
	return err
}
