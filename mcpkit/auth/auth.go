// Package auth authorizes the platform towards remote MCP servers
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization):
// with a configured bearer token, or with OAuth 2.1 as a person's client or as a
// machine of its own.
//
//	c, err := auth.New(auth.Config{Server: "im.example", URL: "https://example.com/mcp"}, auth.Options{Store: store})
//	login, err := c.Begin(ctx, "http://127.0.0.1:8976/callback", nil) // who protects it, and as which client
//	fmt.Println("open", login.URL)
//	err = login.Finish(ctx, answer)                                    // the query that the browser came back with
//	err = c.Authorize(ctx, request)                                    // from then on
//
// A [Client] is the OAuth client of one server. Authorize puts the token into a
// request to that server and to no other, renewed before it expires; Challenge
// takes an answer of 401 or 403 and says whether to try again. What only a person
// can mend is a [*NeededError]; the [Client.Wait] of whoever got it ends when the
// person has. What may pass by itself is a *fault.Error that is retryable.
//
// Tokens are kept in a [tokens.Store] and nowhere else. A new refresh token is on
// disk before the access token that came with it is used. No error and no log
// record holds a token, a code or a secret; [Options.Secret] learns each before it
// is used, so that it can be removed where others write it.
//
// The package opens no browser and no port. Where a server's metadata may lead is
// decided in package discovery below it, what is said to an issuer in package
// issuer.
package auth

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/auth/discovery"
	"github.com/aurorabot-dev/platform/mcpkit/auth/internal/keeper"
	"github.com/aurorabot-dev/platform/mcpkit/auth/issuer"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
)

// The ways to authorize.
const (
	None              = "none"               // nothing is added to requests
	Bearer            = "bearer"             // a configured token
	OAuth             = "oauth"              // a person agrees in a browser
	ClientCredentials = "client_credentials" // a machine speaks for itself (RFC 6749 section 4.4)
)

// Config says how to authorize towards one server.
type Config struct {
	Server string // its name; required
	URL    string // its endpoint; required
	Type   string // None, Bearer, OAuth or ClientCredentials; empty means OAuth

	Token string // of Bearer

	// ClientID is a client that is registered already; ClientSecret or Key
	// authenticate it. Method is how, empty means as the issuer prefers.
	ClientID     string
	ClientSecret string
	Key          crypto.Signer
	Method       string
	// Assertion is what a workload's surroundings vouch for it with, a JWT for the
	// issuer, read anew for each token. With it ClientCredentials is the JWT bearer
	// grant (RFC 7523 section 2.1), and a secret is not needed.
	Assertion func() (string, error)
	// ClientMetadataURL is a client by the address of its metadata
	// (draft-ietf-oauth-client-id-metadata-document), for issuers that read such.
	ClientMetadataURL string

	// Issuer is the only authorization server to go to. Empty means the one that
	// the server names.
	Issuer string
	// Scopes are asked for instead of those that the server names.
	Scopes []string
	// Audience are values of a JWT access token's aud that are accepted beside the
	// resource itself.
	Audience []string
}

// Options are what clients share.
type Options struct {
	// Store keeps the tokens. It is required for OAuth and ClientCredentials.
	Store *tokens.Store
	// Logger gets what happens, without tokens; nil discards it.
	Logger *slog.Logger
	// Secret is told every token, code and secret before it is used. It may be nil.
	Secret func(values ...string)
	// Browse takes a person to url and returns the query of the redirect to
	// RedirectURI. With it Challenge logs in by itself; nil means that nobody is
	// there.
	Browse      func(ctx context.Context, url string) (url.Values, error)
	RedirectURI string
	// Proxy and TLS are as in [discovery.Options].
	Proxy func(*http.Request) (*url.URL, error)
	TLS   *tls.Config
	// Name is what dynamically registered clients are called; empty means
	// "Aurora Platform".
	Name string
}

// NeededError says that a server cannot be used until a person has logged in or
// mended the configuration.
type NeededError struct {
	Server string
	Reason string
	Scopes []string // that were asked for beyond those granted
	// Login says that logging in helps; otherwise the configuration must change.
	Login bool
}

