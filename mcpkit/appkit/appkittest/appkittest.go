// Package appkittest tests apps built with appkit as a host would use them:
// over a session, through the protocol.
//
//	func TestATimerThatEndsEmitsAnEvent(t *testing.T) {
//		s := appkittest.Start(t, manifest, setup)
//		appkittest.Call[Timer](t, s, "create_timer", map[string]any{"seconds": 1})
//		event := s.Events.Wait(t, "timer.triggered")
//		…
//	}
//
// [Start] runs the app in this process over pipes in memory, [StartBinary]
// builds it and runs the real program over stdio. Both end with the test, and
// both fail it when the app does not end in order. [CheckContract] holds an app
// against the rules that every app keeps.
package appkittest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// patience bounds every wait of this package: generous, as test machines are slow.
const patience = 60 * time.Second

// Option changes how an app is started.
type Option func(*config)

type config struct {
	dataDir   string
	settings  any
	env       []string
	protocol  string
	silent    bool
	maxEvents int
}

// DataDir has the app use dir, such as one of an earlier session. By default
// each session has its own empty folder.
func DataDir(dir string) Option { return func(c *config) { c.dataDir = dir } }

// Settings gives the app v, as JSON, as its configuration file.
func Settings(v any) Option { return func(c *config) { c.settings = v } }

// Env adds KEY=VALUE to the environment of a started binary.
func Env(pair string) Option { return func(c *config) { c.env = append(c.env, pair) } }

// Protocol has the client speak this protocol version, such as 2025-11-25. By
// default it speaks the newest one.
func Protocol(version string) Option { return func(c *config) { c.protocol = version } }

// Silent has the client not acknowledge events. Acknowledge by hand with
// Session.Ack.
func Silent() Option { return func(c *config) { c.silent = true } }

// OutboxEvents bounds the outbox; see appkit.Options.
func OutboxEvents(n int) Option { return func(c *config) { c.maxEvents = n } }

// Session is a client's session with an app.
type Session struct {
	App     *appkit.App // nil if the app is another process
	Client  *mcp.ClientSession
	Events  *Recorder
	DataDir string

	conn    *clientConn
	process *os.Process // nil if the app is in this process
	stop    func() error
	once    sync.Once
	err     error
}

