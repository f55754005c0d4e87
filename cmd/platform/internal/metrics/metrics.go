// Package metrics tells a Prometheus server how the platform does: its events,
// its bus, its servers and the calls it carried.
//
// What others count already is read when somebody asks; only calls are counted
// here, from the signals that end them. The names are stable, and the labels are
// the names of servers and words of the platform's own, and of at most [maxTools]
// tools their names, so that no server can make their number grow.
//
//	m := metrics.New(metrics.Sources{Events: bridge.Counts, Bus: …, Servers: …})
//	sink := m.Watch(sink)
//	http.Handle("/metrics", m)
package metrics

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Sources are where the figures come from. All are required and called for each
// scrape.
type Sources struct {
	Version string
	Events  func() bridge.Counts
	Bus     func() Bus
	Servers func() []Server
}

// Bus is the state of the bus. Pairs that a bus has no word for are -1.
type Bus struct {
	Degraded bool
	Recorded, Delivered,
	Spilled, Syncs int64 // since the start
	Backlog, Pending, PendingBytes,
	IDs int64 // now
}

// Server is the state of one server.
type Server struct {
	Name     string
	Phase    string
	Restarts int
	Tools    int
}

// Phases are all that a server can be in; exactly one of them is 1.
var Phases = []string{"starting", "ready", "degraded", "stopping", "stopped", "backoff", "needs_auth", "failed", "disabled"}

// Metrics is an http.Handler that answers in the text format of Prometheus.
type Metrics struct {
	http.Handler
	src      Sources
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu    sync.Mutex
	tools map[string]bool // that have a label of their own, by id
}

// maxTools is how many tools have a label of their own; the others share [otherTools].
const (
	maxTools   = 500
	otherTools = "other"
)

// Outcomes of a call, as the label outcome has them.
const (
	completed = "completed"  // the tool ran
	toolError = "tool_error" // the tool ran and says that it failed
	failed    = "failed"     // nothing ran, as far as anybody knows
	unknown   = "unknown"    // it may have run; the answer never came
)

// New makes the metrics of one platform.
func New(src Sources) *Metrics {
	m := &Metrics{
		src:   src,
		tools: map[string]bool{},
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aurora_calls_total", Help: "Tool calls that ended, by server, tool and outcome. Server and tool are empty where no tool matched.",
		}, []string{"server", "tool", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aurora_call_duration_seconds", Help: "How long tool calls took that were answered.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"server"}),
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.calls, m.duration, collector{src})
	m.Handler = promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	return m
}

// Watch counts the calls whose ends pass on their way to next.
func (m *Metrics) Watch(next signal.Sink) signal.Sink {
	return signal.SinkFunc(func(ctx context.Context, s signal.Signal) error {
		if step, ok := s.Data.(*signal.Step); ok {
			m.count(s.Kind, step)
		}
		return next.Observe(ctx, s)
	})
}

func (m *Metrics) count(kind signal.Kind, step *signal.Step) {
	outcome := completed
	switch {
	case step.IsError && (kind == signal.ToolFailed || kind == signal.ToolCompleted):
		outcome = toolError
	case kind == signal.AmbiguousCall || kind == signal.ToolFailed && step.Outcome != unknown:
		outcome = failed
	case kind == signal.ToolFailed:
		outcome = unknown
	case kind != signal.ToolCompleted:
		return
	}
	m.calls.WithLabelValues(step.Server, m.tool(step), outcome).Inc()
	if outcome == completed || outcome == toolError {
		m.duration.WithLabelValues(step.Server).Observe(float64(step.DurationMS) / 1000)
	}
}

// tool is the label of a step's tool: its name without the server's.
func (m *Metrics) tool(step *signal.Step) string {
	if step.Server == "" {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.tools[step.Tool] {
		if len(m.tools) >= maxTools {
			return otherTools
		}
		m.tools[step.Tool] = true
	}
	return strings.TrimPrefix(step.Tool, step.Server+".")
}

// collector reads the sources.
type collector struct{ src Sources }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("aurora_"+name, help, labels, nil)
}

var (
	buildInfo    = desc("build_info", "Which version this is.", "version")
	events       = desc("events_total", "Events by their fate.", "fate")
	waiting      = desc("events_waiting", "Signals that wait to become events.")
	degraded     = desc("bus_degraded", "Whether events do not get through just now.")
	recorded     = desc("bus_recorded_total", "Events that only the journal got.")
	delivered    = desc("bus_delivered_total", "Events made visible to the Brain.")
	spilled      = desc("inbox_spilled_total", "Expired events moved out of pending/ at a limit.")
	syncs        = desc("inbox_syncs_total", "Sync calls, of the journal and for files.")
	backlog      = desc("bus_backlog", "Durable events that are not visible yet.")
	pending      = desc("inbox_pending", "Files in pending/.")
	pendingBytes = desc("inbox_pending_bytes", "About how large those files are.")
	ids          = desc("bus_remembered_ids", "Ids that are remembered against duplicates.")
	phase        = desc("server_phase", "1 for the phase a server is in, 0 for the others.", "server", "phase")
	restarts     = desc("server_restarts_total", "Restarts of a server after crashes.", "server")
	tools        = desc("server_tools", "Tools that a server offers.", "server")
)

// Describe sends nothing: which servers there are changes.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything once.
func (c collector) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	total := func(d *prometheus.Desc, v int64, labels ...string) {
		if v >= 0 {
			put(d, prometheus.CounterValue, float64(v), labels...)
		}
	}
	now := func(d *prometheus.Desc, v int64, labels ...string) {
		if v >= 0 {
			put(d, prometheus.GaugeValue, float64(v), labels...)
		}
	}
	put(buildInfo, prometheus.GaugeValue, 1, c.src.Version)
	e := c.src.Events()
	total(events, e.Accepted, "accepted")
	total(events, e.Duplicate, "duplicate")
	total(events, e.Rejected, "rejected")
	total(events, e.Expired, "expired")
	now(waiting, e.Waiting)
	b := c.src.Bus()
	now(degraded, count(b.Degraded))
	total(recorded, b.Recorded)
	total(delivered, b.Delivered)
	total(spilled, b.Spilled)
	total(syncs, b.Syncs)
	now(backlog, b.Backlog)
	now(pending, b.Pending)
	now(pendingBytes, b.PendingBytes)
	now(ids, b.IDs)
	for _, s := range c.src.Servers() {
		for _, p := range Phases {
			now(phase, count(p == s.Phase), s.Name, p)
		}
		if !slices.Contains(Phases, s.Phase) {
			now(phase, 1, s.Name, s.Phase)
		}
		total(restarts, int64(s.Restarts), s.Name)
		now(tools, int64(s.Tools), s.Name)
	}
}

func count(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
