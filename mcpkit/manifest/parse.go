package manifest

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/variable"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/words"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// DirVariable is the variable that stands for the absolute folder of the
// manifest in which it is used.
const DirVariable = "MANIFEST_DIR"

// Parse reads one manifest. File names it in faults, and its folder becomes
// Manifest.Dir. On error, which joins every *Fault, there is no manifest.
func Parse(file string, data []byte, lookup func(string) (string, bool)) (*Manifest, error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("finding the folder of %s: %w", file, err)
	}
	m, faults := Read(file, dir, data, lookup)
	if len(faults) > 0 {
		return nil, Join(faults)
	}
	return m, nil
}

// Read is [Parse] with the folder of the manifest, which may be another than
// the file's, and with a manifest beside the faults, then good only for its
// package, if it has one.
func Read(file, dir string, data []byte, lookup func(string) (string, bool)) (*Manifest, []*Fault) {
	m := Default()
	m.Path, m.Dir, m.Line = file, dir, 1
	e := variable.Expander{Lookup: variable.With(lookup, DirVariable, dir)}
	doc := strict.YAML(file, data, strict.Options{String: func(s string) (string, error) { return e.Expand(s) }})
	if doc.Root == nil {
		return m, doc.Faults
	}
	// A server is often disabled because its token is missing.
	e.Lenient = saysDisabled(doc.Root)
	doc.Decode(m)
	m.Line, _ = doc.At("package")
	m.Complete(doc.Has("mcp.transport"))
	m.Check(func(key, hint, format string, args ...any) {
		// What could not be read is not wrong or missing besides.
		if !doc.Faulty(key, "") && (key != "mcp" || !doc.Faulty("mcp.command", "mcp.entry", "mcp.url")) {
			doc.FaultAt(key, hint, format, args...)
		}
	})
	doc.Sort()
	m.Warnings = doc.Warnings
	return m, doc.Faults
}

func saysDisabled(root *yaml.Node) bool {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if v := root.Content[i+1]; root.Content[i].Value == "disabled" && v.ShortTag() == "!!bool" {
			return v.Value == "true"
		}
	}
	return false
}

// Complete fills in what depends on other values; transportGiven says that the
// transport was written and not left to the default.
func (m *Manifest) Complete(transportGiven bool) {
	if m.Name == "" {
		m.Name = m.Package
	}
	if !transportGiven && m.MCP.URL != "" && len(m.MCP.Command) == 0 && m.MCP.Entry == "" {
		m.MCP.Transport = HTTP
	}
}

// AuthType is how to authorize towards the server, one of the values of
// Auth.Type; [AuthNone] for a stdio server.
func (m *Manifest) AuthType() string {
	a := &m.MCP.Auth
	switch {
	case m.MCP.Transport != HTTP:
		return AuthNone
	case a.Type != "":
		return a.Type
	case a.Token != "":
		return AuthBearer
	case a.isZero() && m.hasHeader("Authorization"):
		return AuthNone // the header says it all
	}
	return AuthOAuth
}

