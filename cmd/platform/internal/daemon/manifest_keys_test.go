package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// effect is what a change of a manifest's key means for a server that runs.
type effect int

const (
	another  effect = iota // it is another server
	replaced               // calls in flight finish, then a new process, or a new connection
	inPlace                // it runs on, and the new value counts
	up                     // it is stopped, or started
)

// change is one change of a manifest's key, and how its effect is seen. Where seen is
// nil, that there is a new process is enough.
type change struct {
	effect effect
	value  any
	seen   func(r *running, s serverkit.Status) error
}

func process(file, want string) func(*running, serverkit.Status) error {
	return func(_ *running, s serverkit.Status) error {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.PID, file))
		if err == nil && !strings.Contains(string(raw), want) {
			err = fmt.Errorf("%s is %q, want %q in it", file, raw, want)
		}
		return err
	}
}

// told looks for words in what the server has been sent, its client's capabilities
// among it.
func told(want string) func(*running, serverkit.Status) error {
	return func(r *running, _ serverkit.Status) error {
		got, err := r.call("s.kept", "")
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("%q was not told; the server got %.2000s", want, got)
		}
		return err
	}
}

func named(tool string) func(*running, serverkit.Status) error {
	return func(r *running, _ serverkit.Status) error { _, err := r.host.Table().Resolve(tool); return err }
}

// gone looks for a tool that must not be there.
func gone(tool string) func(*running, serverkit.Status) error {
	return func(r *running, _ serverkit.Status) error {
		if _, err := r.host.Table().Resolve(tool); err == nil {
			return fmt.Errorf("there is the tool %s", tool)
		}
		return nil
	}
}

// shown compares what the API shows of the server.
func shown(get func(r *running) string, want string) func(*running, serverkit.Status) error {
	return func(r *running, _ serverkit.Status) error {
		if got := get(r); got != want {
			return fmt.Errorf("it shows %q, want %q", got, want)
		}
		return nil
	}
}

// current looks at the spec that the manifest, as it runs, makes.
func current(ok func(s serverkit.Spec) bool) func(*running, serverkit.Status) error {
	return func(r *running, _ serverkit.Status) error {
		r.mu.Lock()
		m := r.manifests["s"]
		r.mu.Unlock()
		if spec, err := r.connector.Spec(m); err != nil || !ok(spec) {
			return fmt.Errorf("the spec is %+v, %v", spec, err)
		}
		return nil
	}
}

// limit looks at what the session was given.
func limit(ok func(m *manifest.Manifest) bool) func(*running, serverkit.Status) error {
	return func(r *running, _ serverkit.Status) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !ok(r.manifests["s"]) {
			return fmt.Errorf("the manifest is %+v", r.manifests["s"])
		}
		return nil
	}
}

