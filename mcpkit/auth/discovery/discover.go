package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Challenge is what a WWW-Authenticate header says of bearer tokens (RFC 6750
// section 3, RFC 9728 section 5.1). All of it may be empty.
type Challenge struct {
	ResourceMetadata string
	Scopes           []string
	Error            string // such as invalid_token or insufficient_scope
}

// ParseChallenge reads the challenge of an answer. A header that cannot be read
// counts as absent: metadata is also found without it.
func ParseChallenge(h http.Header) (c Challenge) {
	for _, line := range h.Values("WWW-Authenticate") {
		all, err := oauthex.ParseWWWAuthenticate([]string{line})
		if err != nil {
			continue
		}
		for _, ch := range all {
			if ch.Scheme != "bearer" && ch.Scheme != "dpop" {
				continue
			}
			if m := ch.Params["resource_metadata"]; m != "" && c.ResourceMetadata == "" {
				c.ResourceMetadata = m
			}
			if s := strings.Fields(ch.Params["scope"]); len(s) > 0 && c.Scopes == nil {
				c.Scopes = s
			}
			if e := ch.Params["error"]; e != "" && c.Error == "" {
				c.Error = e
			}
		}
	}
	return c
}

// Found is who protects a server.
type Found struct {
	Resource string   // what tokens are asked for, as the server publishes it
	Scopes   []string // that the resource names; nil if it names none
	Issuer   string   // as the authorization server writes it
	Meta     *oauthex.AuthServerMeta
	// Legacy says that the server has no resource metadata and is its own
	// authorization server, as in the protocol of 2025-03-26.
	Legacy bool
	// Guessed says that it has no metadata at all: its endpoints are the customary
	// ones.
	Guessed bool
}

// Discover asks the server, and the authorization server that it or the
// configuration names.
func (f *Fetcher) Discover(ctx context.Context, c Challenge) (*Found, error) {
	prm, err := f.resource(ctx, c.ResourceMetadata)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of %s: %w", f.opts.Server.Redacted(), err)
	}
	if prm == nil {
		return f.legacy(ctx)
	}
	issuer := f.opts.Issuer
	switch {
	case len(prm.AuthorizationServers) == 0 && issuer == "":
		return nil, fmt.Errorf("%s names no authorization server", f.opts.Server.Redacted())
	case issuer == "":
		issuer = prm.AuthorizationServers[0]
	case len(prm.AuthorizationServers) > 0 && !slices.ContainsFunc(prm.AuthorizationServers, func(s string) bool { return SameIssuer(s, issuer) }):
		return nil, fmt.Errorf("%s is not protected by the configured issuer %s but by %s",
			f.opts.Server.Redacted(), issuer, strings.Join(prm.AuthorizationServers, ", "))
	}
	meta, err := f.server(ctx, issuer)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of the authorization server %s: %w", issuer, err)
	}
	if meta == nil {
		return nil, fmt.Errorf("the authorization server %s publishes no metadata", issuer)
	}
	return &Found{Resource: prm.Resource, Scopes: prm.ScopesSupported, Issuer: meta.Issuer, Meta: meta}, nil
}

// legacy is for servers of 2025-03-26, which are their own authorization servers
// and may have no metadata at all
// (https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization).
func (f *Fetcher) legacy(ctx context.Context) (*Found, error) {
	issuer := f.opts.Issuer
	if issuer == "" {
		issuer = f.opts.Server.Scheme + "://" + f.opts.Server.Host
	}
	meta, err := f.server(ctx, issuer)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of the authorization server %s: %w", issuer, err)
	}
	if meta == nil && f.opts.Issuer != "" {
		return nil, fmt.Errorf("the authorization server %s publishes no metadata", issuer)
	}
	guessed := meta == nil
	if guessed {
		meta = &oauthex.AuthServerMeta{
			Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize",
			TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register",
		}
	}
	return &Found{Resource: Canonical(f.opts.Server), Issuer: meta.Issuer, Meta: meta, Legacy: true, Guessed: guessed}, nil
}

// Challenge asks the server for its challenge, and reports whether it asks for
// authorization. Without one Discover finds the metadata at its well-known places.
func (f *Fetcher) Challenge(ctx context.Context) (ch Challenge, asks bool) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	target := *f.opts.Server
	target.User, target.Fragment = nil, ""
	_, _, err := f.Do(ctx, http.MethodPost, target.String(), header, strings.NewReader(ping))
	if se, ok := errors.AsType[*StatusError](err); ok && se.Status == http.StatusUnauthorized {
		return ParseChallenge(se.Header), true
	}
	return Challenge{}, false
}

// Canonical is a server's URL as the identifier of a resource: without user,
// query and fragment (RFC 8707 section 2).
func Canonical(u *url.URL) string {
	c := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return c.String()
}

