// Package appkit turns a manifest and a few Go functions into an MCP server on
// stdio: an app. A whole app reads like this:
//
//	//go:embed manifest.yaml
//	var manifest []byte
//
//	func main() { appkit.Main(manifest, setup) }
//
//	func setup(app *appkit.App) error {
//		appkit.AddTool(app, appkit.Tool{
//			Name:        "say_hello", // offered as <package>.say_hello
//			Description: "Greet somebody by name.",
//			ReadOnly:    true,
//		}, func(ctx context.Context, in struct {
//			Name string `json:"name" jsonschema:"whom to greet" minLength:"1"`
//		}) (Greeting, error) {
//			if in.Name == "nobody" {
//				return Greeting{}, appkit.Fail("HELLO_NOBODY", "there is nobody to greet")
//			}
//			return Greeting{"hello, " + in.Name}, nil
//		})
//		return nil
//	}
//
// What the package does for an app:
//
//   - Tools are typed. Schemas come from the Go types and their struct tags;
//     arguments are checked against them before the function runs; results and
//     failures have the one shape {"ok":true,"data":…} or
//     {"ok":false,"error_code":…,"message":…,"retryable":…}. See [AddTool].
//   - Events are durable: [App.Emit] returns once the event is on disk, and it
//     is sent again, over restarts of either side, until it is acknowledged.
//   - [App.DataDir], [App.Config] and [App.Log] are the app's folder, its
//     settings and its log. Standard output carries MCP and nothing else.
//   - [App.Go] runs background work that is stopped and awaited at the end.
//   - A panic in a handler fails that call and is logged; the server lives.
//
// It serves one session over stdio in either protocol era. It does not serve
// HTTP, and it knows nothing of who is on the other side: any MCP host will do.
// Package appkittest tests an app built with it.
package appkit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/appkit/internal/outbox"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/internal/wire"
)

// stopWait bounds how long Serve waits, after the session has ended, for
// handlers and workers to notice that their context is cancelled.
const stopWait = 5 * time.Second

// Options replace what New otherwise takes from the environment. The zero value
// is right for an app in production.
type Options struct {
	DataDir    string       // absolute; "" means AURORA_APP_DATA_DIR, see App.DataDir
	ConfigPath string       // "" means AURORA_APP_CONFIG, see App.Config
	Log        *slog.Logger // nil means text on stderr at AURORA_LOG_LEVEL

	ResendAfter  time.Duration // first pause before an unacknowledged event is sent again; 0 means 5 s. It doubles up to twelve times its length.
	OutboxEvents int           // how many unacknowledged events are kept; 0 means 1000
	OutboxBytes  int64         // how many bytes they may have together; 0 means 8 MiB
}

// App is one MCP server. Register tools, resources and workers first, then
// serve once: an App does not serve a second session.
type App struct {
	Log *slog.Logger // writes to stderr

	manifest   manifest
	dataDir    string
	configPath string
	server     *mcp.Server
	outbox     *outbox.Outbox
	resources  map[string]bool
	tools      map[string]bool
	workers    []worker
	serving    atomic.Bool
}

type worker struct {
	name string
	run  func(context.Context) error
}

// New makes an App from its manifest, opens its data folder and reads the
// events in it that nobody has acknowledged yet. Its errors are a manifest that
// cannot be used and a data folder that cannot be had.
func New(manifestYAML []byte, opts Options) (*App, error) {
	m, err := parseManifest(manifestYAML)
	if err != nil {
		return nil, err
	}
	log := opts.Log
	if log == nil {
		log = newLogger(os.Stderr, os.Getenv("AURORA_LOG_LEVEL"))
	}
	dir, err := dataDir(opts.DataDir, m.Package)
	if err != nil {
		return nil, err
	}
	box, err := outbox.Open(filepath.Join(dir, "outbox"), outbox.Options{
		Pause: opts.ResendAfter, Events: opts.OutboxEvents, Bytes: opts.OutboxBytes,
	}, log)
	if err != nil {
		return nil, err
	}
	app := &App{
		Log:        log,
		manifest:   m,
		dataDir:    dir,
		configPath: opts.ConfigPath,
		outbox:     box,
		resources:  map[string]bool{},
		tools:      map[string]bool{},
	}
	if app.configPath == "" {
		app.configPath = os.Getenv("AURORA_APP_CONFIG")
	}
	app.server = mcp.NewServer(
		&mcp.Implementation{Name: m.Package, Title: m.Name, Version: m.Version},
		&mcp.ServerOptions{
			Logger:             slog.New(quiet{log.Handler()}),
			SubscribeHandler:   func(_ context.Context, r *mcp.SubscribeRequest) error { return app.known(r.Params.URI) },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
			Capabilities: &mcp.ServerCapabilities{
				Tools:        &mcp.ToolCapabilities{ListChanged: true},
				Experimental: map[string]any{wire.EventMethod: map[string]any{"ack": true}},
			},
		})
	return app, nil
}

