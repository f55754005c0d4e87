package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	observed "github.com/aurorabot-dev/platform/mcpkit/signal"
)

func (c *cli) runCommand() *cobra.Command {
	o := daemon.Defaults()
	var config string
	var dirs []string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the platform until it is told to stop",
		Long: `Run the platform: start the servers of the manifests, offer their tools, answer
the other verbs on DATA/platform.sock, and write events into
DATA/kernel/inbox/pending/.

Without --manifests the three apps that come with the platform are run, and what
is in the folder "manifests". Manifests are watched: a change takes effect at once
and touches no other server.
SIGTERM and Ctrl-C end the platform and every server; SIGHUP reads the manifests
again.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.settings(cmd, &o, config, dirs); err != nil {
				return err
			}
			return c.run(cmd.Context(), o, cmd.Flags().Changed("log-level"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&config, "config", "", "configuration file (default platform.yaml, if there is one)")
	f.StringArrayVar(&dirs, "manifests", nil, "folder or file with manifests; may be repeated")
	f.StringVar(&o.Log.Format, "log-format", o.Log.Format, "text or json")
	f.StringVar(&o.Log.Level, "log-level", o.Log.Level, "debug, info, warn or error (on a terminal: error)")
	return cmd
}

// settings completes o: the configuration under the flags that were given.
func (c *cli) settings(cmd *cobra.Command, o *daemon.Options, config string, dirs []string) error {
	given := *o
	asked := config != ""
	if !asked {
		config = daemon.DefaultConfig
	}
	*o = daemon.Defaults()
	if err := o.ReadConfig(config, asked); err != nil {
		return &hinted{err, "see docs/operate.md for the settings"}
	}
	if len(dirs) > 0 {
		o.Manifests = dirs
	}
	if cmd.Flags().Changed("data") {
		o.Data = c.data
	} else if env := os.Getenv("AURORA_DATA"); env != "" {
		o.Data = env
	}
	c.data = o.Data
	if cmd.Flags().Changed("log-format") {
		o.Log.Format = given.Log.Format
	}
	if cmd.Flags().Changed("log-level") {
		o.Log.Level = given.Log.Level
	}
	if err := o.Validate(); err != nil {
		return &usageError{err, cmd}
	}
	return nil
}

func (c *cli) run(ctx context.Context, o daemon.Options, levelGiven bool) error {
	s := &screen{c: c, begun: time.Now()}
	hooks := daemon.Hooks{}
	if c.out.Terminal() {
		if !levelGiven {
			o.Log.Level = "error" // the screen shows the rest
		}
		hooks = daemon.Hooks{Up: s.up, Settled: s.settled, Signal: s.signal}
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal is gone
		defer stop()
	} else {
		reload := make(chan os.Signal, 1)
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
		hooks.Reload = reload
	}
	log := o.Log.Logger(c.err)
	err := daemon.Run(ctx, o, log, hooks)
	var running *daemon.RunningError
	if errors.As(err, &running) {
		return &hinted{err, "stop it first, or choose another folder with --data"}
	}
	if err == nil && c.out.Terminal() {
		c.out.Printf("%s\n", c.out.Paint(console.Dim, "stopped; every server has ended"))
	}
	return err
}

// screen shows a person at a terminal what happens.
type screen struct {
	c     *cli
	begun time.Time

	mu    sync.Mutex
	ready bool   // the first impression is complete
	asked string // the question that was shown last
}

func (s *screen) up(p *daemon.Platform, faults []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.c.out
	v := p.Version()
	out.Printf("%s %s\n\n", out.Paint(console.Bold, "Aurora Platform"), out.Paint(console.Dim, v.Version))
	for _, f := range faults {
		out.Printf("  %s %s\n", out.Paint(console.Red, "✗"), console.Safe(f.Error()))
	}
}

// signal writes a line for what a person wants to see go by.
func (s *screen) signal(sig observed.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	life, _ := sig.Data.(*observed.Lifecycle)
	switch sig.Kind {
	case observed.ServerStarted:
		tools, took := 0, int64(0)
		if life != nil {
			tools, took = life.Tools, life.StartMS
		}
		s.row("✓", console.Green, sig.Server, fmt.Sprintf("ready in %s, %s", console.Millis(took), count(tools, "tool")))
	case observed.ServerCrashed, observed.ServerPermanentlyFailed:
		s.row("✗", console.Red, sig.Server, sig.Summary)
	case observed.ServerRestarting, observed.ServerStopping:
		s.row("…", console.Yellow, sig.Server, sig.Summary)
	case observed.ServerStopped:
		s.row("·", console.Dim, sig.Server, sig.Summary)
	case observed.ToolFailed:
		if step, ok := sig.Data.(*observed.Step); !ok || step.ErrorCode != fault.ApprovalRequired { // that has its own line
			s.row("✗", console.Red, sig.Server, sig.Summary)
		}
	case observed.CapabilityChanged, observed.ToolCompleted, observed.AmbiguousCall, observed.Problem:
		s.row("·", console.Cyan, sig.Server, sig.Summary)
	case observed.PermissionRequested:
		if step, ok := sig.Data.(*observed.Step); ok && step.Decision == "ask" && step.Approval != s.asked {
			s.asked = step.Approval
			s.row("?", console.Yellow, sig.Server, step.Tool+" waits for a person:")
			s.c.out.Printf("    %s\n", s.c.out.Paint(console.Bold, s.verb("approvals approve "+step.Approval)))
		}
	case observed.Notification:
		s.row("✉", console.Cyan, sig.Server, sig.Method)
	case observed.AppEvent:
		s.event(sig)
	}
}

// event writes a line for an app's event, in either of its forms.
func (s *screen) event(sig observed.Signal) {
	event, err := amp.ParseEvent(sig.Params)
	switch {
	case err != nil:
		s.row("✗", console.Red, sig.Server, "an event that is none: "+strings.ReplaceAll(plain(err), "\n", "; "))
	case amp.Reserved(event.Type):
		s.row("✗", console.Red, sig.Server, "an event that poses as the platform's: "+event.Type)
	default:
		s.row("✉", console.Cyan, sig.Server, strings.TrimSuffix(event.Type+": "+event.Summary, ": "))
	}
}

func (s *screen) row(mark string, style console.Style, server, text string) {
	out := s.c.out
	lead, used := "", 30
	if s.ready {
		lead, used = out.Paint(console.Dim, time.Now().Format("15:04:05"))+" ", used+9
	}
	text = strings.TrimPrefix(strings.ReplaceAll(text, server+".", ""), server+" ") // the column before says it
	out.Printf("  %s%s %-24s %s\n", lead, out.Paint(style, mark), console.Safe(server), out.Fit(console.Safe(text), used))
}

// count is a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// verb is how a verb of this platform is typed in the folder in which it runs.
func (s *screen) verb(line string) string {
	exe := "platform"
	if path, err := os.Executable(); err == nil {
		exe = relative(path)
	}
	if s.c.data != "data" {
		line += " --data " + quoteArg(s.c.data)
	}
	return exe + " " + line
}

// settled says where things are and what to try next.
func (s *screen) settled(p *daemon.Platform) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.c.out
	ready, names := 0, []string{}
	for _, v := range p.Servers() {
		if v.Phase == "ready" {
			ready++
		}
	}
	for _, t := range p.Tools("") {
		names = append(names, t.ExportName)
	}
	st := p.Status()
	out.Printf("\n  %s, %s in %s\n", count(ready, "server"), count(len(names), "tool"), time.Since(s.begun).Round(10*time.Millisecond))
	if len(names) > 0 {
		shown := names
		if len(shown) > 12 {
			shown = append(shown[:12:12], fmt.Sprintf("and %d more", len(names)-12))
		}
		out.Printf("  %s\n", out.Paint(console.Dim, wrap(strings.Join(shown, "  "), 76, "  ")))
	}
	out.Printf("\n  Inbox   %s\n", relative(filepath.Join(st.Inbox, "pending")))
	out.Printf("  Try in another terminal:\n")
	for _, line := range s.suggestions(p) {
		out.Printf("    %s\n", out.Paint(console.Bold, line))
	}
	out.Printf("  Ctrl-C stops everything.\n\n")
	s.ready = true
}

// suggestions are three commands that work now.
func (s *screen) suggestions(p *daemon.Platform) []string {
	call := s.verb("tools")
	for _, t := range p.Tools("") {
		if strings.HasSuffix(t.Name, ".get_time") {
			call = s.verb(fmt.Sprintf(`call %s '{"timezone":"Asia/Shanghai"}'`, t.ExportName))
		}
	}
	return []string{call, s.verb("inbox follow"), s.verb("servers")}
}

// relative shortens a path below the current folder.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

// wrap breaks text at double blanks.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	col := 0
	for i, word := range strings.Split(text, "  ") {
		if i > 0 && col+2+len(word) > width {
			b.WriteString("\n" + indent)
			col = 0
		} else if i > 0 {
			b.WriteString("  ")
			col += 2
		}
		b.WriteString(word)
		col += len(word)
	}
	return b.String()
}
