// Package run is the verb that runs the platform, and what a person at a terminal
// sees of it meanwhile. What a running platform does is in package daemon.
package run

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

// NewCommand makes the verb "run".
func NewCommand(c *cli.Env) *cobra.Command {
	var s cli.Settings
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the platform until it is told to stop",
		Long: `Run the platform: start the servers of the manifests, offer their tools, answer
the other verbs on DATA/platform.sock, and write events into
DATA/kernel/inbox/pending/.

Without --manifests the three apps that come with the platform are run, and what
is in the folder "manifests"; with it they are run only where it says "builtin",
as in --manifests builtin --manifests my-apps. Manifests are watched: a change takes effect at once
and touches no other server.
SIGTERM and Ctrl-C end the platform and every server; SIGHUP reads the settings,
the policy and the manifests again.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPlatform(cmd.Context(), c, s)
		},
	}
	s.ManifestFlags(cmd, "")
	s.LogFlags(cmd, ", on a terminal error")
	return cmd
}

// leftOut says that the platform's own apps are not run.
const leftOut = "the apps that come with the platform are not run, as other manifests are named; --manifests builtin adds them"

func runPlatform(ctx context.Context, c *cli.Env, set cli.Settings) error {
	o, err := c.Options(set)
	if err != nil {
		return err
	}
	s := &screen{c: c, begun: time.Now()}
	hooks := daemon.Hooks{}
	if c.Out.Terminal() {
		if set.LogLevel == "" {
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
	log, level := o.Log.Adjustable(c.Err)
	hooks.Settings = &settings.Source{File: cmp.Or(set.Config, settings.DefaultConfig), Read: func() (settings.Options, error) {
		reader := *c // what the verb has found out about itself stays as it is
		return reader.Options(set)
	}}
	if set.LogLevel == "" && !c.Out.Terminal() {
		hooks.Settings.Level = level
	}
	if o.LeavesOutBuiltin() {
		s.without = leftOut
		if !c.Out.Terminal() {
			log.Info(leftOut)
		}
	}
	err = daemon.Run(ctx, o, log, hooks)
	var running *settings.RunningError
	if errors.As(err, &running) {
		return cli.Hint(err, "stop it first, or choose another folder with --data")
	}
	if err == nil && c.Out.Terminal() {
		c.Out.Printf("%s\n", c.Out.Paint(console.Dim, "stopped; every server has ended"))
	}
	return err
}
