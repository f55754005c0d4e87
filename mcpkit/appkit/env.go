package appkit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// DataDir is the app's own folder, absolute and private to this user. It is
// AURORA_APP_DATA_DIR, and aurora/<package> in the user's configuration folder
// when the app is started without it: what an app stores is never in a place
// that gets cleaned. The folder "outbox" in it belongs to this package.
func (a *App) DataDir() string { return a.dataDir }

func dataDir(dir, pkg string) (string, error) {
	if dir == "" {
		dir = os.Getenv("AURORA_APP_DATA_DIR")
	}
	if dir == "" {
		base, err := os.UserConfigDir()
		if err != nil {
			return "", fmt.Errorf("finding a data folder: AURORA_APP_DATA_DIR is unset and %w", err)
		}
		dir = filepath.Join(base, "aurora", pkg)
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("the data folder %q is not an absolute path", dir)
	}
	if err := durable.MkdirAll(dir); err != nil {
		return "", fmt.Errorf("making the data folder: %w", err)
	}
	return dir, nil
}

// Config reads the file named by AURORA_APP_CONFIG, JSON or YAML, over what cfg
// already holds; cfg points to a struct with json tags. Without that variable
// cfg stays as it is. A key that cfg does not have is an error.
func (a *App) Config(cfg any) error {
	if a.configPath == "" {
		return nil
	}
	text, err := os.ReadFile(a.configPath)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := decodeConfig(text, cfg); err != nil {
		return fmt.Errorf("reading the configuration %s: %w", a.configPath, err)
	}
	return nil
}

func decodeConfig(text []byte, cfg any) error {
	if !json.Valid(text) { // YAML: by way of JSON, so that one set of tags and one strictness holds
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			return err
		}
		if v == nil {
			return nil // empty, or nothing but comments
		}
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(cfg)
}

// newLogger logs as text to w. An unknown level means info, and says so.
func newLogger(w io.Writer, level string) *slog.Logger {
	var min slog.Level
	err := min.UnmarshalText([]byte(level))
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: min}))
	if err != nil && level != "" {
		log.Warn("unknown AURORA_LOG_LEVEL, using info", "level", level)
	}
	return log
}

// quiet makes the SDK's own chatter debug output: it reports each session's
// beginning and end at info, and a closed pipe as an error.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }

// WriteFile replaces the file at path with data, private to this user. Whatever
// happens, power loss included, the file holds either the old content or the new
// one in full; when WriteFile has returned nil it is the new one.
func WriteFile(path string, data []byte) error { return durable.WriteFile(path, data) }

// RemoveFile removes the file at path for good: when it has returned nil, the
// file does not come back after power loss. A file that is not there is no error.
func RemoveFile(path string) error { return durable.RemoveFile(path) }