// resource is the metadata of the protected resource: where the challenge says,
// then at the well-known place of the server's path, then at that of its root.
// It is nil if there is none.
func (f *Fetcher) resource(ctx context.Context, hint string) (*oauthex.ProtectedResourceMetadata, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	root := f.opts.Server.Scheme + "://" + f.opts.Server.Host + wellKnown
	var places []string
	if hint != "" {
		if err := CheckURL(hint); err != nil {
			return nil, fmt.Errorf("the challenge's resource_metadata: %w", err)
		}
		places = append(places, hint)
	}
	if p := strings.TrimSuffix(f.opts.Server.EscapedPath(), "/"); p != "" {
		places = append(places, root+p)
	}
	places = append(places, root)
	for i, place := range places {
		if slices.Contains(places[:i], place) {
			continue
		}
		var prm oauthex.ProtectedResourceMetadata
		if absent, err := f.document(ctx, place, &prm); err != nil {
			return nil, err
		} else if absent || prm.Resource == "" && len(prm.AuthorizationServers) == 0 {
			continue
		}
		if !Covers(prm.Resource, f.opts.Server) {
			return nil, fmt.Errorf("%s describes the resource %q, which is another", place, prm.Resource)
		}
		for _, issuer := range prm.AuthorizationServers {
			if err := CheckURL(issuer); err != nil {
				return nil, fmt.Errorf("%s names the authorization server %q: %w", place, issuer, err)
			}
		}
		return &prm, nil
	}
	return nil, nil
}

// document fetches metadata. It is absent where the place has none: any answer
// of the client's fault, or a page instead of a document.
func (f *Fetcher) document(ctx context.Context, place string, into any) (absent bool, err error) {
	err = f.JSON(ctx, place, into)
	if se, ok := errors.AsType[*StatusError](err); ok && se.Status/100 == 4 && se.Status != http.StatusTooManyRequests || errors.Is(err, errNoJSON) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", place, err)
	}
	return false, nil
}

// Covers reports whether a published resource is the server or the part of its
// host that the server is in: many servers publish their root. RFC 9728 section
// 3.3 wants equality; a prefix on the same host is no other party.
func Covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Scheme != server.Scheme || !strings.EqualFold(r.Host, server.Host) || r.User != nil || r.RawQuery != "" || r.Fragment != "" {
		return false
	}
	base := strings.TrimSuffix(r.EscapedPath(), "/")
	if p := r.EscapedPath(); p != "" && path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" {
		return false // dots in the path
	}
	p := strings.TrimSuffix(server.EscapedPath(), "/")
	return p == base || strings.HasPrefix(p, base+"/")
}

// SameIssuer compares issuers byte for byte (RFC 8414 section 3.3), save that
// an origin may be written with its empty path or with "/": both have the same
// metadata, and widespread servers write it one way in one place and the other
// in the other.
func SameIssuer(a, b string) bool {
	if a == b {
		return true
	}
	bare := func(s string) (string, bool) {
		u, err := url.Parse(s)
		if err != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			return "", false
		}
		return strings.TrimSuffix(s, "/"), true
	}
	x, okX := bare(a)
	y, okY := bare(b)
	return okX && okY && x == y
}

// server is the metadata of an authorization server, or nil if it has none
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-server-metadata-discovery).
func (f *Fetcher) server(ctx context.Context, issuer string) (*oauthex.AuthServerMeta, error) {
	if err := CheckURL(issuer); err != nil {
		return nil, err
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" {
		return nil, errors.New("an issuer has no query")
	}
	origin, p := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + p, origin + "/.well-known/openid-configuration" + p}
	if p != "" {
		places = append(places, origin+p+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		var meta oauthex.AuthServerMeta
		if absent, err := f.document(ctx, place, &meta); err != nil {
			return nil, err
		} else if absent {
			continue
		}
		if !SameIssuer(meta.Issuer, issuer) {
			return nil, fmt.Errorf("%s describes the issuer %q, which is another", place, meta.Issuer)
		}
		return &meta, check(&meta)
	}
	return nil, nil
}

// check refuses metadata that sends a person or a secret where it may not go.
func check(m *oauthex.AuthServerMeta) error {
	for _, e := range []struct {
		name, url string
		needed    bool
	}{
		{"token_endpoint", m.TokenEndpoint, true},
		{"authorization_endpoint", m.AuthorizationEndpoint, false}, // none for machines
		{"registration_endpoint", m.RegistrationEndpoint, false},
		{"revocation_endpoint", m.RevocationEndpoint, false},
	} {
		if e.url == "" && !e.needed {
			continue
		}
		if err := CheckURL(e.url); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}
