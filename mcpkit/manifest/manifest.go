// Package manifest reads what says how an MCP server is reached and treated: a
// manifest.yaml. It checks the file, puts variables in, and returns a manifest
// or every fault there is.
//
//	package: im.polaris.weather
//	name: Weather
//	version: 0.2.0
//	type: mcp-server
//	mcp:
//	  command: ["uv", "run", "python"]
//	  entry: mcp_server.py
//	  env:
//	    AURORA_APP_CONFIG: ${MANIFEST_DIR}/config.json
//	  health_timeout: 10
//	  restart: {max_attempts: 3, backoff_seconds: 2}
//	commands:
//	  - name: get_weather
//	    description: forecast for a city
//
// What a manifest leaves out is as in [Default]. Values are documented at the
// fields of [Manifest] and [MCP]; [Schema] has them for editors.
//
// The package starts no process and reads neither files nor the environment:
// its caller brings the text and the variables. Below it, package load finds
// the files, package watch notices changes, and package hostfile reads the
// mcpServers files of other hosts.
package manifest

import (
	"iter"
	"maps"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/confine"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// TypeServer is the one value of Manifest.Type.
const TypeServer = "mcp-server"

// Values of MCP.Transport.
const (
	Stdio = "stdio" // a child process that speaks over its standard streams
	HTTP  = "http"  // a server at a URL that speaks Streamable HTTP
)

// Level ranks the places that manifests come from: a server of a higher level
// replaces one of a lower.
type Level uint8

const (
	Embedded Level = iota // comes with the program
	User                  // is the user's, in every project
	Project               // is the project's
)

// Manifest describes one MCP server. Values are shared after loading and are
// not to be changed.
type Manifest struct {
	Package     string `json:"package" jsonschema:"identity: a reverse domain name or a simple connection name; letters, digits and . _ -, at most 100 bytes"`
	Name        string `json:"name,omitempty" jsonschema:"name for people; the package where absent"`
	Version     string `json:"version,omitempty" jsonschema:"version of the app"`
	Type        string `json:"type" jsonschema:"what the manifest describes; mcp-server is the only type"`
	Alias       string `json:"alias,omitempty" jsonschema:"short unique name that models see instead of the package: 1 to 24 letters, digits, hyphens and single underscores inside"`
	Description string `json:"description,omitempty" jsonschema:"what the server is for"`
	Disabled    bool   `json:"disabled,omitempty" jsonschema:"keep the manifest but do not start the server"`
	MCP         MCP    `json:"mcp" jsonschema:"how to reach the server"`

	Commands []Command `json:"commands,omitempty" jsonschema:"the tools the server is meant to have, with or without the package as prefix; the live list decides, and check reports the difference"`

	// Path is the file the manifest was read from as it was found, Line where
	// in it the server begins. Dir is the absolute folder that relative paths
	// start from: the file's own, links resolved. Warnings are what was odd but
	// not wrong.
	Path     string   `json:"-"`
	Line     int      `json:"-"`
	Dir      string   `json:"-"`
	Warnings []*Fault `json:"-"`

	// Project is the folder for which another host has the server, Foreign what
	// only that host understands of its entry; both of hostfile.Convert alone.
	Project string         `json:"-"`
	Foreign map[string]any `json:"-"`

	// Level is where the manifest was found, Shared that it is an entry of an
	// mcpServers file, with neighbours. Faulty says that it has faults, and only
	// its package is of use; package load returns no such. Raw says that its
	// variables are still to be put in.
	Level  Level `json:"-"`
	Shared bool  `json:"-"`
	Faulty bool  `json:"-"`
	Raw    bool  `json:"-"`
}

// MCP says how to reach and treat a server. Times are seconds as a number, or a
// string with a unit such as "500ms"; sizes are bytes, or a string such as "16MiB".
type MCP struct {
	Transport string `json:"transport,omitempty" jsonschema:"stdio or http; http where only a url is given"`

	// A stdio server. The argument vector is Command, then Args; see Argv for
	// what Entry adds to it.
	Command Words             `json:"command,omitempty" jsonschema:"program and first arguments; a string is split at blanks, quotes keep words together"`
	Entry   string            `json:"entry,omitempty" jsonschema:"the app's main file, relative to the manifest's folder: the program itself where command is absent, its last argument where args are absent"`
	Args    []string          `json:"args,omitempty" jsonschema:"further arguments"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment in addition to the basic one"`
	EnvFile string            `json:"env_file,omitempty" jsonschema:"file of further environment, one NAME=VALUE a line, relative to the manifest's folder; read with the manifest; env goes before it"`
	Secrets []string          `json:"secrets,omitempty" jsonschema:"names in env or headers whose values are removed from logs, results and events; names that say so themselves, such as API_TOKEN, need not be listed"`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"working directory, relative to the manifest's folder; default that folder"`

	// An http server.
	URL     string            `json:"url,omitempty" jsonschema:"endpoint of an http server"`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"headers of every request to an http server"`
	Auth    Auth              `json:"auth,omitzero" jsonschema:"how to authorize towards an http server; oauth where nothing is said and headers have no Authorization"`

	Tools Tools `json:"tools,omitzero" jsonschema:"which of the server's tools there are; all where absent"`

	HealthTimeout strict.Duration `json:"health_timeout,omitzero" jsonschema:"from start until the server must be ready; generous because the first start may download packages"`
	CallTimeout   strict.Duration `json:"call_timeout,omitzero" jsonschema:"until a call must be answered or show progress"`
	MaxCallTime   strict.Duration `json:"max_call_time,omitzero" jsonschema:"longest time of one call, however much progress it shows"`
	MaxLine       strict.Size     `json:"max_line,omitzero" jsonschema:"largest message in bytes; a larger one fails its call"`

	Restart Restart `json:"restart,omitzero" jsonschema:"what to do after a crash"`
	Stop    Stop    `json:"stop,omitzero" jsonschema:"how to end the server"`

	Sandbox confine.Sandbox `json:"sandbox,omitzero" jsonschema:"what the server's processes may reach; not confined where absent"`

	Roots       bool `json:"roots,omitempty" jsonschema:"let the server ask for the roots"`
	Sampling    bool `json:"sampling,omitempty" jsonschema:"let the server ask for a model's answer"`
	Elicitation bool `json:"elicitation,omitempty" jsonschema:"let the server ask a person"`
}

// SandboxPaths are the absolute paths of Sandbox.Read and Sandbox.Write.
func (m *Manifest) SandboxPaths() (read, write []string) {
	for _, path := range m.MCP.Sandbox.Read {
		read = append(read, m.resolve(path))
	}
	for _, path := range m.MCP.Sandbox.Write {
		write = append(write, m.resolve(path))
	}
	return read, write
}

// Tools chooses among the tools of a server, by their names as the server lists them;
// * stands for any characters but a slash, ? for one.
// A tool that is left out is neither offered nor called.
type Tools struct {
	Include []string `json:"include,omitempty" jsonschema:"no other tools than these; names as the server lists them, with * for any characters"`
	Exclude []string `json:"exclude,omitempty" jsonschema:"none of these tools; names as the server lists them, with * for any characters"`
}

// Values of Auth.Type.
const (
	AuthNone              = "none"               // nothing is added to requests
	AuthBearer            = "bearer"             // a token that never changes
	AuthOAuth             = "oauth"              // a person agrees, by platform auth login
	AuthClientCredentials = "client_credentials" // the platform speaks for itself
)

// Auth says how to authorize towards an http server. What its server and issuer
// publish need not be written.
type Auth struct {
	Type              string   `json:"type,omitempty" jsonschema:"none, bearer, oauth or client_credentials; bearer where a token is given, else oauth"`
	Token             string   `json:"token,omitempty" jsonschema:"the token of type bearer"`
	ClientID          string   `json:"client_id,omitempty" jsonschema:"client that is registered with the issuer already"`
	ClientSecret      string   `json:"client_secret,omitempty" jsonschema:"its secret"`
	ClientKeyFile     string   `json:"client_key_file,omitempty" jsonschema:"its private key in PEM instead of a secret, relative to the manifest's folder"`
	AssertionFile     string   `json:"assertion_file,omitempty" jsonschema:"file with a JWT that vouches for the platform, read anew for each token, relative to the manifest's folder; client_credentials then needs no secret"`
	ClientAuth        string   `json:"client_auth,omitempty" jsonschema:"how the client authenticates: client_secret_basic, client_secret_post, private_key_jwt or none; as the issuer prefers where absent"`
	ClientMetadataURL string   `json:"client_metadata_url,omitempty" jsonschema:"https address of a client id metadata document, for issuers that read such"`
	Issuer            string   `json:"issuer,omitempty" jsonschema:"the only authorization server to use; the one that the server names where absent"`
	Scopes            []string `json:"scopes,omitempty" jsonschema:"scopes to ask for instead of those that the server names"`
	Audience          []string `json:"audience,omitempty" jsonschema:"audiences of access tokens that are accepted beside the server itself"`
	RedirectPort      int      `json:"redirect_port,omitempty" jsonschema:"port on this machine that a login comes back to; any free one where absent"`
}

// isZero reports whether nothing was said.
func (a *Auth) isZero() bool { return reflect.ValueOf(*a).IsZero() }

// Restart says what happens after a crash. The pause before a restart doubles
// from Backoff up to MaxBackoff.
type Restart struct {
	Enabled     bool            `json:"enabled,omitempty" jsonschema:"restart after a crash"`
	MaxAttempts int             `json:"max_attempts,omitempty" jsonschema:"restarts after crashes in a row; the next crash is final until a person or a new manifest restarts the server"`
	Backoff     strict.Duration `json:"backoff_seconds,omitzero" jsonschema:"pause before the first restart; it doubles with each"`
	MaxBackoff  strict.Duration `json:"max_backoff_seconds,omitzero" jsonschema:"longest pause"`
	Stable      strict.Duration `json:"stable_seconds,omitzero" jsonschema:"time of health after which crashes are forgotten"`
}

// Stop says how a server is ended: its standard input is closed; after CloseWait
// it is sent SIGTERM; after TermWait more it is killed. A server whose manifest has
// changed is first left to finish its calls in flight, for Drain at most.
type Stop struct {
	CloseWait strict.Duration `json:"close_wait,omitzero" jsonschema:"from closing standard input until SIGTERM"`
	TermWait  strict.Duration `json:"term_wait,omitzero" jsonschema:"from SIGTERM until SIGKILL"`
	Drain     strict.Duration `json:"drain,omitzero" jsonschema:"how long calls in flight may take to finish before a server whose manifest has changed is replaced"`
}

// Command is a tool that the server is meant to have.
type Command struct {
	Name        string `json:"name" jsonschema:"the tool's name, with or without the package as prefix"`
	Description string `json:"description,omitempty" jsonschema:"what the tool does"`
}

// Default is a manifest with every default filled in: what a file leaves out
// stays as it is here.
func Default() *Manifest {
	seconds := func(s float64) strict.Duration {
		return strict.Duration{Duration: time.Duration(s * float64(time.Second))}
	}
	return &Manifest{MCP: MCP{
		Transport:     Stdio,
		HealthTimeout: seconds(30),
		CallTimeout:   seconds(60),
		MaxCallTime:   seconds(600),
		MaxLine:       16 << 20,
		Restart:       Restart{Enabled: true, MaxAttempts: 3, Backoff: seconds(0.5), MaxBackoff: seconds(10), Stable: seconds(60)},
		Stop:          Stop{CloseWait: seconds(2), TermWait: seconds(3), Drain: seconds(30)},
	}}
}

// Argv is the program and its arguments, or nil for an http server.
//
// Without command, entry is the program. With command and without args, entry is
// the last argument. With both, args are taken as they are, except that one
// which spells entry's path, from its own folder or from one further up, is
// replaced by the full path: apps/weather/server.py means entry server.py of
// the manifest in …/apps/weather, wherever the server is started. A program
// with a slash that is not absolute starts from the manifest's folder; one
// without is looked up on PATH by whoever starts it.
func (m *Manifest) Argv() []string {
	if m.MCP.Transport != Stdio {
		return nil
	}
	entry := ""
	if m.MCP.Entry != "" {
		entry = m.resolve(m.MCP.Entry)
	}
	argv := slices.Clone([]string(m.MCP.Command))
	switch {
	case len(argv) == 0 && entry == "":
		return nil
	case len(argv) == 0:
		argv = []string{entry}
	case strings.Contains(argv[0], "/"):
		argv[0] = m.resolve(argv[0])
	}
	if m.MCP.Args == nil && entry != "" && len(m.MCP.Command) > 0 {
		return append(argv, entry)
	}
	for _, arg := range m.MCP.Args {
		if clean := filepath.Clean(arg); entry != "" && arg != "" && strings.HasSuffix(entry, "/"+strings.TrimPrefix(clean, "/")) {
			arg = entry
		}
		argv = append(argv, arg)
	}
	return argv
}

// WorkDir is the absolute working directory of the server.
func (m *Manifest) WorkDir() string {
	if m.MCP.Cwd == "" {
		return m.Dir
	}
	return m.resolve(m.MCP.Cwd)
}

func (m *Manifest) resolve(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(m.Dir, path)
}

// SecretValues are the values that must not appear in logs, results and events:
// those of the names in secrets, those of env and headers whose names say it
// (API_TOKEN, Authorization), of arguments after a flag that says it (--api-key),
// those of auth, and a password in the URL. They are sorted and
// distinct; redact.New leaves out what is too short to be removed.
func (m *Manifest) SecretValues() []string {
	set := map[string]bool{}
	for _, value := range m.secrets() {
		set[value] = true
		// "Bearer abc": the server logs the second word alone.
		if _, token, ok := strings.Cut(value, " "); ok {
			set[strings.TrimSpace(token)] = true
		}
	}
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}

// LiteralSecrets are the names of the secrets whose values stand in the manifest
// itself instead of in variables. It is for manifests of hostfile.Convert.
func (m *Manifest) LiteralSecrets() []string {
	var names []string
	for name, value := range m.secrets() {
		if value != "" && !strings.Contains(value, "${") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secrets are the names of what is secret, and the values.
func (m *Manifest) secrets() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, values := range []map[string]string{m.MCP.Env, m.MCP.Headers} {
			for name, value := range values {
				if (slices.Contains(m.MCP.Secrets, name) || soundsSecret(name) && !plainValue(value)) && !yield(name, value) {
					return
				}
			}
		}
		argv := append(slices.Clone([]string(m.MCP.Command)), m.MCP.Args...)
		for i, arg := range argv {
			flag, value, inline := strings.Cut(arg, "=")
			name := strings.TrimLeft(flag, "-")
			if !strings.HasPrefix(arg, "-") || !soundsSecret(name) {
				continue
			}
			if !inline && i+1 < len(argv) {
				value = argv[i+1]
			}
			if !strings.HasPrefix(value, "-") && !plainValue(value) && !yield(flag, value) {
				return
			}
		}
		if a := &m.MCP.Auth; !yield("auth.token", a.Token) || !yield("auth.client_secret", a.ClientSecret) {
			return
		}
		if u, err := url.Parse(m.MCP.URL); err == nil && u.User != nil {
			if p, ok := u.User.Password(); ok {
				yield("url", p)
			}
		}
	}
}

// soundsSecret reports whether a variable or header with this name holds a secret.
func soundsSecret(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' })
	for i, w := range words {
		switch w {
		case "token", "secret", "password", "passwd", "pwd", "pat", "apikey", "authorization", "cookie", "credential", "credentials":
			return true
		case "key":
			return i > 0 && slices.Contains([]string{"api", "access", "secret", "private", "auth", "service", "encryption", "signing"}, words[i-1])
		}
	}
	return false
}

// plainValue reports whether a value is too ordinary to be a secret by its name
// alone: removing it everywhere would spoil text, such as "true" of USE_TOKEN or
// the path of TOKEN_FILE.
func plainValue(v string) bool {
	return len(v) < 8 || filepath.IsAbs(v) || strings.HasPrefix(v, "./") || strings.Trim(v, "0123456789.") == "" && len(v) < 12
}
