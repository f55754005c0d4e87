//go:build e2e

package e2e

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// FS_IOC_SHUTDOWN and the flag by which the file system's own log is not
// flushed either: what was not synced is gone, as when the power is cut.
const (
	fsShutdown   = 0x8004587D
	noLogFlush   = 2
	cutsPerGroup = 5 // power cuts before the verdict and a new file system
)

func (d *disk) cutPower() {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), fsShutdown, noLogFlush); err != nil {
		d.t.Fatal(err)
	}
}

func TestPowerCutsLoseAndRepeatNothing(t *testing.T) {
	for kind, cuts := range map[string]int{"ext4": 2 * long, "xfs": long} {
		asRoot(t, "mkfs."+kind)
		for i := 0; cuts > 0; i++ {
			n := min(cuts, cutsPerGroup)
			cuts -= n
			spec := producerSpec{Batch: 32}
			who := python
			if i%2 == 1 {
				spec.Batch, who = 0, []taker{moves, deletes}[i/2%2]
			}
			t.Run(kind, func(t *testing.T) {
				d := newDisk(t, kind, "")
				r := newRig(t, d.dir, spec, who)
				for range n {
					r.powerRound(d)
				}
				r.mustBeClean(true)
			})
		}
	}
}

// powerRound cuts the power under load.
func (r *rig) powerRound(d *disk) {
	r.t.Helper()
	r.consume(0) // before the producer completes what the last cut left
	r.produce()
	r.ackedMore(1 + rand.IntN(200))
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	r.alive(r.producer)
	d.cutPower()
	r.producer.kill()
	r.consumer.kill()
	r.unwatched(func() { d.remount() })
}

// The same cuts must be caught where syncs are not done: strace answers them in
// the kernel's place.
func TestTheJudgesCatchAnInboxThatDoesNotSync(t *testing.T) {
	asRoot(t, "mkfs.ext4", "strace")
	for attempt := range 3 {
		d := newDisk(t, "ext4", "")
		r := newRig(t, d.dir, producerSpec{Batch: 32}, moves)
		r.wrap = pretend("fsync,fdatasync,syncfs", "retval=0")
		for range 2 {
			r.produce()
			r.ackedMore(300)
			d.cutPower()
			r.producer.kill()
			r.unwatched(func() { d.remount() })
		}
		if v := r.end(true); v.Lost > 0 {
			t.Log("caught: ", v.counts())
			return
		}
		t.Logf("attempt %d: the file system had written it all by itself", attempt)
	}
	t.Fatal("power cuts of a producer that does not sync went unnoticed")
}

// pretend is the command by which system calls of what follows it do not happen
// and give a result all the same.
func pretend(calls, result string) []string {
	return []string{"strace", "-f", "-qq", "--seccomp-bpf", "-o", os.DevNull, "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + result}
}
