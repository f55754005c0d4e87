package stderrlog

import (
	"regexp"
	"slices"
	"strings"
)

// maxCause bounds the lines of a cause.
const maxCause = 3

var (
	// fatal begins what a runtime says when it gives a program up. The stacks come
	// after it, and may be longer than what is kept.
	fatal = regexp.MustCompile(`^(panic: |fatal error: |thread '.*' (\(\d+\) )?panicked at |Unhandled exception\. |Exception in thread ")`)
	// frame is a line of a stack below the words that belong to it.
	frame = regexp.MustCompile(`^\s+(at |from )`)
	// beside is what else a runtime prints below those words.
	beside = regexp.MustCompile(`^(\s|[{}]|$|- |Require stack:|Node\.js v|Bun v|note: run with )`)
	// exception is an error by its type, as most languages print it.
	exception = regexp.MustCompile(`^(Uncaught |error: (Uncaught )?(\(in promise\) )?)?[A-Za-z_][\w.$]*(Error|Exception)( \[\w+\])?(:|$)`)
)

// Cause returns the lines written since mark that say why the program ended, at most
// three: a runtime puts a stack before or after them. It returns nil where none can be
// told from the rest.
func (l *Log) Cause(mark int) []string {
	lines := cause(l.Lines(l.Mark() - mark))
	l.mu.Lock()
	defer l.mu.Unlock()
	if lines == nil && l.fatalAt > mark {
		lines = []string{l.fatal} // the stacks have pushed it out
	}
	for i, line := range lines {
		lines[i] = clip(line, tailBytes)
	}
	return lines
}

// cause is [Log.Cause] of lines:
//
//   - npm and npx say it first, and go on about notices and log files;
//   - Go, Rust, .NET and Java say it above the stack;
//   - Node, Deno, Bun and Ruby say it above the stack too, below a line of source, and
//     some end with their version;
//   - Python says it last, below the stack.
func cause(lines []string) []string {
	for i, line := range lines {
		if strings.HasPrefix(line, "npm error code ") || strings.HasPrefix(line, "npm ERR! code ") {
			return slices.Clone(lines[i:min(i+maxCause, len(lines))])
		}
	}
	for i, line := range slices.Backward(lines) {
		if fatal.MatchString(line) {
			if strings.HasPrefix(line, "thread '") && strings.HasSuffix(line, ":") && i+1 < len(lines) {
				i++ // Rust says where, and below it why
			}
			return []string{lines[i]}
		}
	}
	framed := false
	for _, line := range slices.Backward(lines) {
		if !beside.MatchString(line) {
			if framed || exception.MatchString(line) {
				return []string{line}
			}
			return nil
		}
		framed = frame.MatchString(line) || framed && line != ""
	}
	return nil
}