// local are the changes of a server that is a process. One without an entry here is in
// remote.
var local = map[string]change{
	"package":     {another, "t", nil},
	"name":        {inPlace, "Another", shown(func(r *running) string { return r.server("s").Title }, "Another")},
	"version":     {inPlace, "2", limit(func(m *manifest.Manifest) bool { return m.Version == "2" })},
	"type":        {another, "mcp-server", nil}, // there is one value
	"alias":       {replaced, "other", named("other.echo")},
	"description": {inPlace, "Other words", limit(func(m *manifest.Manifest) bool { return m.Description == "Other words" })},
	"disabled":    {up, true, nil},

	"mcp.transport": {replaced, "http", nil}, // tried with remote
	"mcp.command":   {replaced, nil, nil},    // see below
	"mcp.entry":     {replaced, "entry.txt", process("cmdline", "entry.txt")},
	"mcp.args":      {replaced, []string{"greeting=other"}, process("cmdline", "greeting=other")},
	"mcp.env":       {replaced, nil, process("environ", "OTHER=other")},
	"mcp.secrets":   {inPlace, []string{"AURORA_FAKE_SERVER"}, current(func(s serverkit.Spec) bool { return len(s.Secrets) > 0 })},
	"mcp.cwd":       {replaced, "/", shown(func(r *running) string { return r.server("s").Dir }, "/")},

	"mcp.env_file":      {replaced, nil, process("environ", "FROM_FILE=1")},
	"mcp.tools.include": {replaced, []string{"ec*"}, limit(func(m *manifest.Manifest) bool { c := servers.Config(m); return c.Keeps("echo") && !c.Keeps("other") })},
	"mcp.tools.exclude": {replaced, []string{"echo"}, gone("s.echo")},

	"mcp.health_timeout": {inPlace, 77, current(func(s serverkit.Spec) bool { return s.StartTimeout.Seconds() == 77 })},
	"mcp.call_timeout":   {replaced, 55, limit(func(m *manifest.Manifest) bool { return servers.Config(m).CallTimeout.Seconds() == 55 })},
	"mcp.max_call_time":  {replaced, 666, limit(func(m *manifest.Manifest) bool { return servers.Config(m).MaxCallTime.Seconds() == 666 })},
	"mcp.max_line":       {replaced, "32KiB", limit(func(m *manifest.Manifest) bool { return servers.Config(m).MaxLine == 32<<10 })},

	"mcp.restart.enabled":             {inPlace, false, current(func(s serverkit.Spec) bool { return s.Restart.Never })},
	"mcp.restart.max_attempts":        {inPlace, 9, current(func(s serverkit.Spec) bool { return s.Restart.Max == 9 })},
	"mcp.restart.backoff_seconds":     {inPlace, 2, current(func(s serverkit.Spec) bool { return s.Restart.Base.Seconds() == 2 })},
	"mcp.restart.max_backoff_seconds": {inPlace, 20, current(func(s serverkit.Spec) bool { return s.Restart.Cap.Seconds() == 20 })},
	"mcp.restart.stable_seconds":      {inPlace, 5, current(func(s serverkit.Spec) bool { return s.Restart.StableAfter.Seconds() == 5 })},
	"mcp.stop.close_wait":             {inPlace, 1, current(func(s serverkit.Spec) bool { return s.Stop.CloseWait.Seconds() == 1 })},
	"mcp.stop.term_wait":              {inPlace, 1, current(func(s serverkit.Spec) bool { return s.Stop.TermWait.Seconds() == 1 })},
	"mcp.stop.drain":                  {inPlace, 1, current(func(s serverkit.Spec) bool { return s.Stop.Drain.Seconds() == 1 })},

	"mcp.sandbox.profile":           {replaced, "offline", current(func(s serverkit.Spec) bool { return s.Sandbox != nil && s.Sandbox.Network == "none" })},
	"mcp.sandbox.network":           {replaced, "all", current(func(s serverkit.Spec) bool { return s.Sandbox != nil && s.Sandbox.Network == "all" })},
	"mcp.sandbox.read":              {replaced, []string{"/opt"}, current(func(s serverkit.Spec) bool { return slices.Contains(s.Sandbox.Read, "/opt") })},
	"mcp.sandbox.write":             {replaced, []string{"/opt"}, current(func(s serverkit.Spec) bool { return slices.Contains(s.Sandbox.Write, "/opt") })},
	"mcp.sandbox.limits.memory":     {replaced, "1GiB", current(func(s serverkit.Spec) bool { return s.Sandbox.Limits.Memory == 1<<30 })},
	"mcp.sandbox.limits.processes":  {replaced, 99, current(func(s serverkit.Spec) bool { return s.Sandbox.Limits.Processes == 99 })},
	"mcp.sandbox.limits.open_files": {replaced, 99, current(func(s serverkit.Spec) bool { return s.Sandbox.Limits.OpenFiles == 99 })},

	"mcp.roots":       {replaced, true, told(`"roots":{`)},
	"mcp.sampling":    {replaced, true, told(`"sampling":{`)},
	"mcp.elicitation": {replaced, true, told(`"elicitation":{`)},

	"commands":               {inPlace, []any{map[string]any{"name": "echo"}}, limit(func(m *manifest.Manifest) bool { return len(m.Commands) == 1 })},
	"commands[].name":        {inPlace, []any{map[string]any{"name": "kept"}}, limit(func(m *manifest.Manifest) bool { return m.Commands[0].Name == "kept" })},
	"commands[].description": {inPlace, []any{map[string]any{"name": "echo", "description": "x"}}, limit(func(m *manifest.Manifest) bool { return m.Commands[0].Description == "x" })},
}

