//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill takes all space that is left, down to the last byte, and gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// fillInodes takes all files that can be made.
func fillInodes(t *testing.T, dir string) (free func()) {
	t.Helper()
	folder := filepath.Join(dir, "fillers")
	if err := os.Mkdir(folder, 0o700); errors.Is(err, unix.ENOSPC) {
		return func() {} // the events themselves have taken all
	} else if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		f, err := os.Create(filepath.Join(folder, fmt.Sprint(i)))
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskHoldsEventsBackAndLosesNone(t *testing.T) {
	asRoot(t)
	for name, c := range map[string]struct {
		options string
		fill    func(*testing.T, string) func()
		want    []string
	}{
		"space":  {"size=8M", fill, []string{"nearly full", "no space"}},
		"inodes": {"size=64M,nr_inodes=600", fillInodes, []string{"inodes", "no space"}},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", name, killed), func(t *testing.T) {
				dir := tmpfs(t, c.options)
				r := newRig(t, dir, producerSpec{Batch: 8}, deletes)
				r.produce()
				r.consume(0)
				for range 2 {
					r.ackedMore(100)
					r.consumer.signal(syscall.SIGSTOP) // it would make room
					free := c.fill(t, dir)
					r.degraded(c.want...)
					if killed { // it also starts and waits on a full disk, or says why not
						r.producer.kill()
						r.produce()
						r.producer.waitOpen()
					}
					r.ackedNoMore()
					r.consumer.signal(syscall.SIGCONT)
					free()
					// The last of the room may have gone to events: a start finds none until
					// the consumer has taken some.
					until(t, time.Minute, "a start", func() (bool, any) {
						if !killed || !r.producer.ended() {
							return true, nil
						}
						why := r.producer.errors()
						if !strings.Contains(why, "no space") && !strings.Contains(why, "full") {
							t.Errorf("it ended on a full disk with: %s", why)
						}
						r.produce()
						r.producer.waitOpen()
						return !r.producer.ended(), why
					})
					r.wellAgain()
				}
				r.ackedMore(100)
				r.mustBeClean(false)
			})
		}
	}
}

// A file system that turned read-only, as ext4 does after an error, cannot be
// brought back while it is in use: the producer must say so and end in order.
func TestAFileSystemThatTurnsReadOnlyStopsAcknowledgementsAndLosesNothing(t *testing.T) {
	asRoot(t, "mkfs.ext4", "e2fsck")
	for range (long + 9) / 10 {
		d := newDisk(t, "ext4", ",errors=remount-ro")
		r := newRig(t, d.dir, producerSpec{Batch: 8}, moves)
		r.produce()
		r.consume(0)
		r.ackedMore(100)
		d.breakIt()
		r.degraded("read-only", "input/output")
		r.ackedNoMore()
		r.producer.kill()
		r.consumer.kill()
		r.unwatched(func() { d.remount("e2fsck", "-fp") })
		r.consume(0)
		r.produce()
		r.ackedMore(100)
		r.mustBeClean(true)
	}
}

// breakIt makes the kernel find an error of the file system.
func (d *disk) breakIt() {
	d.t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(d.dir, &st); err != nil {
		d.t.Fatal(err)
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		d.t.Fatal(err)
	}
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("test"), 0); err != nil {
		d.t.Skipf("this kernel breaks no file system on request: %v", err)
	}
}

func TestInputOutputErrorsLoseAndRepeatNothing(t *testing.T) {
	asRoot(t, "strace")
	for _, calls := range []string{"fdatasync", "fsync", "syncfs", "pwrite64", "renameat2", "fdatasync,fsync,syncfs,pwrite64,renameat2,fallocate,ftruncate"} {
		t.Run(calls, func(t *testing.T) {
			r := newRig(t, ground(t), producerSpec{Batch: 8}, moves)
			if strings.Contains(calls, ",") {
				r.spec.Batch = 0
			}
			for range (long + 4) / 5 {
				// Each thread's calls count for themselves: some fail here, some there.
				r.wrap = pretend(calls, fmt.Sprintf("error=EIO:when=%d+%d", 6+rand.IntN(10), 5+rand.IntN(20)))
				r.produce()
				r.consume(0)
				until(t, time.Minute, "an error was met", func() (bool, any) {
					return len(r.producer.wasDegraded()) > 0 || r.producer.ended() || r.acked() > 3000, r.producer.errors()
				})
				if r.producer.ended() { // an error at the start ends it in order
					if !strings.Contains(r.producer.errors(), "input/output error") {
						t.Fatalf("it ended with %v: %s", r.producer.err, r.producer.errors())
					}
				} else {
					r.ackedMore(50)
				}
				r.producer.kill()
				r.consumer.kill()
			}
			r.wrap = nil
			r.produce()
			r.consume(0)
			r.ackedMore(50)
			r.mustBeClean(false)
		})
	}
}

// When every sync fails nothing is acknowledged; when syncs work again all
// resumes in the same process.
func TestADiskWhoseSyncsFailForAWhileHoldsEventsBack(t *testing.T) {
	asRoot(t, "strace")
	r := newRig(t, ground(t), producerSpec{Batch: 8}, moves)
	r.produce()
	r.consume(0)
	for range 1 + long/10 {
		r.ackedMore(100)
		broken := exec.Command("strace", append(pretend("fdatasync,fsync,syncfs", "error=EIO")[1:], "-p", fmt.Sprint(r.producer.cmd.Process.Pid))...)
		if err := broken.Start(); err != nil {
			t.Fatal(err)
		}
		r.degraded("input/output")
		r.ackedNoMore()
		if err := broken.Process.Signal(syscall.SIGINT); err != nil { // it detaches
			t.Fatal(err)
		}
		broken.Wait() // ended by the signal
		r.wellAgain()
	}
	r.ackedMore(100)
	r.mustBeClean(false)
}

