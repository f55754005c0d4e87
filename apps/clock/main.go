// Command aurora-clock is the app im.polaris.clock: timers and alarms that ring
// as events, whatever happened to the machine in between.
//
//	im.polaris.clock.create_timer {"duration": "25m", "label": "tea"}
//	im.polaris.clock.create_alarm {"time": "每天 07:30", "timezone": "Asia/Shanghai"}
//
// A tool answers once its change is on disk. What rings is an event,
// timer.triggered or alarm.triggered, with [Ring] as its data; what came due
// while nobody was running rings at the next start, marked late. Alarms keep to
// the wall clock of their zone: [Rule] says what happens when it is set.
//
// main.go adapts the service to MCP and holds no rule of its own; service.go (what
// may be asked), ring.go (what comes due), schedule.go, store.go and package walltime
// (what people write for times) know nothing of MCP. The app reads {"timezone": "Europe/Berlin"} from its
// configuration; without it the machine's own zone is where times are meant if no
// zone is named.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	_ "time/tzdata" // the zones are here also where the machine has none

	"github.com/aurorabot-dev/platform/apps/clock/walltime"
	"github.com/aurorabot-dev/platform/mcpkit/appkit"
)

//go:embed manifest.yaml
var manifest []byte

const resourceURI = "aurora://clock/timers"

func main() { appkit.Main(manifest, setup) }

func setup(app *appkit.App) error {
	cfg := struct {
		Timezone string `json:"timezone"`
	}{Timezone: localZone()}
	if err := app.Config(&cfg); err != nil {
		return err
	}
	changed := make(chan struct{}, 1) // one waiting word of change says it all
	clock, err := Open(Options{
		Dir:    app.DataDir(),
		Logger: app.Log,
		Zone:   cfg.Timezone,
		Ring:   func(ctx context.Context, r Ring) error { return app.Emit(ctx, event(r)) },
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return err
	}
	app.Go("clock", func(ctx context.Context) error {
		clock.Run(ctx)
		return nil
	})
	app.Go("announce", func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
				if err := app.ResourceChanged(ctx, resourceURI); err != nil {
					app.Log.Debug("a change was not announced", "error", err)
				}
			}
		}
	})
	addTools(app, clock)
	app.AddResource(appkit.Resource{
		URI:         resourceURI,
		Name:        "clock-timers",
		Title:       "活动的倒计时和闹钟 / Active timers and alarms",
		Description: "All active timers and alarms, the next to ring first.",
	}, func(ctx context.Context) (any, error) {
		items, err := clock.List(ctx, "")
		return listed{len(items), items}, err
	})
	return nil
}

// event is the word to the Brain that something rang.
func event(r Ring) appkit.Event {
	name := r.Label
	if name == "" {
		name = r.ID
	}
	summary := fmt.Sprintf("%s: %s", r.Kind, name)
	if r.Late {
		summary = fmt.Sprintf("%s: %s (late, it was due at %s)", r.Kind, name, r.DueAt.Format("2006-01-02 15:04:05 -07:00"))
	}
	return appkit.Event{Type: r.Kind + ".triggered", SessionID: r.SessionID, Summary: summary, Data: r, Key: r.Key()}
}

type listed struct {
	Total int    `json:"total"`
	Items []Item `json:"items"`
}

