package serverkit

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// Bounds of what is kept of a server's stderr.
const (
	tailLines = 20  // in Exit and signals
	tailBytes = 512 // of one line there

	ringLines  = 100
	lineBytes  = 4 << 10       // of one line, as kept
	rawBytes   = 2 * lineBytes // of one line, while it is collected
	readBytes  = 4 << 10       // one read, normally
	floodBytes = 64 << 10      // one read in a flood: what a pipe holds
	floodKept  = 8 << 10       // of such a read, the end that is looked at

	fileRate  = 64 << 10  // bytes per second that reach the file
	fileBurst = 1 << 20   // bytes that reach it at once
	fileAgain = 128 << 10 // bytes that must be free before a muted file hears again

	// floodPause after each read in a flood bounds the work at 200 reads, or
	// 13 MB, per second: the server waits that long in its write, no longer.
	floodPause = 5 * time.Millisecond
)

// floodBuffers lends the large buffer to the few that need it at a time.
var floodBuffers = sync.Pool{New: func() any { return new([floodBytes]byte) }}

// stderrLog keeps the end of what a server writes to stderr in memory and all
// of it, within bounds, in a file. It outlives the processes of the server, so
// a restart does not hide why the last one died. Nothing is kept before secrets
// are removed and control characters are made visible.
type stderrLog struct {
	redact func(string) string
	now    func() time.Time

	mu       sync.Mutex
	secrets  []string
	ring     []string // at most ringLines; next is the oldest once it is full
	next     int
	total    int    // lines that the ring has ever taken
	partial  []byte // the line being collected, at most rawBytes
	over     int    // bytes of the line beyond partial
	headless bool   // the start of the line was not seen: nothing of it is kept
	file     *rotatedFile
	limit    *rate.Limiter
	muted    bool // the limit was hit and has not recovered
	missed   int  // lines that the limit kept from the file
}

func newStderrLog(file *rotatedFile, redact func(string) string, now func() time.Time) *stderrLog {
	return &stderrLog{redact: redact, now: now, file: file, limit: rate.NewLimiter(fileRate, fileBurst)}
}

// forget sets the values that are removed from all later lines. A value of
// several lines is also removed line by line.
func (l *stderrLog) forget(secrets []string) {
	var all []string
	for _, s := range secrets {
		for _, part := range append(strings.Split(s, "\n"), s) {
			if part = strings.TrimSuffix(part, "\r"); len(part) >= 6 {
				all = append(all, part)
			}
		}
	}
	// Longest first, so that no value is spoilt by a shorter one inside it.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets = slices.Compact(all)
}

// drain reads r until its end or until it is closed. It never stops reading for
// want of a place to put things.
func (l *stderrLog) drain(r *os.File) {
	var small [readBytes]byte
	for {
		n, err := r.Read(small[:])
		flood := l.take(small[:n])
		for flood && err == nil {
			flood, err = l.drainFlood(r)
		}
		if err != nil {
			l.end()
			return
		}
	}
}

// drainFlood reads a pipe full and looks at the end of it only.
func (l *stderrLog) drainFlood(r *os.File) (flood bool, err error) {
	time.Sleep(floodPause)
	buf := floodBuffers.Get().(*[floodBytes]byte)
	defer floodBuffers.Put(buf)
	n, err := r.Read(buf[:])
	b := buf[:n]
	if cut := len(b) - floodKept; cut > 0 {
		l.skip(b[:cut])
		b = b[cut:]
	}
	return l.take(b), err
}

// take splits b into lines and keeps them. It reports whether the file's limit
// is exhausted.
func (l *stderrLog) take(b []byte) (flood bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	cut := 0
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		room := min(rawBytes-len(l.partial), len(line))
		l.partial = append(l.partial, line[:room]...)
		l.over += len(line) - room
		cut += len(line) - room
		b = rest
		if ended {
			lines = l.finish(lines)
		}
	}
	l.store(lines)
	// An endless line is a flood too, though nothing of it is stored.
	return !l.admit(cut)
}

// skip passes over b, keeping only the count of its lines.
func (l *stderrLog) skip(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed += bytes.Count(b, []byte{'\n'})
	l.partial, l.over, l.headless = l.partial[:0], 0, true
}