// Package is the manifest's package, such as im.polaris.weather.
func (a *App) Package() string { return a.manifest.Package }

// Version is the manifest's version.
func (a *App) Version() string { return a.manifest.Version }

// Server is the SDK's server, for what this package has no word for, such as
// prompts. Tools added to it directly bypass the shapes described in AddTool.
func (a *App) Server() *mcp.Server { return a.server }

// Go registers background work, which runs from the start of Serve until its
// context is cancelled at the end. An error or a panic ends the app, so that
// whoever runs it can start it afresh; nil means that the work is finished.
// Go panics when the app is already serving.
func (a *App) Go(name string, run func(ctx context.Context) error) {
	if a.serving.Load() {
		panic("appkit: Go(" + name + ") after Serve")
	}
	a.workers = append(a.workers, worker{name, run})
}

// Serve answers one session on t until the peer closes it (nil), ctx is
// cancelled (nil) or a worker fails (its error). Then handlers and workers are
// cancelled and awaited for at most five seconds.
func (a *App) Serve(ctx context.Context, t mcp.Transport) error {
	if a.serving.Swap(true) {
		return errors.New("appkit: an App serves once")
	}
	life, stop := context.WithCancel(ctx)
	defer stop()
	link := wire.New(t, a.outbox, a.Log, internalMessage)
	a.server.AddReceivingMiddleware(a.guard(life, link))
	// Without ctx's cancellation: the end of ctx must reach us before it reaches
	// the connection, so that the session is closed in order.
	session, err := a.server.Connect(context.WithoutCancel(ctx), link, nil)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}

	a.Log.Info("app started", "package", a.Package(), "version", a.Version(), "events_waiting", a.outbox.Waiting())
	defer a.Log.Info("app stopped", "package", a.Package())

	var owned sync.WaitGroup
	failed := make(chan error, len(a.workers))
	for _, w := range a.workers {
		owned.Go(func() {
			if err := w.safely(life); err != nil && life.Err() == nil {
				failed <- fmt.Errorf("worker %s: %w", w.name, err)
			}
		})
	}
	owned.Go(func() { a.outbox.Deliver(life, link.Ready(), link.Send) })
	ended := make(chan error, 1)
	owned.Go(func() { ended <- session.Wait() })

	select {
	case <-ctx.Done():
	case err = <-failed:
		a.Log.Error("app stops", "error", err)
	case err = <-ended:
	}
	stop()

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = session.Close() // the reason for the end is known already
		owned.Wait()
	}()
	select {
	case <-stopped:
		return err
	case <-time.After(stopWait):
		return errors.Join(err, fmt.Errorf("handlers or workers ignored their cancelled context for %s", stopWait))
	}
}

// safely runs w and turns a panic into an error.
func (w worker) safely(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return w.run(ctx)
}

// guard cancels requests when life ends, turns their panics into failures (the SDK
// would let them end the process), and sees to it that they are answered.
func (a *App) guard(life context.Context, link *wire.Transport) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(whole context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
			defer func() { link.Returned(whole, req.GetExtra()) }()
			ctx, cancel := context.WithCancel(whole)
			defer cancel()
			defer context.AfterFunc(life, cancel)()
			defer func() {
				p := recover()
				if p == nil {
					return
				}
				a.Log.Error("handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: internalMessage}
				if method == "tools/call" {
					res, err = failure(errInternal), nil
				}
			}()
			return next(ctx, method, req)
		}
	}
}