// Error is a sentence.
func (e *NeededError) Error() string {
	return fmt.Sprintf("server %s needs authorization: %s", e.Server, e.Reason)
}

// Client is the OAuth client of one server. It is safe for concurrent use.
type Client struct {
	cfg   Config
	opts  Options
	url   *url.URL
	log   *slog.Logger
	fetch *discovery.Fetcher
	oauth *issuer.Client

	kept *keeper.Keeper

	failed   error // of the last renewal; read and written with the keeper's lock
	failedAt time.Time

	mu      sync.Mutex
	told    string   // the keeper's stamp when a person was last said to be needed
	renewed string   // the access token that came of a refusal
	asked   []string // scopes that a step-up has asked for
}

// New makes a Client. It makes no request.
func New(cfg Config, o Options) (*Client, error) {
	if cfg.Type == "" {
		cfg.Type = OAuth
	}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("authorization of server %s: its URL cannot be read", cfg.Server)
	}
	oauth := cfg.Type == OAuth || cfg.Type == ClientCredentials
	var fault string
	switch {
	case cfg.Server == "":
		fault = "it has no name"
	case !oauth && cfg.Type != Bearer && cfg.Type != None:
		fault = fmt.Sprintf("unknown type %q", cfg.Type)
	case cfg.Type == Bearer && cfg.Token == "":
		fault = "the token is empty"
	case oauth && o.Store == nil:
		fault = "there is no store for tokens"
	case cfg.Type == ClientCredentials && (cfg.ClientID == "" || cfg.ClientSecret == "" && cfg.Key == nil && cfg.Assertion == nil):
		fault = "client_credentials needs a client_id and a client_secret, a key or an assertion"
	case cfg.ClientSecret != "" && cfg.Key != nil:
		fault = "a client has a secret or a key, not both"
	case cfg.ClientID == "" && (cfg.ClientSecret != "" || cfg.Key != nil):
		fault = "a client's secret or key needs its client_id"
	}
	if fault == "" && cfg.Type != None {
		for _, endpoint := range []string{cfg.URL, cfg.Issuer, cfg.ClientMetadataURL} {
			if endpoint == "" {
				continue
			}
			plain := *u
			plain.User, plain.Fragment = nil, ""
			if endpoint == cfg.URL {
				endpoint = plain.String()
			}
			if err := discovery.CheckURL(endpoint); err != nil {
				fault = err.Error()
			}
		}
	}
	if fault != "" {
		return nil, fmt.Errorf("authorization of server %s: %s", cfg.Server, fault)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Secret == nil {
		o.Secret = func(...string) {}
	}
	if o.Name == "" {
		o.Name = "Aurora Platform"
	}
	o.Secret(cfg.Token, cfg.ClientSecret)
	c := &Client{cfg: cfg, opts: o, url: u, log: o.Logger.With("server", cfg.Server)}
	c.kept = keeper.New(o.Store, cfg.Server, c.fits, o.Secret)
	c.fetch = discovery.New(discovery.Options{Server: u, Issuer: cfg.Issuer, Proxy: o.Proxy, TLS: o.TLS})
	c.oauth = &issuer.Client{
		Fetch: c.fetch, Server: u, Secret: o.Secret, Logger: c.log, Name: o.Name,
		ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret, Method: cfg.Method, Key: cfg.Key, Assertion: cfg.Assertion,
		MetadataURL: cfg.ClientMetadataURL, Audience: cfg.Audience,
	}
	return c, nil
}

// ParseKey reads a client's private key in PEM: PKCS #8, or the older forms of RSA
// and EC.
func ParseKey(data []byte) (crypto.Signer, error) { return issuer.ParseKey(data) }

// Close ends idle connections to the authorization server.
func (c *Client) Close() { c.fetch.Close() }

// needed is what only a person can mend.
func (c *Client) needed(login bool, format string, args ...any) *NeededError {
	return &NeededError{Server: c.cfg.Server, Reason: fmt.Sprintf(format, args...), Login: login}
}

// mendable makes of what an issuer cannot be used for what a person can mend.
func (c *Client) mendable(err error) error {
	if u, ok := errors.AsType[*issuer.Unusable](err); ok {
		return c.needed(false, "%s", u.Reason)
	}
	return err
}

