// Package settings has the platform's settings: defaults, platform.yaml and
// flags, what is wrong with them, which of them a running platform takes over,
// and where things are below the data folder.
//
//	o := settings.Defaults()
//	err := o.ReadConfig(settings.DefaultConfig, false) // platform.yaml, if it is there
//	err = o.Validate()
//
// The package starts nothing. What a setting does is the business of those who
// read it.
package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/aurorabot-dev/platform/apps"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Version is set by the linker in releases.
var Version = "0.1.0-dev"

// BuildVersion says what this binary is.
func BuildVersion() control.Version {
	v := control.Version{Version: Version, Go: runtime.Version(), Protocols: newestFirst(handshake.ProtocolVersions)}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}

// Options are the platform's settings: defaults, then platform.yaml, then flags.
type Options struct {
	// Manifests are folders or files with manifests, and [Builtin] for the apps that
	// come with the platform. Empty means those, and the folder "manifests" where it
	// exists.
	Manifests []string `json:"manifests,omitempty"`
	// Data is the data folder.
	Data string `json:"data,omitempty"`
	// Policy is the policy file. Empty means policy.yaml where that exists, else
	// the built-in rules.
	Policy string `json:"policy,omitempty"`
	Log    Log    `json:"log,omitempty"`
	Tool   Tools  `json:"tools,omitempty"`
	Call   Calls  `json:"calls,omitempty"`
	API    API    `json:"api,omitempty"`
	// Gateway offers everything to other MCP hosts.
	Gateway Gateway `json:"gateway,omitempty"`
	Auth    Auth    `json:"auth,omitempty"`
	// Bus is what carries events to the Brain: inbox or nats.
	Bus       string    `json:"bus,omitempty"`
	Inbox     Inbox     `json:"inbox,omitempty"`
	NATS      NATS      `json:"nats,omitempty"`
	Retention Retention `json:"retention,omitempty"`
	// Events routes event types, exact or as a prefix ending in ".*", to "inbox"
	// or "journal".
	Events map[string]string `json:"events,omitempty"`
	// Ask is what "platform ask" asks where its flags and the environment name
	// nothing. The daemon has no use for it.
	Ask Ask `json:"ask,omitempty"`
	// SpawnsPerMinute bounds how many processes are started, all servers
	// together, after the first start of each.
	SpawnsPerMinute int `json:"spawns_per_minute,omitempty"`
	// ShutdownSeconds bounds a graceful end.
	ShutdownSeconds int `json:"shutdown_seconds,omitempty"`
}

// Gateway says how other MCP hosts reach the platform over HTTP. Over a pipe they
// reach it with "platform gateway" in any case.
type Gateway struct {
	// Listen is a host:port. Empty means none. Beyond loopback there must be tokens.
	Listen string `json:"listen,omitempty"`
	// Tokens is a file with the tokens that clients must bring. Empty means that
	// every program of this machine may come, but no page in a browser.
	Tokens string `json:"tokens,omitempty"`
	// Hosts are names, without port, by which clients reach Listen beside
	// loopback's. Origins are those of pages that may use it.
	Hosts   []string `json:"hosts,omitempty"`
	Origins []string `json:"origins,omitempty"`
}

// Auth says how the platform authorizes itself towards remote servers.
type Auth struct {
	// KeyFile is a file whose content seals the tokens that are stored; at least
	// tokens.MinKey bytes, for its owner alone. The environment's AURORA_AUTH_KEY
	// does the same. Empty means that they are not sealed.
	KeyFile string `json:"key_file,omitempty"`
	// ClientMetadataURL is the client id metadata document for servers whose
	// manifest names none.
	ClientMetadataURL string `json:"client_metadata_url,omitempty"`
}

// Values of Options.Bus.
const (
	InboxBus = "inbox" // files for a Brain on this machine
	NATSBus  = "nats"  // JetStream, for more than one machine
)

// NATS says how to reach JetStream; see package natsbus for what each value means.
type NATS struct {
	URLs     []string `json:"urls,omitempty"`
	Creds    string   `json:"creds,omitempty"` // a file
	CA       string   `json:"ca,omitempty"`    // a file, as the next two
	Cert     string   `json:"cert,omitempty"`
	Key      string   `json:"key,omitempty"`
	Stream   string   `json:"stream,omitempty"`
	Prefix   string   `json:"prefix,omitempty"` // of subjects
	Replicas int      `json:"replicas,omitempty"`
	MaxDays  int      `json:"max_days,omitempty"` // how long the stream keeps an event
	MaxBytes int64    `json:"max_bytes,omitempty"`
}

