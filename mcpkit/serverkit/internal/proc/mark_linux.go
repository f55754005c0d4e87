package proc

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A mark is a token as a number, kept where a process does not look and cannot
// lose it by accident: in its soft limit on CPU time under real-time scheduling
// (RLIMIT_RTTIME, getrlimit(2)). It passes to children at fork and stays through
// exec, whatever becomes of environment, session and parents. Its top bits say
// thousands of years, so it limits nothing:
//
//	bits 63-62  01
//	bits 61-24  the lower 38 bits of RUN
//	bits 23-0   START
const (
	markTop  = 1 << 62
	runBits  = 38
	startMax = 1<<24 - 1
)

// runMark returns the mark of the tokens that begin with prefix, RUN and a
// slash, less their START. RUN is a hexadecimal number; of others there are
// no marks.
func runMark(prefix string) (mark uint64, ok bool) {
	run, err := strconv.ParseUint(strings.TrimSuffix(prefix, "/"), 16, 64)
	return markTop | run&(1<<runBits-1)<<24, err == nil
}

func markOf(token string) (mark uint64, ok bool) {
	slash := strings.LastIndexByte(token, '/')
	mark, ok = runMark(token[:slash+1])
	start, err := strconv.ParseUint(token[slash+1:], 10, 64)
	return mark | start, ok && err == nil && start <= startMax
}

// CanMark reports whether children can bear marks.
func CanMark() bool {
	var own unix.Rlimit
	return unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &own) == nil && own.Max >= 2*markTop-1 &&
		unix.Prlimit(0, unix.RLIMIT_RTTIME, &own, nil) == nil
}

// marked runs fork while this process bears the mark of token, so that its child
// does from its first moment. Where there is a lower limit already or the
// system knows no such limit, the child goes without.
func marked(token string, fork func() error) error {
	mark, ok := markOf(token)
	var own unix.Rlimit
	if !ok || unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &own) != nil || own.Max < mark {
		return fork()
	}
	lent := unix.Rlimit{Cur: mark, Max: own.Max}
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, &lent, nil) == nil {
		defer unix.Prlimit(0, unix.RLIMIT_RTTIME, &own, nil) // what was allowed before is allowed again
	}
	return fork()
}

// markedStart returns the START in the mark of a process, if it has one of the
// run whose mark is given.
func markedStart(pid int, run uint64) (start uint64, ok bool) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil || limit.Cur&^startMax != run {
		return 0, false
	}
	return limit.Cur & startMax, true
}
