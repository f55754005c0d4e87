package appkit

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/term"
)

// Main is the main function of an app: it makes the App, lets setup register
// what the app offers, and serves stdio until the peer closes it or SIGTERM or
// SIGINT arrives. It ends the process with 0 after an orderly end, with 1 after
// an error, which it has written to stderr, and with 2 for flags it does not know.
//
// From its first line on, os.Stdout is stderr: what a library prints cannot get
// between the protocol's messages. -version, -manifest and -help answer a person
// and exit.
func Main(manifestYAML []byte, setup func(*App) error) {
	stdout := os.Stdout
	os.Stdout = os.Stderr
	os.Exit(run(manifestYAML, setup, os.Args[1:], os.Stdin, stdout, os.Stderr))
}

func run(manifestYAML []byte, setup func(*App) error, args []string, stdin, stdout, stderr *os.File) int {
	fail := func(err error) int {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	m, err := parseManifest(manifestYAML)
	if err != nil {
		return fail(err)
	}

	flags := flag.NewFlagSet(m.Package, flag.ContinueOnError)
	flags.SetOutput(stderr)
	showVersion := flags.Bool("version", false, "print the version and exit")
	showManifest := flags.Bool("manifest", false, "print the manifest and exit")
	flags.Usage = func() { usage(stderr, m, flags) }
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return 2
	case *showVersion:
		fmt.Fprintln(stdout, m.Package, m.Version)
		return 0
	case *showManifest:
		if _, err := stdout.Write(manifestYAML); err != nil {
			return fail(err)
		}
		return 0
	}

	app, err := New(manifestYAML, Options{})
	if err != nil {
		return fail(err)
	}
	if err := setup(app); err != nil {
		return fail(err)
	}
	if term.IsTerminal(int(stdin.Fd())) {
		fmt.Fprintf(stderr, "%s is an MCP server: it expects JSON-RPC on standard input, one message a line.\nhint: start it from an MCP host, or see -help; end it with Ctrl-D.\n", m.Package)
	}
	// Writing to a peer that is gone is to be an error: the default, for standard
	// output, is death without an orderly end.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := app.Serve(ctx, &mcp.IOTransport{Reader: stdin, Writer: stdout}); err != nil {
		return fail(err)
	}
	return 0
}

func usage(w io.Writer, m manifest, flags *flag.FlagSet) {
	fmt.Fprintf(w, "%s %s (%s): an MCP server on standard input and output.\n\nTools:\n", m.Package, m.Version, m.Name)
	for _, c := range m.Commands {
		fmt.Fprintf(w, "  %s\n    \t%s\n", m.fullName(c.Name), c.Description)
	}
	fmt.Fprint(w, `
Environment:
  AURORA_APP_DATA_DIR   absolute folder for what the app stores
  AURORA_APP_CONFIG     JSON or YAML file with its settings
  AURORA_LOG_LEVEL      debug, info, warn or error; the log goes to standard error

Flags:
`)
	flags.PrintDefaults()
}
