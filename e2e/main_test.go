//go:build e2e || bench

package e2e

import (
	"os"
	"testing"
)

// The files of tests add to these: what the binary does instead of its tests
// when it was started for it, and what is done after them.
var (
	roles []func()
	after []func()
)

func TestMain(m *testing.M) {
	for _, play := range roles {
		play()
	}
	code := m.Run()
	for _, do := range after {
		do()
	}
	os.Exit(code)
}
