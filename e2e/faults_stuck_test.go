//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stuck says, where a test ends because nothing moved, what there is: room,
// files, and what every goroutine of both sides does. To be deferred.
func (r *rig) stuck() {
	r.t.Helper()
	if !r.t.Failed() {
		return
	}
	var b strings.Builder
	var fs unix.Statfs_t
	err := unix.Statfs(r.spec.Dir, &fs)
	fmt.Fprintf(&b, "disk: %d of %d inodes and %d of %d blocks of %d bytes are free, %v\n", fs.Ffree, fs.Files, fs.Bavail, fs.Blocks, fs.Bsize, err)
	folders, err := filepath.Glob(filepath.Join(r.inbox, "*"))
	for _, folder := range append(folders, filepath.Join(r.spec.Dir, "journal"), filepath.Join(r.spec.Dir, "fillers")) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // a file, or not there
		}
		fmt.Fprintf(&b, "%s: %d entries", folder, len(entries))
		for _, e := range entries[:min(len(entries), 3)] {
			fmt.Fprintf(&b, " %s", e.Name())
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "%v, %d acknowledged\n", err, r.acked())
	for _, p := range []*process{r.producer, r.consumer} {
		if p == nil {
			continue
		}
		states := p.wasDegraded()
		fmt.Fprintf(&b, "\n%s: ended %v, state %s, last causes %q\n", p.name, p.ended(), p.state(), states[max(0, len(states)-5):])
		if !p.ended() {
			p.mu.Lock()
			pid := p.pid
			p.mu.Unlock()
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // such as T (stopped)
			for line := range strings.Lines(string(status)) {
				if strings.HasPrefix(line, "State:") {
					b.WriteString(line)
				}
			}
			if pid != 0 {
				syscall.Kill(pid, syscall.SIGQUIT) // it writes all its stacks
				syscall.Kill(pid, syscall.SIGCONT)
			}
			select {
			case <-p.done:
			case <-time.After(10 * time.Second):
			}
		}
		fmt.Fprintln(&b, p.errors())
	}
	r.t.Log(b.String())
}