// Inbox bounds pending/. At a limit new events are either held back in the
// journal until the Brain has taken some (block), or expired ones give way (spill).
type Inbox struct {
	Soft Limit `json:"soft,omitempty"`
	Hard Limit `json:"hard,omitempty"`
}

// Limit is a number of files or of bytes, whichever comes first; zero is the default.
type Limit struct {
	Files int64  `json:"files,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	Do    string `json:"do,omitempty"` // block or spill; empty is the default
}

// Retention says how long what nobody waits for is kept: files of done/, failed/
// and rejected/, each, and artifacts.
type Retention struct {
	Days  int   `json:"days,omitempty"`  // zero is for ever
	Bytes int64 `json:"bytes,omitempty"` // zero is without limit
}

// Log says how the platform logs to its standard error.
type Log struct {
	Format string `json:"format,omitempty"` // text or json
	Level  string `json:"level,omitempty"`  // debug, info, warn or error
}

// Tools says how tools are offered to models.
type Tools struct {
	Prefix  string `json:"prefix,omitempty"`  // leads every exported name; at most 8 of [A-Za-z0-9-]
	Profile string `json:"profile,omitempty"` // provider profile where a request names none
}

// Calls bounds tool calls.
type Calls struct {
	MaxPreview int `json:"max_preview,omitempty"` // bytes of a result's text in an event
	MaxResult  int `json:"max_result,omitempty"`  // bytes above which a result is kept as an artifact
}

// Ask names a chat model.
type Ask struct {
	BaseURL string `json:"base_url,omitempty"` // of an OpenAI-compatible API; empty means OpenAI's
	Model   string `json:"model,omitempty"`
	Profile string `json:"profile,omitempty"` // provider profile of the tools; empty means openai
}

// API says where the local API is served beside the socket.
type API struct {
	// Listen is a loopback host:port, "127.0.0.1:0" for any port. Empty means none.
	Listen string `json:"listen,omitempty"`
}

// Defaults are the settings of a platform without a configuration.
func Defaults() Options {
	return Options{
		Data:            "data",
		Log:             Log{Format: "text", Level: "info"},
		Tool:            Tools{Prefix: "mcp", Profile: "openai"},
		Call:            Calls{MaxPreview: 2000, MaxResult: 64 << 10},
		Bus:             InboxBus,
		Retention:       Retention{Days: 30, Bytes: 1 << 30},
		SpawnsPerMinute: 120,
		ShutdownSeconds: 15,
	}
}

// DefaultConfig is the file that is read where no other is named.
const DefaultConfig = "platform.yaml"

// ReadConfig reads settings from path over o. Whatever is wrong is in the error, with
// its line. A missing file is an error only if it was asked for.
func (o *Options) ReadConfig(path string, asked bool) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && !asked {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	doc := strict.YAML(path, raw, strict.Options{})
	doc.Decode(o)
	if len(doc.Faults) > 0 {
		doc.Sort()
		var all *multierror.Error
		for _, f := range doc.Faults {
			all = multierror.Append(all, f)
		}
		return fmt.Errorf("reading the configuration: %w", all)
	}
	// Paths in the file are relative to the file, wherever the platform is
	// started from.
	dir := filepath.Dir(path)
	for i, m := range o.Manifests {
		if m != Builtin {
			o.Manifests[i] = under(dir, m)
		}
	}
	o.Data = under(dir, o.Data)
	for _, file := range []*string{&o.Policy, &o.Auth.KeyFile, &o.NATS.Creds, &o.NATS.CA, &o.NATS.Cert, &o.NATS.Key, &o.Gateway.Tokens} {
		if *file != "" {
			*file = under(dir, *file)
		}
	}
	return nil
}

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,8}$`)

