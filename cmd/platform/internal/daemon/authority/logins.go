package authority

import (
	"cmp"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
)

// authKey is the variable that may hold what seals tokens.
const authKey = "AURORA_AUTH_KEY"

// maxSecret is how large a file with a key or an assertion may be, in bytes.
const maxSecret = 64 << 10

// openTokens opens the store for tokens below the data folder.
func openTokens(o *settings.Options) (*tokens.Store, error) {
	var key []byte
	switch env := os.Getenv(authKey); {
	case o.Auth.KeyFile != "":
		var err error
		if key, err = smallfile.Read(o.Auth.KeyFile, maxSecret, smallfile.Private); err != nil {
			return nil, fmt.Errorf("auth.key_file: %w", err)
		}
	case env != "":
		key = []byte(env)
	}
	return tokens.Open(settings.Layout{Data: o.Data}.Auth(), key)
}

// config is how a manifest's server is authorized towards.
func config(o *settings.Options, m *manifest.Manifest) (auth.Config, error) {
	a := m.MCP.Auth
	c := auth.Config{
		Server: m.Package, URL: m.MCP.URL, Type: m.AuthType(), Token: a.Token,
		ClientID: a.ClientID, ClientSecret: a.ClientSecret, Method: a.ClientAuth,
		ClientMetadataURL: cmp.Or(a.ClientMetadataURL, o.Auth.ClientMetadataURL),
		Issuer:            a.Issuer, Scopes: a.Scopes, Audience: a.Audience,
	}
	if a.ClientKeyFile != "" {
		key, err := readKey(m, a.ClientKeyFile)
		if err != nil {
			return c, fmt.Errorf("server %s: mcp.auth.client_key_file: %w", m.Package, err)
		}
		c.Key = key
	}
	if a.AssertionFile != "" {
		c.Assertion = func() (string, error) {
			raw, err := smallfile.Read(beside(m, a.AssertionFile), maxSecret, 0)
			return strings.TrimSpace(string(raw)), err
		}
	}
	return c, nil
}

// beside is the path of a file that a manifest names.
func beside(m *manifest.Manifest, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(m.Dir, file)
}

// KeyState stands for the content of the private key that a manifest names, or
// for why it cannot be read: it is another after a change. It is empty where no
// key is named.
func KeyState(m *manifest.Manifest) string {
	if m.MCP.Auth.ClientKeyFile == "" {
		return ""
	}
	raw, err := smallfile.Read(beside(m, m.MCP.Auth.ClientKeyFile), maxSecret, 0)
	if err != nil {
		raw = []byte(err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func readKey(m *manifest.Manifest, file string) (crypto.Signer, error) {
	raw, err := smallfile.Read(beside(m, file), maxSecret, 0)
	if err != nil {
		return nil, err
	}
	return auth.ParseKey(raw)
}

// Logins gives the verbs what they need to log in to servers, whether or not a
// platform runs.
type Logins struct {
	o         settings.Options
	manifests []*manifest.Manifest
	faults    error
	store     *tokens.Store
	log       *slog.Logger
	secret    func(...string)
}

// OpenLogins reads the manifests and opens the token store. Log and secret are as
// in auth.Options.
func OpenLogins(o settings.Options, log *slog.Logger, secret func(values ...string)) (*Logins, error) {
	var err error
	if o.Data, err = filepath.Abs(o.Data); err != nil {
		return nil, fmt.Errorf("finding the data folder: %w", err)
	}
	store, err := openTokens(&o)
	if err != nil {
		return nil, err
	}
	l := &Logins{o: o, store: store, log: log, secret: secret}
	l.manifests, l.faults = load.Manifests(o.Sources())
	return l, nil
}

// Remote are the names of the servers over HTTP, sorted.
func (l *Logins) Remote() []string {
	var names []string
	for _, m := range l.manifests {
		if m.MCP.Transport == manifest.HTTP {
			names = append(names, m.Package)
		}
	}
	slices.Sort(names)
	return names
}

// Client is the authorization of one server, by its name or alias, and its
// manifest.
func (l *Logins) Client(server string) (*auth.Client, *manifest.Manifest, error) {
	i := slices.IndexFunc(l.manifests, func(m *manifest.Manifest) bool { return m.Package == server })
	if i < 0 {
		i = slices.IndexFunc(l.manifests, func(m *manifest.Manifest) bool { return m.Alias != "" && m.Alias == server })
	}
	if i < 0 {
		f := fault.New(control.ServerNotFound, "there is no server %q", server)
		f.Candidates = l.Remote()
		return nil, nil, errors.Join(f, l.faults)
	}
	m := l.manifests[i]
	if m.MCP.Transport != manifest.HTTP {
		return nil, nil, fault.New(control.InvalidRequest, "server %s is run by the platform itself: nobody logs in to it", m.Package)
	}
	cfg, err := config(&l.o, m)
	if err != nil {
		return nil, nil, err
	}
	c, err := auth.New(cfg, auth.Options{Store: l.store, Logger: l.log, Secret: l.secret, Proxy: http.ProxyFromEnvironment})
	return c, m, err
}