// hasHeader reports whether a header is configured, however it is spelt.
func (m *Manifest) hasHeader(name string) bool {
	for h := range m.MCP.Headers {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

var (
	packageForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	aliasForm   = regexp.MustCompile(`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`)
	headerForm  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110 section 5.6.2, token
)

// reservedPackage is the name under which the platform speaks for itself.
const reservedPackage = "aurora.platform"

const (
	maxPackage = 100 // bytes: it becomes a folder and part of file names
	maxAlias   = 24
)

// ValidPackage reports whether s can be a package.
func ValidPackage(s string) bool {
	return len(s) <= maxPackage && packageForm.MatchString(s) && !strings.Contains(s, "..")
}

// Report records a fault at a key of the manifest.
type Report func(key, hint, format string, args ...any)

// Check reports what is wrong with the values. Missing keys and wrong types were
// reported by the decoder.
func (m *Manifest) Check(fault Report) {
	if !ValidPackage(m.Package) {
		fault("package", "use letters, digits and . _ - with a letter or digit at both ends, no two dots in a row, at most 100 bytes", "not a package name: %q", strict.Clip(m.Package, 40))
	}
	if strings.EqualFold(m.Package, reservedPackage) {
		fault("package", "choose another name", "%q is the platform itself", m.Package)
	}
	if m.Type != TypeServer {
		fault("type", `write "`+TypeServer+`"`, "unknown type %q", strict.Clip(m.Type, 40))
	}
	if m.Alias != "" && (len(m.Alias) > maxAlias || !aliasForm.MatchString(m.Alias)) {
		fault("alias", "use 1 to 24 letters, digits and hyphens, with single underscores inside", "not an alias: %q", strict.Clip(m.Alias, 40))
	}
	for _, t := range []struct{ key, value string }{{"name", m.Name}, {"version", m.Version}} {
		if len(t.value) > 200 || strings.ContainsFunc(t.value, unicode.IsControl) {
			fault(t.key, "", "longer than 200 bytes or holds control characters")
		}
	}
	m.checkTransport(fault)
	m.checkAuth(fault)
	m.checkEnv(fault)
	m.checkRanges(fault)
	if box := &m.MCP.Sandbox; m.MCP.Transport == Stdio {
		box.Check(fault)
	} else if !reflect.ValueOf(*box).IsZero() {
		fault("mcp.sandbox", "leave it out", "an http server runs elsewhere and cannot be confined")
	}
	seen := map[string]int{}
	for i, c := range m.Commands {
		key := fmt.Sprintf("commands[%d].name", i)
		name := m.bare(c.Name)
		if first, ok := seen[name]; ok {
			fault(key, "", "the same tool as commands[%d]", first)
		} else if name == "" {
			fault(key, "", "the name is empty")
		} else {
			seen[name] = i
		}
	}
}

func (m *Manifest) checkTransport(fault Report) {
	c := &m.MCP
	stdio := []struct {
		key string
		set bool
	}{{"command", len(c.Command) > 0}, {"entry", c.Entry != ""}, {"args", len(c.Args) > 0}, {"cwd", c.Cwd != ""}, {"env_file", c.EnvFile != ""}}
	switch c.Transport {
	case Stdio:
		if len(c.Command) == 0 && c.Entry == "" {
			fault("mcp", "write command or entry, or url for a remote server", "nothing to run")
		}
		if c.Command != nil && (len(c.Command) == 0 || c.Command[0] == "") {
			fault("mcp.command", "", "the program's name is empty")
		}
		if c.URL != "" {
			fault("mcp.url", "write transport: http or leave the url out", "a stdio server has no url")
		}
		if len(c.Headers) > 0 {
			fault("mcp.headers", "", "a stdio server has no headers")
		}
	case HTTP:
		for _, k := range stdio {
			if k.set {
				fault("mcp."+k.key, "", "an http server has no %s", k.key)
			}
		}
		if c.URL == "" {
			fault("mcp", "", "an http server needs a url")
		} else if m.Raw && strings.Contains(c.URL, "${") {
			break
		} else if u, err := url.Parse(c.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
			fault("mcp.url", "write it like https://example.com/mcp", "not an absolute http or https URL") // unquoted: it may hold a token
		} else if u.Scheme == "http" && !loopback(u.Hostname()) {
			fault("mcp.url", "write https://", "a server beyond this machine needs https: tokens and results could be read on the way")
		}
	default:
		fault("mcp.transport", `write "stdio" or "http"`, "unknown transport %q", strict.Clip(c.Transport, 40))
	}
	if ownGateway(m.Argv()) {
		fault("mcp.command", "leave it out: hosts connect to it, the platform does not", "this is the platform's own gateway, whose tools would come back as those of a server")
	}
	paths := map[string]string{"mcp.entry": c.Entry, "mcp.cwd": c.Cwd, "mcp.env_file": c.EnvFile}
	if len(c.Command) > 0 {
		paths["mcp.command"] = c.Command[0]
	}
	for key, path := range paths {
		if strings.HasPrefix(path, "~/") || path == "~" {
			fault(key, "write ${HOME} instead", "~ is not expanded")
		}
	}
}

// ownGateway reports whether a command line starts the platform's gateway.
func ownGateway(argv []string) bool {
	i := slices.IndexFunc(argv, func(word string) bool { return filepath.Base(word) == "platform" })
	return i >= 0 && i < 2 && slices.Contains(argv[i+1:], "gateway")
}

func (m *Manifest) checkAuth(fault Report) {
	a := &m.MCP.Auth
	const key = "mcp.auth"
	if m.MCP.Transport != HTTP {
		if !a.isZero() {
			fault(key, "give the server what it needs in env", "only an http server is authorized towards")
		}
		return
	}
	typ := m.AuthType()
	machine := typ == AuthClientCredentials
	oauth := typ == AuthOAuth || machine
	switch {
	case !oauth && typ != AuthBearer && typ != AuthNone:
		fault(key+".type", "write none, bearer, oauth or client_credentials", "unknown type %q", strict.Clip(typ, 40))
		return
	case typ != AuthNone && m.hasHeader("Authorization"):
		fault(key, "keep one of them", "headers has an Authorization already")
	}
	if typ == AuthBearer && a.Token == "" && !m.Disabled {
		fault(key+".token", "", "the token is empty")
	}
	if typ != AuthBearer && a.Token != "" {
		fault(key+".token", "write type: bearer or leave the token out", "type %s has no token", typ)
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"client_id", a.ClientID != ""}, {"client_secret", a.ClientSecret != ""}, {"client_key_file", a.ClientKeyFile != ""},
		{"client_auth", a.ClientAuth != ""}, {"client_metadata_url", a.ClientMetadataURL != ""}, {"issuer", a.Issuer != ""},
		{"scopes", len(a.Scopes) > 0}, {"audience", len(a.Audience) > 0}, {"redirect_port", a.RedirectPort != 0},
	} {
		if k.set && !oauth {
			fault(key+"."+k.key, "", "type %s has no %s", typ, k.key)
		}
	}
	if machine && a.ClientID == "" {
		fault(key, "", "client_credentials needs a client_id")
	}
	if machine && a.ClientSecret == "" && a.ClientKeyFile == "" && a.AssertionFile == "" && !m.Disabled {
		fault(key, "", "client_credentials needs a client_secret, a client_key_file or an assertion_file")
	}
	if a.AssertionFile != "" && !machine {
		fault(key+".assertion_file", "write type: client_credentials", "type %s has no assertion_file", typ)
	}
	if a.ClientSecret != "" && a.ClientKeyFile != "" {
		fault(key+".client_key_file", "keep one of them", "the client has a client_secret already")
	}
	if a.ClientID == "" && (a.ClientSecret != "" || a.ClientKeyFile != "") && !machine {
		fault(key, "", "a client_secret or client_key_file needs its client_id")
	}
	if !slices.Contains([]string{"", "none", "client_secret_basic", "client_secret_post", "private_key_jwt"}, a.ClientAuth) {
		fault(key+".client_auth", "write client_secret_basic, client_secret_post, private_key_jwt or none", "unknown method %q", strict.Clip(a.ClientAuth, 40))
	}
	if a.ClientAuth == "private_key_jwt" && a.ClientKeyFile == "" {
		fault(key+".client_auth", "", "private_key_jwt needs a client_key_file")
	}
	for _, e := range []struct{ key, url string }{{"issuer", a.Issuer}, {"client_metadata_url", a.ClientMetadataURL}} {
		if e.url == "" || m.Raw && strings.Contains(e.url, "${") {
			continue
		}
		if u, err := url.Parse(e.url); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" {
			fault(key+"."+e.key, "write it like https://id.example.com", "not an absolute https URL")
		}
	}
	if a.RedirectPort < 0 || a.RedirectPort > 65535 {
		fault(key+".redirect_port", "", "%d is outside 0 to 65535", a.RedirectPort)
	}
	for i, s := range a.Scopes {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) { // RFC 6749 section 3.3
			fault(fmt.Sprintf("%s.scopes[%d]", key, i), "write one scope an entry", "not a scope: %q", strict.Clip(s, 40))
		}
	}
}