// A disk that hangs, here a frozen file system, answers nothing at all.
func TestADiskThatHangsHoldsEventsBack(t *testing.T) {
	asRoot(t, "mkfs.ext4", "fsfreeze")
	d := newDisk(t, "ext4", "")
	r := newRig(t, d.dir, producerSpec{Batch: 8}, moves)
	r.produce()
	r.consume(0)
	r.ackedMore(100)
	command(t, "fsfreeze", "-f", d.dir)
	thawed := false
	thaw := func() {
		if !thawed {
			thawed = true
			command(t, "fsfreeze", "-u", d.dir)
		}
	}
	t.Cleanup(thaw)
	r.ackedNoMore()
	thaw()
	r.ackedMore(100)
	r.mustBeClean(false)
}

func TestAConsumerThatStandsStillHoldsEventsBackAtTheLimit(t *testing.T) {
	r := newRig(t, ground(t), producerSpec{Batch: 8, MaxPending: 500, MaxLag: 300}, moves)
	r.produce()
	r.consume(0)
	for range 1 + long/10 {
		r.ackedMore(100)
		r.consumer.signal(syscall.SIGSTOP)
		r.degraded("nobody takes them")
		r.ackedNoMore()
		r.consumer.signal(syscall.SIGCONT)
		r.wellAgain()
	}
	r.ackedMore(300)
	r.mustBeClean(false)
}

func TestAPendingFolderThatCannotBeWrittenHoldsFilesBack(t *testing.T) {
	asRoot(t, "mkfs.ext4", "chattr", "setpriv")
	for name, c := range map[string]struct{ spoil, mend []string }{
		"immutable": {[]string{"chattr", "+i"}, []string{"chattr", "-i"}},
		"no rights": {[]string{"chmod", "0500"}, []string{"chmod", "0700"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ground(t), producerSpec{Batch: 8, MaxLag: 2000}, moves)
			// Root's own rights would hide what is missing.
			r.wrap = []string{"setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"}
			pending := filepath.Join(r.inbox, "pending")
			mend := func() { exec.Command(c.mend[0], append(c.mend[1:], pending)...).Run() }
			t.Cleanup(mend)
			r.produce()
			r.ackedMore(100)
			command(t, c.spoil[0], append(c.spoil[1:], pending)...)
			r.degraded("not permitted", "permission denied")
			r.ackedMore(50) // they are durable all the same
			mend()
			r.wellAgain()
			r.consume(0)
			r.ackedMore(100)
			r.mustBeClean(false)
		})
	}
}

func TestAPendingFolderThatGoesAwayIsMadeAgain(t *testing.T) {
	for name, replace := range map[string]bool{"removed": false, "replaced by an empty one": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ground(t), producerSpec{Batch: 8}, moves)
			r.produce()
			r.consume(0)
			r.ackedMore(100)
			r.consumer.kill() // so that it is in no folder that goes
			r.unwatched(func() {
				pending, old := filepath.Join(r.inbox, "pending"), filepath.Join(r.inbox, "gone")
				if err := os.Rename(pending, old); err != nil {
					t.Fatal(err)
				}
				if replace {
					if err := os.Mkdir(pending, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				until(t, 10*time.Second, "files in the new pending folder", func() (bool, any) {
					entries, err := os.ReadDir(pending)
					return len(entries) > 0, fmt.Sprint(err, r.producer.state(), r.producer.errors())
				})
				// What was visible in the old one is the Brain's.
				entries, err := os.ReadDir(old)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if err := os.Rename(filepath.Join(old, e.Name()), filepath.Join(pending, e.Name())); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Remove(old); err != nil {
					t.Fatal(err)
				}
			})
			r.consume(0)
			r.ackedMore(100)
			r.mustBeClean(false)
		})
	}
}

// Removed means removed: with everything in it taken before.
func TestFoldersThatAreDeletedUnderLoadComeBack(t *testing.T) {
	// Without a pause pending/ is seldom empty, and what was taken fills the disk meanwhile.
	r := newRig(t, ground(t), producerSpec{Batch: 8, Pause: 2 * time.Millisecond}, moves)
	r.produce()
	r.consume(0)
	for range 2 + long/5 {
		r.ackedMore(50)
		for _, folder := range []string{"pending", "tmp"} {
			until(t, time.Minute, folder+" was empty for a moment and removed", func() (bool, any) {
				deadline := time.Now().Add(time.Second)
				err := os.Remove(filepath.Join(r.inbox, folder)) // only an empty folder can be
				for err != nil && time.Now().Before(deadline) {
					err = os.Remove(filepath.Join(r.inbox, folder))
				}
				return err == nil, err
			})
			until(t, time.Minute, folder+" is there again", func() (bool, any) {
				_, err := os.Stat(filepath.Join(r.inbox, folder))
				return err == nil, fmt.Sprint(r.producer.state(), r.producer.errors())
			})
			if r.consumer.ended() {
				t.Fatalf("the consumer ended: %s", r.consumer.errors())
			}
		}
		r.wellAgain()
	}
	r.ackedMore(50)
	r.mustBeClean(false)
}
