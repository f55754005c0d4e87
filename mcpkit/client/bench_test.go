package client_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
)

// BenchmarkCalls measures calls of one server, one or 64 at a time, through this
// package and through the SDK's own client.
func BenchmarkCalls(b *testing.B) {
	ours := func(b *testing.B) func() error {
		k := newKit(b)
		k.connect(b, "fast-echo")
		return func() error {
			_, err := k.Call(context.Background(), features.CallRequest{Server: "fast-echo", Tool: "echo", Arguments: []byte(`{"message":"hello"}`)})
			return err
		}
	}
	sdk := func(b *testing.B) func() error {
		argv, env := fakeserver.Command("fast-echo")
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), env...)
		c := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
		s, err := c.Connect(context.Background(), &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return func() error {
			_, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "hello"}})
			return err
		}
	}
	for name, open := range map[string]func(*testing.B) func() error{"ours": ours, "sdk": sdk} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, callers), func(b *testing.B) {
				call := open(b)
				b.ReportAllocs()
				b.ResetTimer()
				work := make(chan struct{}, callers)
				var group sync.WaitGroup
				if callers == 1 {
					for range b.N {
						if err := call(); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				for range callers {
					group.Go(func() {
						for range work {
							if err := call(); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for range b.N {
					work <- struct{}{}
				}
				close(work)
				group.Wait()
			})
		}
	}
}

// BenchmarkIdleSession measures what an idle session keeps in memory.
func BenchmarkIdleSession(b *testing.B) {
	const sessions = 50
	for range b.N {
		k := newKit(b)
		before := heap()
		for i := range sessions {
			c := k.conn(b, "echo")
			c.Server = fmt.Sprint("echo-", i)
			if _, err := k.Connect(deadline(b), c); err != nil {
				b.Fatal(err)
			}
		}
		after := heap()
		b.ReportMetric(float64(after-before)/sessions, "bytes/session")
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
