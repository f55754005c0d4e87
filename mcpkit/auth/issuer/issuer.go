// Package issuer speaks to an authorization server as a client of it: it
// registers, proves who it is, asks for tokens, checks them and has them revoked.
//
//	c := &issuer.Client{Fetch: fetcher, Server: serverURL, Secret: secret}
//	client, err := c.Register(ctx, found, redirectURI, nil)
//	rec := issuer.Record("im.example", found, client)
//	form := issuer.Grant("authorization_code", found.Resource)
//	err = c.Ask(ctx, rec, form) // rec has the tokens
//
// It keeps nothing, and knows neither when a token is needed nor for which request.
// No error holds what was sent in confidence.
package issuer

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/aurorabot-dev/platform/mcpkit/auth/discovery"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
)

// Error is a refusal by an authorization server (RFC 6749 section 5.2, RFC
// 7591 section 3.2.2). Its words are the server's, without control characters and
// without what was sent.
type Error struct {
	Issuer      string
	Status      int    // of HTTP; 0 where it came by redirect
	Code        string // such as invalid_grant; empty where the answer has none
	Description string
}

// Error is a sentence.
func (e *Error) Error() string {
	what := cmp.Or(e.Code, fmt.Sprintf("status %d", e.Status))
	if e.Description != "" {
		what += ": " + e.Description
	}
	return fmt.Sprintf("the authorization server %s refuses (%s)", e.Issuer, what)
}

// Temporary reports whether asking again later may help.
func (e *Error) Temporary() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout ||
		e.Code == "temporarily_unavailable" || e.Code == "server_error" || e.Code == "slow_down" || e.Code == "" && e.Status != http.StatusUnauthorized
}

// Unusable says that an issuer, or what it has issued, cannot be used as things are
// configured.
type Unusable struct{ Reason string }

// Error is the reason.
func (u *Unusable) Error() string { return u.Reason }

func unusable(format string, args ...any) error { return &Unusable{fmt.Sprintf(format, args...)} }

// The ways in which a client shows at the token endpoint that it is itself
// (RFC 7591 section 2, RFC 7523).
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodJWT   = "private_key_jwt"
)

// Client is the OAuth client of one MCP server at the issuers that protect the
// server. Its fields are not changed after its first use.
type Client struct {
	Fetch  *discovery.Fetcher
	Server *url.URL // the MCP server
	Secret func(values ...string)
	Logger *slog.Logger
	Name   string // of clients that it registers

	// A client that somebody has registered, see the package auth.
	ClientID, ClientSecret, Method string
	Key                            crypto.Signer
	Assertion                      func() (string, error)
	MetadataURL                    string

	Audience []string // of JWTs, accepted beside the resource
}