// loopback reports whether a host is this machine by its very name or address.
func loopback(host string) bool {
	if host = strings.ToLower(strings.TrimSuffix(host, ".")); host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

func (m *Manifest) checkEnv(fault Report) {
	for name := range m.MCP.Env {
		if name == "" || strings.Contains(name, "=") {
			fault("mcp.env."+name, "", "not the name of a variable: %q", strict.Clip(name, 40))
		}
	}
	for name, value := range m.MCP.Headers {
		if !headerForm.MatchString(name) {
			fault("mcp.headers."+name, "", "not the name of a header: %q", strict.Clip(name, 40))
		}
		switch h := strings.ToLower(name); {
		case h == "mcp-session-id", h == "mcp-protocol-version", h == "mcp-method", h == "mcp-name", strings.HasPrefix(h, "mcp-param-"):
			fault("mcp.headers."+name, "leave it out", "the platform sets this header itself")
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
			fault("mcp.headers."+name, "", "the value holds control characters")
		}
	}
	for i, name := range m.MCP.Secrets {
		_, env := m.MCP.Env[name]
		if _, header := m.MCP.Headers[name]; !env && !header {
			hint := "list names, not values"
			known := slices.Concat(keys(m.MCP.Env), keys(m.MCP.Headers))
			if near := strict.Nearest(name, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			fault(fmt.Sprintf("mcp.secrets[%d]", i), hint, "no such name in env or headers")
		}
	}
}

func (m *Manifest) checkRanges(fault Report) {
	c := &m.MCP
	for _, r := range []struct {
		key         string
		value       time.Duration
		least, most time.Duration
	}{
		{"mcp.health_timeout", c.HealthTimeout.Duration, 100 * time.Millisecond, time.Hour},
		{"mcp.call_timeout", c.CallTimeout.Duration, 100 * time.Millisecond, 24 * time.Hour},
		{"mcp.max_call_time", c.MaxCallTime.Duration, 100 * time.Millisecond, 7 * 24 * time.Hour},
		{"mcp.restart.backoff_seconds", c.Restart.Backoff.Duration, 10 * time.Millisecond, time.Hour},
		{"mcp.restart.max_backoff_seconds", c.Restart.MaxBackoff.Duration, 10 * time.Millisecond, 24 * time.Hour},
		{"mcp.restart.stable_seconds", c.Restart.Stable.Duration, time.Second, 24 * time.Hour},
		{"mcp.stop.close_wait", c.Stop.CloseWait.Duration, 0, 5 * time.Minute},
		{"mcp.stop.term_wait", c.Stop.TermWait.Duration, 0, 5 * time.Minute},
		{"mcp.stop.drain", c.Stop.Drain.Duration, 0, time.Hour},
	} {
		if r.value < r.least || r.value > r.most {
			fault(r.key, "", "%v is outside %v to %v", r.value, r.least, r.most)
		}
	}
	if n := c.Restart.MaxAttempts; n < 0 || n > 1000 {
		fault("mcp.restart.max_attempts", "to never restart, write enabled: false", "%d is outside 0 to 1000", n)
	}
	if n := c.MaxLine; n < 4<<10 || n > 1<<30 {
		fault("mcp.max_line", "", "%v is outside 4KiB to 1GiB", n)
	}
	if c.MaxCallTime.Duration < c.CallTimeout.Duration {
		fault("mcp.max_call_time", "", "%v is less than the call_timeout of %v", c.MaxCallTime, c.CallTimeout)
	}
	if c.Restart.MaxBackoff.Duration < c.Restart.Backoff.Duration {
		fault("mcp.restart.max_backoff_seconds", "", "%v is less than the backoff_seconds of %v", c.Restart.MaxBackoff, c.Restart.Backoff)
	}
}

// Words is a command line: a list of words, or one string that is split at
// blanks. Quotes keep words together and a backslash takes the next character
// as it is; nothing else is special. Variables are put in after the splitting,
// so that one variable never becomes two words.
type Words []string

// Split splits s as Words says.
func (Words) Split(s string) ([]string, error) { return words.Split(s) }

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
