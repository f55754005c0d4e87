//go:build bench

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// How the figures are made: ours and its baselines in turn, several times, of which
// the medians count. What other processes take of the machine meanwhile is measured
// too: a round that they disturbed is repeated as long as there is time for that, and the
// table says how many rounds stayed disturbed.

// row is one figure beside the baseline of the same run.
type row struct{ figure, ours, baseline, ratio, aim string }

var rows []row

// table prints the rows, and how much others disturbed the run.
func table() {
	rows = append([]row{{"figure", "ours", "baseline", "ratio", "aim"}}, rows...)
	var widths [5]int
	for _, r := range rows {
		for i, cell := range r.cells() {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	pad := func(cell string, width int) string {
		return strings.Repeat(" ", width-utf8.RuneCountInString(cell)) + cell
	}
	for _, r := range rows {
		c := r.cells()
		line := c[0] + strings.Repeat(" ", widths[0]-utf8.RuneCountInString(c[0]))
		for i := 1; i < 4; i++ {
			line += "  " + pad(c[i], widths[i])
		}
		fmt.Println(strings.TrimRight(line+"  "+c[4], " "))
	}
	fmt.Println()
	fmt.Println(machine)
}

func (r row) cells() [5]string { return [5]string{r.figure, r.ours, r.baseline, r.ratio, r.aim} }

// rounds is how often each figure is measured, in turn with its baselines.
const rounds = 5

// paired measures ours and baseline in turn and returns the medians, and that of
// the ratios of each round.
func paired(ours, baseline func() float64) (a, b, ratio float64) {
	v := turns(rounds, ours, baseline)
	return median(v[0]), median(v[1]), medianRatio(v[0], v[1])
}

// turns measures each of sides once in every round and returns the figures of
// each side by round.
func turns(rounds int, sides ...func() float64) [][]float64 {
	figures := make([][]float64, len(sides))
	for range rounds {
		round := make([]float64, len(sides))
		machine.undisturbed(func() {
			for i, side := range sides {
				round[i] = side()
			}
		})
		for i := range sides {
			figures[i] = append(figures[i], round[i])
		}
	}
	return figures
}

// medianRatio is the median of the ratios of each round.
func medianRatio(ours, baseline []float64) float64 {
	r := make([]float64, len(ours))
	for i := range ours {
		r[i] = ours[i] / baseline[i]
	}
	return median(r)
}

func ratios(ours, baseline []float64) string { return fmt.Sprintf("%.2f", medianRatio(ours, baseline)) }

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// perSecond, milliseconds and microseconds are medians in words.
func perSecond(v []float64) string { return fmt.Sprintf("%.0f/s", median(v)) }

func milliseconds(v []float64) string { return fmt.Sprintf("%.2f ms", median(v)) }

func microseconds(v []float64) string { return fmt.Sprintf("%.0f µs", median(v)) }

// callsFor calls from n goroutines for a second. It returns calls per second and
// the median latency.
func callsFor(t *testing.T, n int, call func() error) (perSecond float64, p50 time.Duration) {
	const length = time.Second
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	begun := time.Now()
	for range n {
		wg.Go(func() {
			var mine []time.Duration
			for time.Since(begun) < length {
				t0 := time.Now()
				if err := call(); err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, time.Since(t0))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	took := time.Since(begun).Seconds()
	slices.Sort(all)
	if len(all) == 0 {
		t.FailNow()
	}
	return float64(len(all)) / took, all[len(all)/2]
}

// observer sees what processes outside this one's tree take of the machine.
type observer struct {
	patience         time.Duration // what all repetitions together may take
	steps, disturbed int
}

// machine observes the whole run.
var machine = &observer{patience: 3 * time.Minute}

// tolerated is the part of the machine that others may take during a step.
const tolerated = 0.1

// undisturbed runs a step, and again while others disturb it and there is time for
// that.
func (o *observer) undisturbed(step func()) {
	o.steps++
	for {
		for o.patience > 0 {
			begun := time.Now()
			if !disturbed(func() { time.Sleep(100 * time.Millisecond) }) {
				break
			}
			o.patience -= time.Since(begun)
		}
		begun := time.Now()
		if !disturbed(step) {
			return
		}
		if o.patience -= time.Since(begun); o.patience <= 0 {
			o.disturbed++
			return
		}
	}
}

func (o *observer) String() string {
	return fmt.Sprintf("other processes took more than %.0f %% of the machine in %d of %d rounds", 100*tolerated, o.disturbed, o.steps)
}

// disturbed runs step and reports whether others took more than what is tolerated.
func disturbed(step func()) bool {
	before, begun := othersCPU(), time.Now()
	step()
	all := time.Since(begun) * time.Duration(runtime.NumCPU())
	return float64(othersCPU()-before) > tolerated*float64(all)
}

// othersCPU is the user time since some moment of all processes but this one and
// its descendants. The kernel's own threads, which work for the disk, have none.
func othersCPU() time.Duration {
	const tick = 10 * time.Millisecond          // of the times in /proc
	raw, _ := os.ReadFile("/proc/stat")         // "cpu", user, nice, …
	f := strings.Fields(string(raw) + " 0 0 0") // where it cannot be read nobody disturbs
	user, _ := strconv.ParseInt(f[1], 10, 64)
	nice, _ := strconv.ParseInt(f[2], 10, 64)
	return time.Duration(user+nice-ownTicks()) * tick
}

// ownTicks is the user time of this process and all its descendants, those that
// ended and were waited for among them.
func ownTicks() int64 {
	type process struct {
		parent int
		ticks  int64
	}
	all := map[int]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, rest, ok := strings.Cut(string(raw), " (")
		end := strings.LastIndexByte(rest, ')') // a name may have any characters
		if !ok || end < 0 {
			continue
		}
		f := strings.Fields(rest[end+1:]) // state, ppid, …; proc(5): utime is the 14th of all, cutime the 16th
		if len(f) < 14 {
			continue
		}
		id, _ := strconv.Atoi(pid)
		parent, _ := strconv.Atoi(f[1])
		utime, _ := strconv.ParseInt(f[11], 10, 64)
		cutime, _ := strconv.ParseInt(f[13], 10, 64)
		all[id] = process{parent, utime + cutime}
	}
	var sum int64
	for id, p := range all {
		for up, depth := id, 0; up > 1 && depth < 100; up, depth = all[up].parent, depth+1 {
			if up == os.Getpid() {
				sum += p.ticks
				break
			}
		}
	}
	return sum
}
