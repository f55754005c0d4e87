package serverkit

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatStderrIsQuotedOf(t *testing.T) {
	for in, want := range map[string]string{
		"a|b|c|d": "b|c|d",
		"a":       "a",
		"npm warn x|npm error code EACCES|npm error syscall mkdir|npm error path /home/me/.npm|npm notice|npm error Log files were not written": "npm error code EACCES|npm error syscall mkdir|npm error path /home/me/.npm",
		"npm ERR! code E404": "npm ERR! code E404",
		"/srv/index.js:3|throw new Error(\"no token\");|^|Error: no token|    at Object.<anonymous> (/srv/index.js:3:7)|    at node:internal/main:1|Node.js v20.11.1":     "Error: no token",
		"node:internal/modules/cjs/loader:1148|  throw err;|  ^|Error: Cannot find module '/srv/x.js'|    at Module._load|  code: 'MODULE_NOT_FOUND',|}|Node.js v20.11.1": "Error: Cannot find module '/srv/x.js'",
		"TypeError [ERR_INVALID_ARG_TYPE]: no|    at x|Node.js v22.0.0":                                                                                  "TypeError [ERR_INVALID_ARG_TYPE]: no",
		"2026/01/01 starting|panic: no token|goroutine 1 [running]:|main.main()|/srv/main.go:7 +0x1d|exit status 2":                                      "panic: no token",
		"fatal error: all goroutines are asleep - deadlock!|goroutine 1 [select (no cases)]:|main.main()|/srv/main.go:7":                                 "fatal error: all goroutines are asleep - deadlock!",
		"Traceback (most recent call last):|  File \"/srv/x.py\", line 1, in <module>|    import nothing|ModuleNotFoundError: No module named 'nothing'": "  File \"/srv/x.py\", line 1, in <module>|    import nothing|ModuleNotFoundError: No module named 'nothing'",
	} {
		if got := quote(strings.Split(in, "|")); !slices.Equal(got, strings.Split(want, "|")) {
			t.Errorf("of %q is quoted %q, want %q", in, got, want)
		}
	}
}
