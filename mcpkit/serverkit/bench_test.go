//go:build linux

package serverkit

import (
	"bufio"
	"context"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// BenchmarkStart50 compares fifty servers that a kit starts with fifty processes
// that are merely executed, in parallel, each until it has said that it is ready.
func BenchmarkStart50(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			var wg sync.WaitGroup
			cmds := make([]*exec.Cmd, 50)
			for i := range cmds {
				wg.Go(func() {
					c := fakeCmd("good")
					c.Env = append(c.Env, noNap)
					c.Stderr, c.Stdout = nil, nil
					c.StdinPipe()
					out, _ := c.StdoutPipe()
					start(c)
					bufio.NewReaderSize(out, 512).ReadString('\n')
					cmds[i] = c
				})
			}
			wg.Wait()
			b.StopTimer()
			for _, c := range cmds {
				c.Process.Kill()
				c.Wait()
			}
			b.StartTimer()
		}
	})
	b.Run("kit", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			kit, err := New(Options{LogDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			var specs []Spec
			for i := range 50 {
				specs = append(specs, Spec{Name: strconv.Itoa(i), Connect: attach, Command: []string{self()}, Env: fakeCmd("good").Env})
			}
			b.StartTimer()
			kit.Apply(specs)
			if err := kit.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := kit.Shutdown(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

// BenchmarkStop50 measures an orderly shutdown of fifty idle servers, and what
// each cost in memory while it ran.
func BenchmarkStop50(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		kit, err := New(Options{LogDir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		memory := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc + m.StackInuse
		}
		before := memory()
		var specs []Spec
		for i := range 50 {
			specs = append(specs, Spec{Name: strconv.Itoa(i), Connect: attach, Command: []string{self()}, Env: fakeCmd("good").Env})
		}
		kit.Apply(specs)
		if err := kit.Wait(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(memory()-before)/50, "B/server")
		b.StartTimer()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := kit.Shutdown(ctx); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
}