// end keeps the last line, which may lack its newline, and closes the file
// until something is written to it again.
func (l *stderrLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	if len(l.partial) > 0 {
		lines = l.finish(lines)
	}
	l.headless = false
	l.store(lines)
	l.file.write(l.suppressed(nil))
	l.file.close()
}

// note writes a line of the kit's own to the file.
func (l *stderrLog) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file.write(fmt.Appendf(l.stamp(nil), "--- "+format+"\n", args...))
}

// finish appends the collected line to lines and begins a new one.
func (l *stderrLog) finish(lines []string) []string {
	if !l.headless {
		lines = append(lines, l.clean(l.partial, l.over))
	} else {
		l.missed++
	}
	l.partial, l.over, l.headless = l.partial[:0], 0, false
	if cap(l.partial) > 1<<10 {
		l.partial = nil // an idle server should not hold what its longest line took
	}
	return lines
}

// store puts finished lines into the ring and, as far as the limit lets it,
// into the file.
func (l *stderrLog) store(lines []string) {
	var out []byte
	for _, line := range lines {
		l.total++
		if len(l.ring) < ringLines {
			l.ring = append(l.ring, line)
		} else {
			l.ring[l.next] = line
			l.next = (l.next + 1) % ringLines
		}
		if !l.admit(len(line) + 1) {
			l.missed++
			continue
		}
		out = l.suppressed(out)
		out = append(append(l.stamp(out), line...), '\n')
	}
	l.file.write(out)
}

// admit reports whether n more bytes are within the file's limit. Once they are
// not, the file stays mute until a good part of the limit is free again, so that
// a flood shows as passages and gaps and not as crumbs.
func (l *stderrLog) admit(n int) bool {
	now := l.now()
	l.muted = l.muted && l.limit.TokensAt(now) < fileAgain || !l.limit.AllowN(now, n)
	return !l.muted
}

// suppressed appends the note on lines that are missing from the file.
func (l *stderrLog) suppressed(out []byte) []byte {
	if l.missed > 0 {
		out = fmt.Appendf(l.stamp(out), "--- … %d lines suppressed\n", l.missed)
		l.missed = 0
	}
	return out
}

func (l *stderrLog) stamp(out []byte) []byte {
	return append(l.now().UTC().AppendFormat(out, "2006-01-02T15:04:05.000Z"), ' ')
}

// mark returns the present place, for tail.
func (l *stderrLog) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// tail returns the last lines that came after mark, in a size fit for a signal.
func (l *stderrLog) tail(mark int) []string {
	lines := l.lines(min(tailLines, l.mark()-mark))
	for i, line := range lines {
		lines[i] = clip(line, tailBytes)
	}
	return lines
}

// lines returns the last n lines, at most ringLines, oldest first, with the one being written.
func (l *stderrLog) lines(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(slices.Clone(l.ring[l.next:]), l.ring[:l.next]...)
	if len(l.partial) > 0 && !l.headless {
		all = append(all, l.clean(l.partial, l.over+1))
	}
	return all[max(0, len(all)-min(max(0, n), ringLines)):]
}

// clean returns a line as it may be kept. A line that was cut, over bytes before
// its end, may stop inside a secret: that beginning is removed too.
func (l *stderrLog) clean(raw []byte, over int) string {
	s := strings.TrimSuffix(string(raw), "\r")
	for _, secret := range l.secrets {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	if over > 0 {
		s = s[:len(s)-l.begun(s)]
	}
	if l.redact != nil {
		s = l.redact(s)
	}
	return clip(visible(s), lineBytes)
}

// clip cuts s to n bytes at most, between characters, and shows that it did.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

const redacted = "[redacted]"

// begun returns how many bytes at the end of s are the beginning of a secret.
func (l *stderrLog) begun(s string) int {
	longest := 0
	for _, secret := range l.secrets {
		for n := min(len(secret)-1, len(s)); n > longest; n-- {
			if strings.HasSuffix(s, secret[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// visible returns s with control, formatting and broken characters written as
// Go escapes, so that a terminal shows them and does not obey them.
func visible(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] == '\t' || ' ' <= s[i] && s[i] < 0x7f
	}
	if clean {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\x%02x`, s[0])
		case r == '\t' || strconv.IsPrint(r):
			b = append(b, s[:n]...)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b = append(b, q[1:len(q)-1]...)
		}
		s = s[n:]
	}
	return string(b)
}