// remote are the keys of a server at a URL alone: a change of each needs a new
// connection.
var remote = []string{
	"mcp.url", "mcp.headers", "mcp.auth.type", "mcp.auth.token", "mcp.auth.client_id", "mcp.auth.client_secret",
	"mcp.auth.client_key_file", "mcp.auth.assertion_file", "mcp.auth.client_auth", "mcp.auth.client_metadata_url",
	"mcp.auth.issuer", "mcp.auth.scopes", "mcp.auth.audience", "mcp.auth.redirect_port",
}

// manifestKeys are the keys of a manifest, by the types that read them.
func manifestKeys(t reflect.Type, at string) (keys []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		key := strings.TrimPrefix(at+"."+name, ".")
		switch {
		case f.Type.Kind() == reflect.Struct && strings.HasPrefix(f.Type.PkgPath(), reflect.TypeFor[manifest.Manifest]().PkgPath()):
			keys = append(keys, manifestKeys(f.Type, key)...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			keys = append(append(keys, key), manifestKeys(f.Type.Elem(), key+"[]")...)
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// with is a manifest's text with one key changed.
func with(t *testing.T, text, key string, value any) string {
	t.Helper()
	doc := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	at := doc
	key, _, _ = strings.Cut(key, "[")
	names := strings.Split(key, ".")
	for _, name := range names[:len(names)-1] {
		if _, ok := at[name].(map[string]any); !ok {
			at[name] = map[string]any{}
		}
		at = at[name].(map[string]any)
	}
	at[names[len(names)-1]] = value
	out, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestEveryKeyOfAManifestThatIsChangedTakesEffect(t *testing.T) {
	base := fake("s", "modern", "")
	keys := manifestKeys(reflect.TypeFor[manifest.Manifest](), "")
	r := launch(t, map[string]string{"s.yaml": base})
	r.phase("s", "ready")
	argv := strings.Fields(strings.SplitN(base, "command: [", 2)[1])[0]
	argv = strings.Trim(argv, `"],`)
	other := filepath.Join(t.TempDir(), "other") // the same program under another name
	if err := os.Symlink(argv, other); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		c, ok := local[key]
		if !ok && !slices.Contains(remote, key) {
			t.Errorf("%s: nobody has said what a change of it does", key)
		}
		if !ok || c.effect == another || key == "mcp.transport" {
			continue
		}
		switch key {
		case "mcp.command":
			c.value, c.seen = []string{other}, process("cmdline", other)
		case "mcp.env":
			c.value = map[string]any{"AURORA_FAKE_SERVER": "modern", "OTHER": "other"}
		case "mcp.env_file":
			c.value = filepath.Join(t.TempDir(), "env")
			if err := os.WriteFile(c.value.(string), []byte("FROM_FILE=1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := r.servers.Status("s")
		r.write("s.yaml", with(t, base, key, c.value))
		r.Reload()
		if faults := r.Faults(); len(faults) > 0 {
			t.Fatalf("%s: %v", key, faults)
		}
		switch c.effect {
		case up:
			r.phase("s", "disabled")
		case replaced:
			r.until(key+" has the server replaced", func() (bool, any) {
				s := r.servers.Status("s")
				return s.Phase == serverkit.Ready && s.PID != before.PID, s
			})
		}
		if now := r.servers.Status("s"); c.effect == inPlace && now.PID != before.PID {
			t.Errorf("%s: the server was replaced, which it need not be", key)
		}
		if c.seen != nil {
			if err := c.seen(r, *r.servers.Status("s")); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if c.effect != inPlace { // what follows begins from the same server
			pid := r.servers.Status("s").PID
			r.write("s.yaml", base)
			r.Reload()
			r.until(key+" is as it was", func() (bool, any) {
				s := r.servers.Status("s")
				return s.Phase == serverkit.Ready && s.PID != pid, s
			})
		}
	}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(local)), remote) {
		if !slices.Contains(keys, key) {
			t.Errorf("there is no key %s", key)
		}
	}
}

// set gives the field of a key another value.
func set(v reflect.Value, key string) {
	for name := range strings.SplitSeq(key, ".") {
		v = v.FieldByNameFunc(func(field string) bool {
			f, _ := v.Type().FieldByName(field)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag == name
		})
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Int:
		v.SetInt(4711)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"X-Other": "other"}))
	}
}

func TestEveryKeyOfAServerAtAURLThatIsChangedNeedsANewConnection(t *testing.T) {
	specOf := func(key string) serverkit.Spec {
		m := manifest.Default()
		m.Package, m.MCP.Transport, m.MCP.URL = "s", manifest.HTTP, "http://127.0.0.1:1/mcp"
		if key != "" {
			set(reflect.ValueOf(m).Elem(), key)
		}
		spec, err := (&servers.Connector{}).Spec(m)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	if !specOf("").Equal(specOf("")) {
		t.Error("the same manifest makes another spec")
	}
	for _, key := range remote {
		if specOf("").Equal(specOf(key)) {
			t.Errorf("%s: a change of it is without effect", key)
		}
	}
}

func TestACallInFlightIsAnsweredByTheServerThatItsManifestReplaces(t *testing.T) {
	base := fake("s", "elicit", "  elicitation: true\n")
	r := launch(t, map[string]string{"s.yaml": base})
	r.phase("s", "ready")
	a := r.api()
	a.ask(202, "POST", "/v1/calls", `{"id":"c1","name":"s.echo","async":true}`, nil)
	var input []string
	r.until("the question", func() (bool, any) {
		input = nil
		for _, i := range r.Inputs() {
			input = append(input, i.CallID)
		}
		return len(input) == 1, input
	})
	pid := r.servers.Status("s").PID
	r.write("s.yaml", with(t, base, "mcp.elicitation", false))
	r.Reload()
	r.until("the drain", func() (bool, any) {
		s := r.servers.Status("s")
		return s.Phase == serverkit.Stopping && s.Waiting != "", s
	})
	if _, err := r.call("s.echo", "x"); err == nil || !strings.Contains(err.Error(), "is being replaced") {
		t.Errorf("a new call: %v", err)
	}
	if now := r.servers.Status("s").PID; now != pid {
		t.Errorf("process %d is gone with its call in flight: %d", pid, now)
	}
	a.ask(200, "POST", "/v1/calls/c1/input", `{"action":"accept","content":{"name":"Ada"}}`, nil)
	var state struct {
		State    string
		Response struct{ Result json.RawMessage }
	}
	a.ask(200, "GET", "/v1/calls/c1?wait=true", "", &state)
	if state.State != "completed" || !strings.Contains(string(state.Response.Result), "Ada") {
		t.Errorf("the call is %+v", state)
	}
	r.until("the new server", func() (bool, any) {
		s := r.servers.Status("s")
		return s.Phase == serverkit.Ready && s.PID != pid, s
	})
}

func TestAnotherPrivateKeyInTheSameFileNeedsANewConnection(t *testing.T) {
	m := manifest.Default()
	m.Package, m.Dir, m.MCP.Transport, m.MCP.URL = "s", t.TempDir(), manifest.HTTP, "http://127.0.0.1:1/mcp"
	m.MCP.Auth.ClientKeyFile = "key.pem"
	specOf := func(content string) serverkit.Spec {
		if err := os.WriteFile(filepath.Join(m.Dir, "key.pem"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		spec, err := (&servers.Connector{}).Spec(m)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	first := specOf("first")
	if !first.Equal(specOf("first")) {
		t.Error("the same key makes another spec")
	}
	if first.Equal(specOf("second")) {
		t.Error("a change of the key is without effect")
	}
}
