package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	observed "github.com/aurorabot-dev/platform/mcpkit/signal"
)

// screen shows a person at a terminal what happens.
type screen struct {
	c     *cli.Env
	begun time.Time
	// without says what is left out; empty where nothing is.
	without string

	mu    sync.Mutex
	ready bool   // the first impression is complete
	asked string // the question that was shown last
}

func (s *screen) up(p *daemon.Platform, faults []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.c.Out
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
		s.row("✓", console.Green, sig.Server, fmt.Sprintf("ready in %s, %s", console.Millis(took), cli.Count(tools, "tool")))
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
			s.c.Out.Printf("    %s\n", s.c.Out.Paint(console.Bold, s.verb("approvals approve "+step.Approval)))
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
		s.row("✗", console.Red, sig.Server, "an event that is none: "+strings.ReplaceAll(cli.Plain(err), "\n", "; "))
	case amp.Reserved(event.Type):
		s.row("✗", console.Red, sig.Server, "an event that poses as the platform's: "+event.Type)
	default:
		s.row("✉", console.Cyan, sig.Server, strings.TrimSuffix(event.Type+": "+event.Summary, ": "))
	}
}

func (s *screen) row(mark string, style console.Style, server, text string) {
	out := s.c.Out
	lead, used := "", 30
	if s.ready {
		lead, used = out.Paint(console.Dim, time.Now().Format("15:04:05"))+" ", used+9
	}
	text = strings.TrimPrefix(strings.ReplaceAll(text, server+".", ""), server+" ") // the column before says it
	out.Printf("  %s%s %-24s %s\n", lead, out.Paint(style, mark), console.Safe(server), out.Fit(console.Safe(text), used))
}

// verb is how a verb of this platform is typed in the folder in which it runs.
func (s *screen) verb(line string) string {
	exe := "platform"
	if path, err := os.Executable(); err == nil {
		exe = relative(path)
	}
	if s.c.Data != "data" {
		line += " --data " + cli.QuoteArg(s.c.Data)
	}
	return exe + " " + line
}

// settled says where things are and what to try next.
func (s *screen) settled(p *daemon.Platform) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.c.Out
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
	out.Printf("\n  %s, %s in %s\n", cli.Count(ready, "server"), cli.Count(len(names), "tool"), time.Since(s.begun).Round(10*time.Millisecond))
	if len(names) > 0 {
		shown := names
		if len(shown) > 12 {
			shown = append(shown[:12:12], fmt.Sprintf("and %d more", len(names)-12))
		}
		out.Printf("  %s\n", out.Paint(console.Dim, wrap(strings.Join(shown, "  "), 76, "  ")))
	}
	if s.without != "" {
		out.Printf("\n  %s\n", out.Paint(console.Dim, wrap(strings.ReplaceAll(s.without, " ", "  "), 76, "  ")))
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