// Register is the client to be at an issuer: the configured one, else the one
// with a metadata document where the issuer reads such, else one that was
// registered before, else a new one
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#client-registration-approaches).
func (c *Client) Register(ctx context.Context, found *discovery.Found, redirectURI string, prior *tokens.Record) (tokens.Client, error) {
	meta := found.Meta
	switch {
	case c.ClientID != "":
		return tokens.Client{ID: c.ClientID, Method: c.method(meta.TokenEndpointAuthMethodsSupported)}, nil
	case c.MetadataURL != "" && meta.ClientIDMetadataDocumentSupported:
		return tokens.Client{ID: c.MetadataURL, Method: methodNone}, nil
	case prior != nil && prior.Key.Issuer == found.Issuer && prior.Client.ID != "" && prior.Client.RedirectURI == redirectURI &&
		(prior.Client.SecretExpires.IsZero() || time.Now().Before(prior.Client.SecretExpires)):
		return prior.Client, nil
	case meta.RegistrationEndpoint == "":
		return tokens.Client{}, unusable("the authorization server %s registers no clients by itself: register one there and write its client_id", found.Issuer)
	}
	supported := meta.TokenEndpointAuthMethodsSupported
	method := methodNone // a program on somebody's machine keeps no secret from them (OAuth 2.1 section 2.1)
	if len(supported) > 0 && !slices.Contains(supported, methodNone) {
		method = methodBasic
		if !slices.Contains(supported, methodBasic) && slices.Contains(supported, methodPost) {
			method = methodPost
		}
	}
	body, err := json.Marshal(&oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirectURI}, TokenEndpointAuthMethod: method, ApplicationType: "native",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, ClientName: c.Name,
	})
	if err != nil {
		return tokens.Client{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	raw, _, err := c.Fetch.Do(ctx, http.MethodPost, meta.RegistrationEndpoint, header, bytes.NewReader(body))
	if err != nil {
		return tokens.Client{}, fmt.Errorf("registering a client: %w", issuerError(found.Issuer, err))
	}
	var res oauthex.ClientRegistrationResponse
	if err := json.Unmarshal(raw, &res); err != nil || res.ClientID == "" {
		return tokens.Client{}, fmt.Errorf("registering a client at %s: the answer cannot be read", found.Issuer)
	}
	c.Secret(res.ClientSecret)
	method = cmp.Or(res.TokenEndpointAuthMethod, method)
	if res.ClientSecret == "" {
		method = methodNone
	}
	c.Logger.Info("registered as a client", "issuer", found.Issuer, "client_id", res.ClientID)
	return tokens.Client{
		ID: res.ClientID, Secret: res.ClientSecret, Method: method, RedirectURI: redirectURI, SecretExpires: res.ClientSecretExpiresAt,
	}, nil
}

// method is how a configured client authenticates at the token endpoint.
func (c *Client) method(supported []string) string {
	switch {
	case c.Method != "":
		return c.Method
	case c.Key != nil:
		return methodJWT
	case c.ClientSecret == "":
		return methodNone
	case !slices.Contains(supported, methodBasic) && slices.Contains(supported, methodPost):
		return methodPost
	}
	return methodBasic // what every server must know (RFC 6749 section 2.3.1)
}

// identify adds to a request of a token endpoint who asks.
func (c *Client) identify(form url.Values, header http.Header, client tokens.Client, issuer string) error {
	secret := cmp.Or(client.Secret, c.ClientSecret)
	if client.Secret == "" && client.ID != c.ClientID {
		secret = "" // a configured secret is the configured client's
	}
	switch client.Method {
	case methodBasic:
		// RFC 6749 section 2.3.1: both form-encoded.
		header.Set("Authorization", basic(url.QueryEscape(client.ID), url.QueryEscape(secret)))
	case methodPost:
		form.Set("client_id", client.ID)
		form.Set("client_secret", secret)
	case methodJWT:
		if c.Key == nil {
			return errors.New("private_key_jwt needs a key")
		}
		assertion, err := assert(c.Key, client.ID, issuer, time.Now())
		if err != nil {
			return err
		}
		c.Secret(assertion)
		form.Set("client_id", client.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case methodNone, "":
		form.Set("client_id", client.ID)
	default:
		return fmt.Errorf("the authentication method %q is not known", client.Method)
	}
	return nil
}

func basic(user, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// Grant begins the form of a token request. It always says for which resource
// (RFC 8707).
func Grant(typ, resource string) url.Values {
	return url.Values{"grant_type": {typ}, "resource": {resource}}
}

// SetScope adds the scopes to a token request, if there are any.
func SetScope(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
}

// Record is what is known of a server's issuer before it has issued anything.
func Record(server string, found *discovery.Found, client tokens.Client) *tokens.Record {
	return &tokens.Record{
		Key:           tokens.Key{Server: server, Resource: found.Resource, Issuer: found.Issuer},
		Client:        client,
		TokenEndpoint: found.Meta.TokenEndpoint, RevocationEndpoint: found.Meta.RevocationEndpoint,
	}
}

// answer is what a token endpoint issues (RFC 6749 section 5.1).
type answer struct {
	AccessToken  string      `json:"access_token"`
	TokenType    string      `json:"token_type"`
	ExpiresIn    json.Number `json:"expires_in"` // some write a string
	RefreshToken string      `json:"refresh_token"`
	Scope        *string     `json:"scope"`
}

// Ask makes a token request and puts what is issued into rec.
func (c *Client) Ask(ctx context.Context, rec *tokens.Record, form url.Values) error {
	raw, err := c.post(ctx, rec, rec.TokenEndpoint, form)
	if err != nil {
		return fmt.Errorf("asking for a token: %w", err)
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("asking %s for a token: the answer cannot be read", rec.Key.Issuer)
	}
	c.Secret(a.AccessToken, a.RefreshToken)
	switch {
	case a.AccessToken == "" || strings.ContainsFunc(a.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("asking %s for a token: there is none in the answer", rec.Key.Issuer)
	case !strings.EqualFold(a.TokenType, "Bearer"):
		return fmt.Errorf("asking %s for a token: its type %q cannot be used", rec.Key.Issuer, Clean(a.TokenType))
	}
	now := time.Now()
	rec.Access, rec.Refresh, rec.Obtained, rec.Expiry, rec.Refused = a.AccessToken, a.RefreshToken, now, time.Time{}, false
	rec.Ended = ""
	if n, err := a.ExpiresIn.Float64(); err == nil && n > 0 {
		rec.Expiry = now.Add(time.Duration(min(n, 10*365*24*3600)) * time.Second)
	}
	switch scope := form.Get("scope"); {
	case a.Scope != nil:
		rec.Scopes = strings.Fields(*a.Scope)
	case scope != "":
		rec.Scopes = strings.Fields(scope) // RFC 6749 section 5.1: what was asked for
	}
	rec.Wanted = slices.DeleteFunc(slices.Clone(rec.Wanted), func(s string) bool { return slices.Contains(rec.Scopes, s) })
	return c.inspect(rec, now)
}

// inspect checks what a JWT access token says of itself; it is not for its bearer
// to read any other.
func (c *Client) inspect(rec *tokens.Record, now time.Time) error {
	claims := readClaims(rec.Access)
	if claims == nil {
		return nil
	}
	if len(claims.Audience) > 0 {
		good := append([]string{rec.Key.Resource, discovery.Canonical(c.Server)}, c.Audience...)
		if !slices.ContainsFunc(good, func(a string) bool { return oauthex.MatchesResource(claims.Audience, a) }) {
			return unusable("the token that %s has issued is for %s, not for %s; if that is right, write it as audience",
				rec.Key.Issuer, Clean(strings.Join(claims.Audience, ", ")), rec.Key.Resource)
		}
	}
	// RFC 9068 section 4 binds iss for tokens of this type; others use their own.
	if claims.accessToken() && claims.Issuer != "" && !discovery.SameIssuer(claims.Issuer, rec.Key.Issuer) {
		return unusable("the token was issued by %s, not by %s", Clean(claims.Issuer), rec.Key.Issuer)
	}
	if end := claims.expiry(); !end.IsZero() {
		if !end.After(now.Add(-tokens.Skew)) {
			return fmt.Errorf("the token that %s has issued has expired already; is the clock right?", rec.Key.Issuer)
		}
		if rec.Expiry.IsZero() || end.Before(rec.Expiry) {
			rec.Expiry = end
		}
	}
	return nil
}

// post sends a form to an endpoint of the record's issuer.
func (c *Client) post(ctx context.Context, rec *tokens.Record, endpoint string, form url.Values) ([]byte, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if err := c.identify(form, header, rec.Client, rec.Key.Issuer); err != nil {
		return nil, err
	}
	raw, _, err := c.Fetch.Do(ctx, http.MethodPost, endpoint, header, strings.NewReader(form.Encode()))
	if err != nil {
		err = issuerError(rec.Key.Issuer, err)
		if oe, ok := errors.AsType[*Error](err); ok {
			oe.Description = without(oe.Description, form)
		}
		return nil, err
	}
	return raw, nil
}

// without removes from a text what a form says in confidence.
func without(text string, form url.Values) string {
	for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion", "token"} {
		if v := form.Get(name); v != "" {
			text = strings.ReplaceAll(text, v, "[redacted]")
		}
	}
	return text
}

// issuerError reads the refusal in an answer that is no success.
func issuerError(issuer string, err error) error {
	se, ok := errors.AsType[*discovery.StatusError](err)
	if !ok {
		return err
	}
	var body struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(se.Body, &body) // a page is a refusal without a code
	return &Error{Issuer: issuer, Status: se.Status, Code: Clean(body.Error), Description: Clean(body.Description)}
}

// Clean is a server's text, shortened and on one line.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}

// Revoke asks the issuer to take a record's tokens back (RFC 7009), the refresh
// token first. It returns how many it took.
func (c *Client) Revoke(ctx context.Context, rec *tokens.Record) (revoked int, err error) {
	if rec.RevocationEndpoint == "" {
		return 0, nil
	}
	c.Secret(rec.Access, rec.Refresh)
	for _, t := range []struct{ token, hint string }{{rec.Refresh, "refresh_token"}, {rec.Access, "access_token"}} {
		if t.token == "" {
			continue
		}
		if _, err := c.post(ctx, rec, rec.RevocationEndpoint, url.Values{"token": {t.token}, "token_type_hint": {t.hint}}); err != nil {
			return revoked, fmt.Errorf("revoking a token of %s: %w", rec.Key.Server, err)
		}
		revoked++
	}
	return revoked, nil
}
