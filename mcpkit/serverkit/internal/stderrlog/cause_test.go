package stderrlog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestTheCauseIsFoundAmongStacks(t *testing.T) {
	for in, want := range map[string]string{
		"a|b|c|d":          "",
		"TOKEN is missing": "",
		"npm warn x|npm error code EACCES|npm error syscall mkdir|npm error path /home/me/.npm|npm notice|npm error Log files were not written": "npm error code EACCES|npm error syscall mkdir|npm error path /home/me/.npm",
		"npm ERR! code E404": "npm ERR! code E404",
		"starting|panic: no token||goroutine 1 [running]:|main.main()|\t/x/main.go:5 +0x1d|exit status 2":                                                                                                                                  "panic: no token",
		"panic: a [recovered]|\tpanic: b||goroutine 1 [running]:|main.f(...)":                                                                                                                                                              "panic: a [recovered]",
		"fatal error: all goroutines are asleep - deadlock!||goroutine 1 [chan receive]:|main.main()":                                                                                                                                      "fatal error: all goroutines are asleep - deadlock!",
		"/srv/s.js:3|throw new Error('no token')|^||Error: no token|    at Object.<anonymous> (/srv/s.js:3:7)|    at node:internal/main/run_main_module:28:49||Node.js v20.11.0":                                                           "Error: no token",
		"node:internal/modules/cjs/loader:1148|  throw err;|  ^||Error: Cannot find module 'zod'|Require stack:|- /srv/s.js|    at Module._load (x:1:2) {|  code: 'MODULE_NOT_FOUND',|  requireStack: [ '/srv/s.js' ]|}||Node.js v20.11.0": "Error: Cannot find module 'zod'",
		"/srv/s.js:1|foo(|^^^^||SyntaxError: missing ) after argument list|    at wrapSafe (x:1)||Node.js v22.1.0":                                                                                                                         "SyntaxError: missing ) after argument list",
		"TypeError [ERR_INVALID_ARG_TYPE]: The \"path\" argument|    at x (y:1)":                                                                                                                                                           "TypeError [ERR_INVALID_ARG_TYPE]: The \"path\" argument",
		"error: Uncaught (in promise) Error: no token|    at file:///s.ts:1:7":                                                                                                                                                             "error: Uncaught (in promise) Error: no token",
		"Traceback (most recent call last):|  File \"s.py\", line 1, in <module>|    import mcp|ModuleNotFoundError: No module named 'mcp'":                                                                                                "ModuleNotFoundError: No module named 'mcp'",
		"pydantic_core._pydantic_core.ValidationError: 1 validation error|  Input should be":                                                                                                                                               "pydantic_core._pydantic_core.ValidationError: 1 validation error",
		"thread 'main' panicked at src/main.rs:2:5:|no token|note: run with `RUST_BACKTRACE=1`":                                                                                                                                            "no token",
		"thread 'main' panicked at 'no token', src/main.rs:2:5|note: run with `RUST_BACKTRACE=1`":                                                                                                                                          "thread 'main' panicked at 'no token', src/main.rs:2:5",
		"Exception in thread \"main\" java.lang.IllegalStateException: no token|\tat App.main(App.java:3)":                                                                                                                                 "Exception in thread \"main\" java.lang.IllegalStateException: no token",
		"Unhandled exception. System.InvalidOperationException: no token|   at Program.Main() in /x.cs:line 3":                                                                                                                             "Unhandled exception. System.InvalidOperationException: no token",
		"s.rb:1:in `<main>': no token (RuntimeError)|\tfrom s.rb:3:in `x'":                                                                                                                                                                 "s.rb:1:in `<main>': no token (RuntimeError)",
		"node:internal/modules/cjs/loader:1148|  throw err;|  ^|Error: Cannot find module '/srv/x.js'|    at Module._load|  code: 'MODULE_NOT_FOUND',|}|Node.js v20.11.1":                                                                  "Error: Cannot find module '/srv/x.js'",
		"fatal error: all goroutines are asleep - deadlock!|goroutine 1 [select (no cases)]:|main.main()|/srv/main.go:7":                                                                                                                   "fatal error: all goroutines are asleep - deadlock!",
		"ValueError: dealt with long ago|    at x (y:1)|listening|cannot bind port 80":                                                                                                                                                     "",
	} {
		var lines []string
		if want != "" {
			lines = strings.Split(want, "|")
		}
		if got := cause(strings.Split(in, "|")); !slices.Equal(got, lines) {
			t.Errorf("the cause of %q is %q, want %q", in, got, lines)
		}
	}
}

func TestThePanicIsKnownHoweverLongTheStacksAreAndNotByTheNextProcess(t *testing.T) {
	l := New(Options{})
	l.take([]byte("starting\npanic: no token\n"))
	for i := range 3 * MaxLines {
		l.take(fmt.Appendf(nil, "goroutine %d [running]:\n", i))
	}
	if got := l.Cause(0); !slices.Equal(got, []string{"panic: no token"}) {
		t.Errorf("the cause is %q", got)
	}
	if got := l.Cause(l.Mark()); got != nil {
		t.Errorf("the next process ended by %q", got)
	}
}
