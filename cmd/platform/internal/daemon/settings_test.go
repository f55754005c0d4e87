package daemon

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
)

// inForce are the keys that take effect while the platform runs, each with a value and
// what shows that it counts.
var inForce = map[string]struct {
	text string
	seen func(r *running, level *slog.LevelVar) bool
}{
	"manifests": {"manifests: [other]", func(r *running, _ *slog.LevelVar) bool {
		return r.server("other").Name != "" && r.server("s").Name == ""
	}},
	"policy":            {"policy: other.yaml", func(r *running, _ *slog.LevelVar) bool { return r.rules.Config().Builtin == false }},
	"log.level":         {"log: {level: debug}", func(_ *running, level *slog.LevelVar) bool { return level.Level() == slog.LevelDebug }},
	"retention.days":    {"retention: {days: 3}", func(r *running, _ *slog.LevelVar) bool { return r.options().Retention.Days == 3 }},
	"retention.bytes":   {"retention: {bytes: 4}", func(r *running, _ *slog.LevelVar) bool { return r.options().Retention.Bytes == 4 }},
	"shutdown_seconds":  {"shutdown_seconds: 7", func(r *running, _ *slog.LevelVar) bool { o := r.options(); return o.Shutdown() == 7*time.Second }},
	"spawns_per_minute": {"spawns_per_minute: 60", func(r *running, _ *slog.LevelVar) bool { return r.options().SpawnsPerMinute == 60 }},
	"ask.base_url":      {"ask: {base_url: 'http://x'}", nil}, // read by "platform ask" itself
	"ask.model":         {"ask: {model: x}", nil},
	"ask.profile":       {"ask: {profile: x}", nil},
}

// settingKeys are the keys of platform.yaml, by the types that read them.
func settingKeys(t reflect.Type, at string) (keys []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		key := strings.TrimPrefix(at+"."+name, ".")
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, settingKeys(f.Type, key)...)
		} else {
			keys = append(keys, key)
		}
	}
	return keys
}

// otherValue is the YAML of a value that differs from the default.
func otherValue(key string) string {
	for suffix, value := range map[string]string{
		"log.format": "json", "tools.prefix": "other", "tools.profile": "gemini", "api.listen": "127.0.0.1:0", "gateway.listen": "127.0.0.1:0",
		"gateway.hosts": "[x]", "gateway.origins": "['http://x']", "nats.urls": "['nats://127.0.0.1:1']", "events": "{a.b: journal}",
		".do": "spill", "bus": "nats, nats: {urls: ['nats://127.0.0.1:1']}",
	} {
		if key == suffix || suffix[0] == '.' && strings.HasSuffix(key, suffix) {
			return value
		}
	}
	for _, number := range []string{"max_preview", "max_result", "files", "bytes", "replicas", "max_days"} {
		if strings.HasSuffix(key, number) {
			return "5"
		}
	}
	return "other"
}

func TestEveryKeyOfTheSettingsTakesEffectOrSaysThatItNeedsARestart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "platform.yaml")
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(other, "other.yaml"): fake("other", "echo", ""), filepath.Join(dir, "other.yaml"): "builtin: false\n", file: "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := launch(t, map[string]string{"s.yaml": fake("s", "echo", "")})
	level := new(slog.LevelVar)
	source := &settings.Source{File: file, Level: level, Read: func() (settings.Options, error) {
		o := r.o
		o.Manifests = slices.Clone(o.Manifests)
		err := o.ReadConfig(file, true)
		return o, err
	}}
	// reload does what a signal does.
	reload := func(text string) []string {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.reloadSettings(source)
		r.reloadPolicy()
		r.Reload()
		return slices.DeleteFunc(r.Status().Problems, func(p string) bool { return !strings.Contains(p, file) })
	}
	keys := settingKeys(reflect.TypeFor[settings.Options](), "")
	for _, key := range keys {
		live, ok := inForce[key]
		switch why := settings.Reason(key); {
		case ok && why != "", !ok && why == "":
			t.Errorf("%s: either it takes effect, or it needs a restart: %q", key, why)
		case ok:
			if problems := reload(live.text + "\n"); len(problems) > 0 {
				t.Errorf("%s: %q", key, problems)
			}
			if live.seen != nil {
				r.until(key+" having an effect", func() (bool, any) { return live.seen(r, level), r.Servers() })
			}
		default:
			text := otherValue(key)
			names := strings.Split(key, ".")
			for i := len(names) - 1; i >= 0; i-- {
				text = fmt.Sprintf("{%s: %s}", names[i], text)
			}
			problems := reload(text + "\n")
			if !slices.ContainsFunc(problems, func(p string) bool {
				return strings.Contains(p, key+" has changed; restart") && strings.Contains(p, why)
			}) {
				t.Errorf("%s: %s: the problems are %q", key, text, problems)
			}
		}
		if problems := reload(""); len(problems) > 0 {
			t.Errorf("%s, taken back: %q", key, problems)
		}
	}
	for key := range maps.Keys(inForce) {
		if !slices.Contains(keys, key) {
			t.Errorf("there is no key %s", key)
		}
	}
	for key := range maps.Keys(settings.AtStart) {
		if !slices.ContainsFunc(keys, func(k string) bool { return k == key || strings.HasPrefix(k, key+".") }) {
			t.Errorf("there is no key %s", key)
		}
	}
}

func TestABadEditOfTheSettingsKeepsThoseThatRun(t *testing.T) {
	r := launch(t, nil)
	file := filepath.Join(t.TempDir(), "platform.yaml")
	source := &settings.Source{File: file, Read: func() (settings.Options, error) {
		o := r.o
		err := o.ReadConfig(file, true)
		return o, err
	}}
	for text, want := range map[string]string{
		"retention:\n  days: 3\n  dais: 3\n":                                   file + ":3:3: retention.dais: unknown key; did you mean \"days\"?",
		"retention: {days: 3}\nshutdown_seconds: 0\n":                          file + ":2:19: shutdown_seconds: must be at least 1",
		"retention: {days: 3}\nlog:\n  level: loud\n":                          file + ":3:10: log.level: \"loud\" is none of",
		"retention: {days: 3}\nspawns_per_minute: many\n":                      file + ":2:20: spawns_per_minute: want a whole number",
		"retention: {days: 3}\nevents: {a.b: nowhere}\nshutdown_seconds: -1\n": file + ":3:19: shutdown_seconds: must be at least 1",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.reloadSettings(source)
		if got := strings.Join(r.Status().Problems, "\n"); !strings.Contains(got, "the settings stay as they were: "+want) {
			t.Errorf("the problems are\n%s\nwant\n%s", got, want)
		}
		if days := r.options().Retention.Days; days != 30 {
			t.Errorf("%q: retention is %d days", text, days)
		}
	}
}

func TestTheDocsSayWhichSettingsTakeEffectAtOnce(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(raw)), " ")
	_, text, _ = strings.Cut(text, "At once these take effect:")
	atOnce, text, _ := strings.Cut(text, "The others need a restart:")
	later, _, ok := strings.Cut(text, ". ")
	if !ok {
		t.Fatal("docs/operate.md does not say what takes effect")
	}
	for key := range inForce {
		top, _, _ := strings.Cut(key, ".")
		if !strings.Contains(atOnce, "`"+key+"`") && !strings.Contains(atOnce, "`"+top+"`") {
			t.Errorf("docs/operate.md does not say that %s takes effect at once", key)
		}
	}
	for key := range settings.AtStart {
		if !strings.Contains(later, "`"+key+"`") {
			t.Errorf("docs/operate.md does not say that %s needs a restart", key)
		}
	}
}
