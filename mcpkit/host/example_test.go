package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// A program of its own takes three steps: sessions, a host over them, calls.
// Whatever happens to a call is told to the sink.
func Example() {
	ctx := context.Background()
	events := signal.SinkFunc(func(_ context.Context, s signal.Signal) error {
		for s := range s.All() { // the steps of a call come with its end
			if _, ok := s.Data.(*signal.Step); ok {
				fmt.Println("event:", s.Kind)
			}
		}
		return nil
	})
	m, err := client.New(client.Options{Sink: events})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close(ctx)
	argv, env := fakeserver.Command("echo") // any MCP server over stdio
	server := exec.Command(argv[0], argv[1:]...)
	server.Env = append(os.Environ(), env...)
	stdin, stdout, err := start(server)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Wait()
	if _, err := m.Connect(ctx, session.Conn{Server: "plain", Stdin: stdin, Stdout: stdout}); err != nil {
		fmt.Println(err)
		return
	}
	defer stdin.Close()

	h := host.New(host.Options{Client: m, Sink: events})
	tools, err := h.Export("openai", "") // for a model
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("tool:", tools.Tools[0].Function.Name)
	res, err := h.Call(ctx, host.Call{Name: "mcp__plain__echo", Arguments: json.RawMessage(`{"message":"hello"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("result:", string(res.Raw))
	// Output:
	// tool: mcp__plain__echo
	// event: permission.requested
	// event: permission.resolved
	// event: mcp.call.started
	// event: tool.started
	// event: mcp.call.completed
	// event: tool.completed
	// result: {"content":[{"text":"hello","type":"text"}]}
}

// start starts a process with pipes that outlive its end.
func start(c *exec.Cmd) (stdin, stdout *os.File, err error) {
	inR, stdin, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, outW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c.Stdin, c.Stdout = inR, outW
	defer inR.Close()
	defer outW.Close()
	return stdin, stdout, c.Start()
}