// ours reports whether a request goes to the server itself: nothing is shown to
// any other.
func (c *Client) ours(u *url.URL) bool {
	return u != nil && u.Scheme == c.url.Scheme && strings.EqualFold(u.Host, c.url.Host)
}

// fits reports whether a record is for the server as it is configured.
func (c *Client) fits(r *tokens.Record) bool {
	return discovery.Covers(r.Key.Resource, c.url) &&
		(c.cfg.Issuer == "" || discovery.SameIssuer(c.cfg.Issuer, r.Key.Issuer)) &&
		(c.cfg.ClientID == "" || c.cfg.ClientID == r.Client.ID)
}

// waitPoll is how often Wait looks for a login.
const waitPoll = time.Second

// Wait returns nil as soon as a person has helped, see Helped, or else the end of
// ctx.
func (c *Client) Wait(ctx context.Context) error {
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for !c.Helped() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Helped reports whether there is something to authorize with that was not there
// when a [*NeededError] was last returned; another process may have stored it. A
// configured token only changes with the configuration, that is with the Client.
func (c *Client) Helped() bool {
	if c.cfg.Type == None || c.cfg.Type == Bearer {
		return false
	}
	r, err := c.kept.Current(true)
	stamp := c.kept.Stamp()
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && usable(r, time.Now()) && stamp != c.told
}

// help notes that a person was needed when the store was as stamp says, and returns
// n. What has changed since may be the help.
func (c *Client) help(n *NeededError, stamp string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = stamp
	return n
}

// usable reports whether r leads to a token without a person.
func usable(r *tokens.Record, now time.Time) bool {
	return r.Fresh(now) || r != nil && !r.Refused && r.Refresh != ""
}

// Status is what there is for a server. It holds no secrets.
type Status struct {
	Server   string    `json:"server"`
	Type     string    `json:"type"`
	State    string    `json:"state"` // ready, renewable, needs_auth, configured, none
	Resource string    `json:"resource,omitempty"`
	Issuer   string    `json:"issuer,omitempty"`
	ClientID string    `json:"client_id,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Wanted   []string  `json:"wanted_scopes,omitempty"` // asked for by the server, and not granted
	Expires  time.Time `json:"expires,omitzero"`
	Renews   bool      `json:"renews"` // there is a refresh token, or the client can ask again
	Stored   time.Time `json:"stored,omitzero"`
}

// Status reads what there is. It makes no request.
func (c *Client) Status() (Status, error) {
	s := Status{Server: c.cfg.Server, Type: c.cfg.Type, State: "needs_auth"}
	switch c.cfg.Type {
	case None:
		s.State = "none"
		return s, nil
	case Bearer:
		s.State = "configured"
		return s, nil
	}
	r, err := c.kept.Current(true)
	if c.cfg.Type == ClientCredentials {
		s.State, s.Renews = "renewable", true
	}
	if r == nil {
		return s, err
	}
	s.Resource, s.Issuer, s.ClientID, s.Stored = r.Key.Resource, r.Key.Issuer, r.Client.ID, r.Updated
	s.Scopes, s.Wanted, s.Expires = slices.Clone(r.Scopes), slices.Clone(r.Wanted), r.Expiry
	s.Renews = s.Renews || r.Refresh != ""
	switch now := time.Now(); {
	case r.Fresh(now):
		s.State = "ready"
	case usable(r, now):
		s.State = "renewable"
	}
	return s, err
}

// Logout asks the issuer to revoke what it has issued, where it offers that (RFC
// 7009), and removes all records of the server. Revoked counts the tokens that it
// took back; an error besides says why others may still be good. Nothing stored is
// no error.
func (c *Client) Logout(ctx context.Context) (revoked int, err error) {
	if c.opts.Store == nil {
		return 0, nil
	}
	unlock, err := c.kept.Lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	all, err := c.opts.Store.Find(c.cfg.Server)
	faults := []error{err}
	for _, r := range all {
		n, err := c.oauth.Revoke(ctx, r)
		revoked += n
		faults = append(faults, err, c.opts.Store.Delete(r.Key))
	}
	c.kept.Forget()
	return revoked, errors.Join(faults...)
}
