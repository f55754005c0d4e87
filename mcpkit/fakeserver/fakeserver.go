// Package fakeserver is a test kit: MCP servers over stdio that are plain, or
// wrong in one way each. There is nothing to build: the test binary runs itself
// again as the server.
//
//	func TestMain(m *testing.M) {
//		fakeserver.RunIfAsked() // does not return in a server
//		os.Exit(m.Run())
//	}
//
//	stdin, stdout := fakeserver.Start(t, "crash-third")
//
// Besides its fault every mode is a plain server with the tool "echo", which
// answers its argument "message". Modes says what each does. Some take options
// as arguments of the form name=value. A server ends by itself after ten
// minutes. The package knows nothing of the platform.
package fakeserver

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fakeserver/internal/plain"
)

const (
	envMode    = "AURORA_FAKE_SERVER"
	lifetime   = 10 * time.Minute
	exitNoMode = 64
	exitOfAge  = 99
)

// Command is the argument vector, and what to add to the environment, of the
// server that behaves as mode says.
func Command(mode string, options ...string) (argv, env []string) {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return append([]string{self}, options...), []string{
		envMode + "=" + mode,
		"GORACE=atexit_sleep_ms=0", // under -race a process would take a second to exit
	}
}

// Modes maps the name of each mode to what it does.
func Modes() map[string]string {
	m := map[string]string{}
	for name, b := range table() {
		m[name] = b.Does
	}
	return m
}

// RunIfAsked is the server, and ends the process, where the environment asks
// for one. Elsewhere it does nothing.
func RunIfAsked() {
	mode, asked := os.LookupEnv(envMode)
	if !asked {
		return
	}
	time.AfterFunc(lifetime, func() { os.Exit(exitOfAge) })
	b, ok := table()[mode]
	if !ok {
		fmt.Fprintf(os.Stderr, "no mode %q; there are %s\n", mode,
			strings.Join(slices.Sorted(maps.Keys(table())), ", "))
		os.Exit(exitNoMode)
	}
	s := &plain.Server{Behaviour: b, Mode: mode, Out: os.Stdout, Options: map[string]string{}}
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		s.Options[name] = value
	}
	s.Run(os.Stdin)
	os.Exit(0)
}
