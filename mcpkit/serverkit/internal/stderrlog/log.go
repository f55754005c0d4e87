// Package stderrlog keeps what a process writes to stderr: the last lines in
// memory, and all of it, within bounds, in a rotated file. It never stops reading,
// as a process that cannot write to stderr stands still, and it keeps nothing
// before secrets are removed and control characters are made visible. It does not
// know whose stderr it is.
//
//	log := stderrlog.New(stderrlog.Options{Path: stderrlog.Path(dir, name), Size: 5 << 20, Backups: 3, Logger: logger})
//	log.Forget([]string{apiKey})
//	log.Drain(pipe)
//	last := log.Lines(10)
package stderrlog

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// MaxLines is how many of the last lines are kept in memory.
const MaxLines = 100

// Bounds of what is kept.
const (
	tailLines = 20  // in Exit and signals
	tailBytes = 512 // of one line there

	lineBytes  = 4 << 10       // of one line, as kept
	rawBytes   = 2 * lineBytes // of one line, while it is collected
	readBytes  = 4 << 10       // one read, normally
	floodBytes = 64 << 10      // one read in a flood: what a pipe holds
	floodKept  = 8 << 10       // of such a read, the end that is looked at

	fileRate  = 64 << 10  // bytes per second that reach the file
	fileBurst = 1 << 20   // bytes that reach it at once
	fileAgain = 128 << 10 // bytes that must be free before a muted file hears again

	// floodPause after each read in a flood bounds the work at 200 reads, or
	// 13 MB, per second: the process waits that long in its write, no longer.
	floodPause = 5 * time.Millisecond
)

// floodBuffers lends the large buffer to the few that need it at a time.
var floodBuffers = sync.Pool{New: func() any { return new([floodBytes]byte) }}

// Options configures a Log.
type Options struct {
	Path    string // of the file; empty keeps none
	Size    int64  // bytes of one file before it is rotated
	Backups int    // rotated files kept
	Logger  *slog.Logger
	Redact  func(string) string // applied to each line after secrets are removed; may be nil
	Now     func() time.Time    // nil means time.Now
}

// Log outlives the processes that write to it one after the other, so a restart
// does not hide why the last one died. It is safe for concurrent use.
type Log struct {
	redact func(string) string
	now    func() time.Time

	mu       sync.Mutex
	secrets  []string
	ring     []string // at most MaxLines; next is the oldest once it is full
	next     int
	total    int    // lines that the ring has ever taken
	partial  []byte // the line being collected, at most rawBytes
	over     int    // bytes of the line beyond partial
	headless bool   // the start of the line was not seen: nothing of it is kept
	file     *rotatedFile
	limit    *rate.Limiter
	muted    bool   // the limit was hit and has not recovered
	missed   int    // lines that the limit kept from the file
	fatal    string // the last line that begins what a runtime says of a program's end
	fatalAt  int    // total at it
}

// New returns an empty log. Its file is made by the first write.
func New(o Options) *Log {
	l := &Log{redact: o.Redact, now: o.Now, limit: rate.NewLimiter(fileRate, fileBurst)}
	if l.now == nil {
		l.now = time.Now
	}
	if o.Path != "" {
		l.file = &rotatedFile{path: o.Path, max: o.Size, backups: o.Backups, log: o.Logger}
	}
	return l
}

// Forget sets the values that are removed from all later lines. A value of
// several lines is also removed line by line.
func (l *Log) Forget(secrets []string) {
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

// Drain reads r until its end or until it is closed. It never stops reading for
// want of a place to put things.
func (l *Log) Drain(r *os.File) {
	var small [readBytes]byte
	for {
		n, err := r.Read(small[:])
		flood := l.take(small[:n])
		for flood && err == nil {
			flood, err = l.drainFlood(r)
		}
		if err != nil {
			l.Flush()
			return
		}
	}
}

// drainFlood reads a pipe full and looks at the end of it only.
func (l *Log) drainFlood(r *os.File) (flood bool, err error) {
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
func (l *Log) take(b []byte) (flood bool) {
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
func (l *Log) skip(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed += bytes.Count(b, []byte{'\n'})
	l.partial, l.over, l.headless = l.partial[:0], 0, true
}

// Flush keeps the last line, which may lack its newline, and closes the file
// until something is written to it again.
func (l *Log) Flush() {
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

// Note writes a line of the caller's own to the file.
func (l *Log) Note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file.write(fmt.Appendf(l.stamp(nil), "--- "+format+"\n", args...))
}

// finish appends the collected line to lines and begins a new one.
func (l *Log) finish(lines []string) []string {
	if !l.headless {
		lines = append(lines, l.clean(l.partial, l.over))
	} else {
		l.missed++
	}
	l.partial, l.over, l.headless = l.partial[:0], 0, false
	if cap(l.partial) > 1<<10 {
		l.partial = nil // an idle process should not hold what its longest line took
	}
	return lines
}

// store puts finished lines into the ring and, as far as the limit lets it,
// into the file.
func (l *Log) store(lines []string) {
	var out []byte
	for _, line := range lines {
		l.total++
		if fatal.MatchString(line) {
			l.fatal, l.fatalAt = line, l.total
		}
		if len(l.ring) < MaxLines {
			l.ring = append(l.ring, line)
		} else {
			l.ring[l.next] = line
			l.next = (l.next + 1) % MaxLines
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
func (l *Log) admit(n int) bool {
	now := l.now()
	l.muted = l.muted && l.limit.TokensAt(now) < fileAgain || !l.limit.AllowN(now, n)
	return !l.muted
}

// suppressed appends the note on lines that are missing from the file.
func (l *Log) suppressed(out []byte) []byte {
	if l.missed > 0 {
		out = fmt.Appendf(l.stamp(out), "--- … %d lines suppressed\n", l.missed)
		l.missed = 0
	}
	return out
}

func (l *Log) stamp(out []byte) []byte {
	return append(l.now().UTC().AppendFormat(out, "2006-01-02T15:04:05.000Z"), ' ')
}

// Mark returns the present place, for tail.
func (l *Log) Mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Tail returns the last lines that came after mark, in a size fit for a signal.
func (l *Log) Tail(mark int) []string {
	lines := l.Lines(min(tailLines, l.Mark()-mark))
	for i, line := range lines {
		lines[i] = clip(line, tailBytes)
	}
	return lines
}

// Lines returns the last n lines, at most MaxLines, oldest first, with the one being written.
func (l *Log) Lines(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(slices.Clone(l.ring[l.next:]), l.ring[:l.next]...)
	if len(l.partial) > 0 && !l.headless {
		all = append(all, l.clean(l.partial, l.over+1))
	}
	return all[max(0, len(all)-min(max(0, n), MaxLines)):]
}

// Clean returns s as a line of it would be kept.
func (l *Log) Clean(s string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clean([]byte(s), 0)
}

// clean returns a line as it may be kept. A line that was cut, over bytes before
// its end, may stop inside a secret: that beginning is removed too.
func (l *Log) clean(raw []byte, over int) string {
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
func (l *Log) begun(s string) int {
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
