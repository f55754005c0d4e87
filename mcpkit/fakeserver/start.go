package fakeserver

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Start starts the server that behaves as mode says and returns the ends of its
// pipes. It and all it started are killed when the test ends.
func Start(t testing.TB, mode string, options ...string) (stdin, stdout *os.File) {
	t.Helper()
	argv, env := Command(mode, options...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = inR, outW
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		inW.Close()
		outR.Close()
	})
	return inW, outR
}
