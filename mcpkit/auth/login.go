package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/aurorabot-dev/platform/mcpkit/auth/discovery"
	"github.com/aurorabot-dev/platform/mcpkit/auth/issuer"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
)

// Login is one run of the authorization code flow with PKCE (OAuth 2.1 section
// 4.1), from the address that a person opens to the tokens.
type Login struct {
	URL         string // for the person's browser
	Issuer      string // who will ask the person
	Scopes      []string
	RedirectURI string // where the browser comes back to

	c        *Client
	found    *discovery.Found
	client   tokens.Client
	prior    *tokens.Record
	state    string
	verifier string
	used     atomic.Bool // an answer was believed to be its own
}

// ErrOtherLogin says that an answer does not belong to the login it was given to:
// whoever sent it, the login goes on.
var ErrOtherLogin = errors.New("the answer belongs to another login (its state differs), or the login is over")

// ErrNotWhole says that a code alone is not enough.
var ErrNotWhole = errors.New("the issuer marks its answers: the whole address that the browser ended at is needed, not the code alone")

// RedirectPort is the port that a client was registered with before, which spares
// a new registration, or 0.
func (c *Client) RedirectPort() int {
	rec, err := c.kept.Current(true)
	if err != nil || rec == nil {
		return 0
	}
	u, err := url.Parse(rec.Client.RedirectURI)
	if err != nil || !discovery.IsLoopback(u.Hostname()) {
		return 0
	}
	var port int
	fmt.Sscan(u.Port(), &port)
	return port
}

// Begin asks the server and its issuer what a login takes. The browser will be
// sent back to redirectURI; more are scopes to ask for besides.
func (c *Client) Begin(ctx context.Context, redirectURI string, more []string) (*Login, error) {
	if c.cfg.Type != OAuth {
		return nil, c.needed(false, "its authorization is configured (%s), so nobody can log in", c.cfg.Type)
	}
	ch, asks := c.fetch.Challenge(ctx)
	return c.begin(ctx, redirectURI, ch, asks, more)
}

// begin is Begin with the challenge known, if the server asks for authorization.
func (c *Client) begin(ctx context.Context, redirectURI string, ch discovery.Challenge, asks bool, more []string) (*Login, error) {
	found, err := c.discover(ctx, ch)
	if err != nil {
		return nil, err
	}
	meta := found.Meta
	switch {
	case found.Guessed && !asks:
		return nil, c.needed(false, "it neither asks for a login nor names anybody to log in with")
	case meta.AuthorizationEndpoint == "":
		return nil, c.needed(false, "the authorization server %s has no page where a person could log in", found.Issuer)
	case !found.Guessed && !slices.Contains(meta.CodeChallengeMethodsSupported, "S256"):
		// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-code-protection
		return nil, c.needed(false, "the authorization server %s does not support PKCE with S256", found.Issuer)
	}
	prior, err := c.kept.Current(true)
	if err != nil {
		return nil, err
	}
	client, err := c.oauth.Register(ctx, found, redirectURI, prior)
	if err != nil {
		return nil, c.mendable(err)
	}
	scopes := issuer.Scopes(found, ch, c.cfg.Scopes, prior, more)
	if slices.Contains(meta.ScopesSupported, "offline_access") {
		scopes = tokens.Union(scopes, []string{"offline_access"}) // OpenID Connect Core section 11: for a refresh token
	}
	l := &Login{
		Issuer: found.Issuer, Scopes: scopes, RedirectURI: redirectURI,
		c: c, found: found, client: client, prior: prior, state: rand.Text(), verifier: oauth2.GenerateVerifier(),
	}
	c.opts.Secret(l.state, l.verifier)
	flow := oauth2.Config{
		ClientID: client.ID, RedirectURL: redirectURI, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: meta.AuthorizationEndpoint},
	}
	l.URL = flow.AuthCodeURL(l.state, oauth2.S256ChallengeOption(l.verifier), oauth2.SetAuthURLParam("resource", found.Resource))
	return l, nil
}

// Finish takes the query of the redirect, checks that it is the answer to this
// login by the issuer it went to, and stores the tokens that its code is exchanged
// for.
func (l *Login) Finish(ctx context.Context, answer url.Values) error {
	l.c.opts.Secret(answer.Get("code"))
	if subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(l.state)) != 1 {
		return ErrOtherLogin
	}
	if l.used.Swap(true) { // a code is good once, and using it twice ends what came of it
		return ErrOtherLogin
	}
	code, err := issuer.Code(l.found, answer)
	if err != nil {
		return err
	}
	return l.exchange(ctx, code)
}

// FinishCode is Finish for a bare code, pasted by the person who began the login.
// PKCE binds the code to it; but who sent it cannot be checked, so an issuer that
// says who it is in its answers is asked for the whole answer.
func (l *Login) FinishCode(ctx context.Context, code string) error {
	l.c.opts.Secret(code)
	if l.found.Meta.AuthorizationResponseIssParameterSupported {
		return ErrNotWhole
	}
	if l.used.Swap(true) {
		return ErrOtherLogin
	}
	return l.exchange(ctx, code)
}

func (l *Login) exchange(ctx context.Context, code string) error {
	c := l.c
	rec := issuer.Record(c.cfg.Server, l.found, l.client)
	form := issuer.Grant("authorization_code", l.found.Resource)
	form.Set("code", code)
	form.Set("redirect_uri", l.RedirectURI)
	form.Set("code_verifier", l.verifier)
	rec.Scopes = l.Scopes // where the answer does not say otherwise
	if l.prior != nil && l.prior.Key == rec.Key {
		rec.Wanted = l.prior.Wanted
	}
	unlock, err := c.kept.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.oauth.Ask(ctx, rec, form); err != nil {
		return c.mendable(err)
	}
	if err := c.kept.Put(rec); err != nil {
		return err
	}
	c.log.Info("logged in", "issuer", rec.Key.Issuer, "resource", rec.Key.Resource, "scopes", rec.Scopes, "renews", rec.Refresh != "")
	return nil
}

// browse logs in with whoever Options.Browse reaches.
func (c *Client) browse(ctx context.Context, ch discovery.Challenge, more []string) error {
	l, err := c.begin(ctx, c.opts.RedirectURI, ch, true, more)
	if err != nil {
		return err
	}
	if p := l.prior; p != nil && more == nil && p.Key.Issuer == l.Issuer && p.Access != "" && time.Since(p.Obtained) < time.Minute {
		return c.needed(true, "it does not accept the token of a login just made")
	}
	answer, err := c.opts.Browse(ctx, l.URL)
	if err != nil {
		return err
	}
	return l.Finish(ctx, answer)
}