// Start serves the app that setup makes and returns a session with it.
func Start(t testing.TB, manifest []byte, setup func(*appkit.App) error, options ...Option) *Session {
	t.Helper()
	c := configure(t, options)
	opts := appkit.Options{
		DataDir:      c.dataDir,
		ConfigPath:   c.writeSettings(t),
		Log:          slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		OutboxEvents: c.maxEvents,
	}
	app, err := appkit.New(manifest, opts)
	if err != nil {
		t.Fatalf("making the app: %v", err)
	}
	if err := setup(app); err != nil {
		t.Fatalf("setting the app up: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	serverSide, clientSide := mcp.NewInMemoryTransports()
	served := make(chan error, 1)
	go func() { served <- app.Serve(ctx, serverSide) }()

	s := connect(t, clientSide, c, func() error {
		cancel()
		return <-served
	})
	s.App = app
	return s
}

func configure(t testing.TB, options []Option) *config {
	c := &config{}
	for _, o := range options {
		o(c)
	}
	if c.dataDir == "" {
		c.dataDir = t.TempDir()
	}
	return c
}

func (c *config) writeSettings(t testing.TB) string {
	if c.settings == nil {
		return ""
	}
	text, err := json.Marshal(c.settings)
	if err != nil {
		t.Fatalf("encoding the settings: %v", err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect opens the client's session with an app that stop ends.
func connect(t testing.TB, transport mcp.Transport, c *config, stop func() error) *Session {
	t.Helper()
	s := &Session{DataDir: c.dataDir, Events: newRecorder(), stop: stop}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("the app did not end in order: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "appkittest", Version: "1"}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { s.Events.updated(r.Params.URI) },
	})
	tap := &clientTap{Transport: transport, session: s, ack: !c.silent}
	var err error
	s.Client, err = client.Connect(ctx, tap, &mcp.ClientSessionOptions{ProtocolVersion: c.protocol})
	if err != nil {
		t.Fatalf("connecting to the app: %v", err)
	}
	// The first request: from here on the app may send events in either era.
	if _, err := s.Client.ListTools(ctx, nil); err != nil {
		t.Fatalf("listing the tools: %v", err)
	}
	return s
}

// Close ends the session and the app and returns the app's error. It is called
// at the end of the test; call it earlier to start another session on the same
// data.
func (s *Session) Close() error {
	s.once.Do(func() {
		s.err = s.stop()
		if s.Client != nil {
			_ = s.Client.Close() // the app has closed the connection already
		}
	})
	return s.err
}

// tool returns the full name of a tool that may lack the package.
func (s *Session) tool(name string) string {
	if pkg := s.Client.InitializeResult().ServerInfo.Name; !strings.HasPrefix(name, pkg+".") {
		return pkg + "." + name
	}
	return name
}

// CallRaw calls a tool and returns what the protocol gave: an error for a
// JSON-RPC error, a result for everything else. The name may lack the package.
func (s *Session) CallRaw(tool string, arguments any) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Client.CallTool(ctx, &mcp.CallToolParams{Name: s.tool(tool), Arguments: arguments})
}

// Call calls a tool and returns its data. The test fails if the call does, or if
// the result does not fit the tool's output schema.
func Call[Out any](t testing.TB, s *Session, tool string, arguments any) Out {
	t.Helper()
	var body struct {
		OK   bool `json:"ok"`
		Data Out  `json:"data"`
	}
	if err := json.Unmarshal(s.call(t, tool, arguments, false), &body); err != nil {
		t.Fatalf("%s: decoding the result: %v", tool, err)
	}
	if !body.OK {
		t.Fatalf("%s: a success without ok", tool)
	}
	return body.Data
}

// CallFails calls a tool that is to fail as isError and returns the failure.
func CallFails(t testing.TB, s *Session, tool string, arguments any) *fault.Error {
	t.Helper()
	var e fault.Error
	if err := json.Unmarshal(s.call(t, tool, arguments, true), &e); err != nil {
		t.Fatalf("%s: decoding the failure: %v", tool, err)
	}
	return &e
}

// CallRefused calls a tool with arguments that do not fit its schema and returns
// the JSON-RPC error, whose code is -32602.
func CallRefused(t testing.TB, s *Session, tool string, arguments any) *jsonrpc.Error {
	t.Helper()
	res, err := s.CallRaw(tool, arguments)
	if err == nil {
		t.Fatalf("%s accepted %v and answered %s", tool, arguments, texts(res))
	}
	wire := asWire(err)
	if wire == nil || wire.Code != jsonrpc.CodeInvalidParams {
		t.Fatalf("%s: got %v, want a JSON-RPC error with code %d", tool, err, jsonrpc.CodeInvalidParams)
	}
	return wire
}

// call returns the structured content of a result that is or is not a failure.
func (s *Session) call(t testing.TB, tool string, arguments any, failure bool) []byte {
	t.Helper()
	res, err := s.CallRaw(tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if res.IsError != failure {
		t.Fatalf("%s: isError is %v, want %v: %s", tool, res.IsError, failure, texts(res))
	}
	if len(res.Content) == 0 {
		t.Errorf("%s: a result without text", tool)
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, listed := range s.listTools(t) {
		if listed.Name != s.tool(tool) {
			continue
		}
		if err := validate(listed.OutputSchema, res.StructuredContent); err != nil {
			t.Errorf("%s: the result does not fit the output schema: %v\n%s", tool, err, text)
		}
	}
	return text
}

func (s *Session) listTools(t testing.TB) []*mcp.Tool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var tools []*mcp.Tool
	for tool, err := range s.Client.Tools(ctx, nil) {
		if err != nil {
			t.Fatalf("listing the tools: %v", err)
		}
		tools = append(tools, tool)
	}
	return tools
}

// ReadJSON reads a resource of the app and decodes it into v.
func (s *Session) ReadJSON(t testing.TB, uri string, v any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := s.Client.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		t.Fatalf("reading %s: %v", uri, err)
	}
	if len(res.Contents) != 1 {
		t.Fatalf("reading %s: %d contents, want 1", uri, len(res.Contents))
	}
	if err := json.Unmarshal([]byte(res.Contents[0].Text), v); err != nil {
		t.Fatalf("decoding %s: %v", uri, err)
	}
}

func texts(res *mcp.CallToolResult) string {
	var list []string
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			list = append(list, t.Text)
		}
	}
	return strings.Join(list, "\n")
}

// validate holds v against schema, each as the client decoded it.
func validate(schema, v any) error {
	compiled, err := compile(schema)
	if err != nil {
		return err
	}
	plain, err := replay(v)
	if err != nil {
		return err
	}
	return compiled.Validate(plain)
}

func compile(schema any) (*jsonschema.Schema, error) {
	doc, err := replay(schema)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	return c.Compile("schema.json")
}

// replay turns v into the plain values that the validator wants.
func replay(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
}