func (l listed) Text() string {
	if l.Total == 0 {
		return "Nothing is active."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d active:", l.Total)
	for _, it := range l.Items {
		fmt.Fprintf(&b, "\n%s %s %s", it.ID, it.DueAt.Format("Mon 2006-01-02 15:04:05 -07:00"), it.Label)
	}
	return b.String()
}

type created Item

func (c created) Text() string {
	return fmt.Sprintf("%s rings at %s.", c.ID, c.DueAt.Format("Mon 2006-01-02 15:04:05 -07:00"))
}

type cancelled Item

func (c cancelled) Text() string { return fmt.Sprintf("%s is cancelled.", c.ID) }

func addTools(app *appkit.App, clock *Service) {
	appkit.AddTool(app, appkit.Tool{
		Name:        "get_time",
		Title:       "当前时间 / Time of day",
		Description: "Tell the current date and time in a time zone.",
		ReadOnly:    true,
	}, func(_ context.Context, in struct {
		Timezone string `json:"timezone,omitempty" jsonschema:"IANA name such as Asia/Shanghai, or an offset such as +08:00; without it the clock's own zone" maxLength:"200"`
	}) (Time, error) {
		return clock.Time(in.Timezone)
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "create_timer",
		Title:       "设置倒计时 / Set a timer",
		Description: "Ring once after a duration, as the event timer.triggered. Give either duration or seconds. The timer survives restarts.",
	}, func(ctx context.Context, in struct {
		Duration  string  `json:"duration,omitempty" jsonschema:"such as 25m, 1h30m, 90s or 1小时30分钟; 1 second to 365 days" maxLength:"200"`
		Seconds   float64 `json:"seconds,omitempty" jsonschema:"the duration as a number of seconds" minimum:"1" maximum:"31536000"`
		Label     string  `json:"label,omitempty" jsonschema:"what it is for; shown when it rings" maxLength:"200"`
		SessionID string  `json:"session_id,omitempty" jsonschema:"the conversation that the event belongs to" maxLength:"200"`
	}) (created, error) {
		length := in.Duration
		if in.Seconds != 0 {
			if length != "" {
				return created{}, appkit.Fail("CLOCK_INVALID_DURATION", "give duration or seconds, not both")
			}
			length = strconv.FormatFloat(in.Seconds, 'f', 3, 64)
		}
		it, err := clock.AddTimer(ctx, length, in.Label, in.SessionID)
		return created(it), err
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "create_alarm",
		Title:       "设置闹钟 / Set an alarm",
		Description: "Ring at a time of day, once, daily or weekly, as the event alarm.triggered. The alarm survives restarts. A local time that daylight saving skips rings right after the gap; one that occurs twice rings the first time.",
	}, func(ctx context.Context, in struct {
		Time      string          `json:"time" jsonschema:"such as 07:30, 2026-12-01 07:30, 2026-12-01T07:30:00+08:00, tomorrow 07:30, every mon,wed 07:30, 每天 07:30, 明天 07:30, 工作日 07:30" minLength:"1" maxLength:"200"`
		Repeat    walltime.Repeat `json:"repeat,omitempty" jsonschema:"how often; without it as the time says, else once" enum:"once,daily,weekly"`
		Days      []string        `json:"days,omitempty" jsonschema:"days of a weekly alarm, such as mon or 周一" maxItems:"7"`
		Timezone  string          `json:"timezone,omitempty" jsonschema:"IANA name such as Asia/Shanghai, or an offset such as +08:00; without it the clock's own zone" maxLength:"200"`
		Label     string          `json:"label,omitempty" jsonschema:"what it is for; shown when it rings" maxLength:"200"`
		SessionID string          `json:"session_id,omitempty" jsonschema:"the conversation that the event belongs to" maxLength:"200"`
	}) (created, error) {
		it, err := clock.AddAlarm(ctx, walltime.Request{Text: in.Time, Repeat: in.Repeat, Days: in.Days, Zone: in.Timezone}, in.Label, in.SessionID)
		return created(it), err
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "list_timers",
		Title:       "列出倒计时和闹钟 / List what is active",
		Description: "List active timers and alarms, the next to ring first.",
		ReadOnly:    true,
	}, func(ctx context.Context, in struct {
		Kind  string `json:"kind,omitempty" jsonschema:"only these; without it both" enum:"timer,alarm"`
		Limit int    `json:"limit,omitempty" jsonschema:"how many at most" minimum:"1" maximum:"1000" default:"100"`
	}) (listed, error) {
		items, err := clock.List(ctx, in.Kind)
		return listed{len(items), items[:min(len(items), in.Limit)]}, err
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "cancel_timer",
		Title:       "取消倒计时或闹钟 / Cancel a timer or an alarm",
		Description: "End an active timer or alarm, with all its repetitions.",
		Destructive: true,
	}, func(ctx context.Context, in struct {
		ID string `json:"id" jsonschema:"as create_timer, create_alarm and list_timers give it, such as timer-12" minLength:"1" maxLength:"200"`
	}) (cancelled, error) {
		it, err := clock.Cancel(ctx, in.ID)
		return cancelled(it), err
	})
}

// localZone is the IANA name of the machine's own zone, and UTC where the
// machine does not say: alarms are stored by name, for "Local" may be another
// place tomorrow.
func localZone() string {
	name, set := os.LookupEnv("TZ")
	if !set {
		link, _ := filepath.EvalSymlinks("/etc/localtime")
		_, name, _ = strings.Cut(link, "zoneinfo/")
	}
	if _, err := walltime.LoadZone(strings.TrimPrefix(name, ":")); err != nil {
		return "UTC"
	}
	return strings.TrimPrefix(name, ":")
}