// Validate reports every setting that makes no sense.
func (o *Options) Validate() error {
	var faults *multierror.Error
	add := func(format string, args ...any) { faults = multierror.Append(faults, fmt.Errorf(format, args...)) }
	if o.Data == "" {
		add("data: the data folder must be named")
	}
	if o.Log.Format != "text" && o.Log.Format != "json" {
		add("log.format: %q is neither text nor json", o.Log.Format)
	}
	if _, err := o.Log.level(); err != nil {
		add("log.level: %q is none of debug, info, warn, error", o.Log.Level)
	}
	if !prefixForm.MatchString(o.Tool.Prefix) {
		add("tools.prefix: %q must be 1 to 8 letters, digits or dashes", o.Tool.Prefix)
	}
	if o.Call.MaxPreview < 0 || o.Call.MaxResult < 0 {
		add("calls: limits must not be negative")
	}
	if o.API.Listen != "" {
		if err := endpoint.CheckAddress(o.API.Listen); err != nil {
			add("api.listen: %v", err)
		}
	}
	if err := o.Gateway.check(); err != nil {
		add("%v", err)
	}
	switch {
	case o.Bus != InboxBus && o.Bus != NATSBus:
		add("bus: %q is neither inbox nor nats", o.Bus)
	case o.Bus == NATSBus && len(o.NATS.URLs) == 0:
		add("nats.urls: name a server, such as nats://127.0.0.1:4222")
	}
	if o.Retention.Days < 0 || o.Retention.Bytes < 0 {
		add("retention: must not be negative; 0 is for ever")
	}
	for name, l := range map[string]Limit{"soft": o.Inbox.Soft, "hard": o.Inbox.Hard} {
		if l.Files < 0 || l.Bytes < 0 || l.Do != "" && l.Do != "block" && l.Do != "spill" {
			add("inbox.%s: files and bytes must not be negative, and do is block or spill", name)
		}
	}
	if o.SpawnsPerMinute < 1 {
		add("spawns_per_minute: must be at least 1")
	}
	if o.ShutdownSeconds < 1 {
		add("shutdown_seconds: must be at least 1")
	}
	for typ, route := range o.Events {
		if route != "inbox" && route != "journal" {
			add("events: %s goes to inbox or journal, not %q", typ, route)
		}
	}
	return faults.ErrorOrNil()
}

func (l Log) level() (level slog.Level, err error) {
	return level, level.UnmarshalText([]byte(l.Level))
}

// Logger makes the logger that l describes.
func (l Log) Logger(w io.Writer) *slog.Logger {
	log, _ := l.Adjustable(w)
	return log
}

// Adjustable is Logger, with the level to change while it is in use.
func (l Log) Adjustable(w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar) // info
	if said, err := l.level(); err == nil {
		level.Set(said)
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		opts.ReplaceAttr = withUnit
		return slog.New(slog.NewJSONHandler(w, opts)), level
	}
	return slog.New(slog.NewTextHandler(w, opts)), level
}

// withUnit writes a duration as text, such as "1.5s", which the handler for JSON would
// write as a bare number of nanoseconds.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Routes are the routes of event types as the bridge takes them.
func (o *Options) Routes() map[string]bus.Route {
	m := make(map[string]bus.Route, len(o.Events))
	for typ, route := range o.Events {
		if route == "journal" {
			m[typ] = bus.Journal
		} else {
			m[typ] = bus.Inbox
		}
	}
	return m
}

// Shutdown is the bound of a graceful end.
func (o *Options) Shutdown() time.Duration { return time.Duration(o.ShutdownSeconds) * time.Second }

func newestFirst(versions []string) []string {
	out := slices.Clone(versions)
	slices.Reverse(out)
	return out
}

func (g Gateway) check() error {
	if g.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(g.Listen); err != nil {
		return fmt.Errorf("gateway.listen: %q is not host:port", g.Listen)
	}
	if err := endpoint.CheckAddress(g.Listen); err != nil && g.Tokens == "" {
		return fmt.Errorf("gateway.listen: %w, or name a file of tokens in gateway.tokens", err)
	}
	return nil
}

// DefaultManifests is the folder that is read where none is named.
const DefaultManifests = "manifests"

// Builtin stands among Manifests for the apps that come with the platform. A folder
// of that name is "./builtin".
const Builtin = "builtin"

// LeavesOutBuiltin reports whether the apps that come with the platform are not run, as
// other manifests were named.
func (o *Options) LeavesOutBuiltin() bool {
	return len(o.Manifests) > 0 && !slices.Contains(o.Manifests, Builtin)
}

// Sources says where manifests are: those that were named and no others, else
// the built-in apps and, where it exists, the folder "manifests".
func (o *Options) Sources() load.Options {
	src := load.Options{Lookup: os.LookupEnv}
	for _, m := range o.Manifests {
		if m != Builtin {
			src.Dirs = append(src.Dirs, m)
		}
	}
	if !o.LeavesOutBuiltin() {
		src.Embedded, src.EmbeddedDir = apps.Manifests, o.Data
	}
	if len(o.Manifests) == 0 {
		if info, err := os.Stat(DefaultManifests); err == nil && info.IsDir() {
			src.Dirs = []string{DefaultManifests}
		}
	}
	return src
}
