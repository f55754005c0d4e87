// Package access says who may use the gateway over HTTP: which hosts and pages a
// request may come from, and what the bearer of a token may see, by a file of
// tokens that is read again when it changes.
//
//	rules := access.Rules{Tokens: tokens.View}
//	view, token, refusal := rules.Admit(w, r)
//
// What an admitted client then does is not looked at here.
package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// Rules say who is let in. Open or Tokens is required.
type Rules struct {
	// Open is what clients see that bring no token. nil lets none in.
	Open *view.View
	// Tokens finds the view of a token, or nil. nil takes no tokens.
	Tokens func(token string) *view.View
	// Hosts are names beside loopback's that a request's Host may have, without port.
	Hosts []string
	// Origins are web origins, such as https://app.example, whose pages may use the
	// gateway beside those of its own address; see [Rules.CORS].
	Origins []string
}

// Refusal says why a request is not served.
type Refusal struct {
	Status int // of HTTP
	Why    string
}

// Admit finds what a client may see, and the token by which it may, or why it may
// not; it sets the header that a refusal needs. A page in a browser could name
// this machine, but it cannot leave out its Origin, and a name of its own that it
// makes point here (DNS rebinding) stands in Host.
func (rules *Rules) Admit(w http.ResponseWriter, r *http.Request) (*view.View, string, *Refusal) {
	if !rules.hostHere(r.Host) {
		return nil, "", &Refusal{http.StatusMisdirectedRequest, "this is not that host"}
	}
	if !rules.originHere(r) {
		return nil, "", &Refusal{http.StatusForbidden, "requests of that page are refused"}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); rules.Tokens != nil && strings.EqualFold(scheme, "Bearer") && token != "" {
		if view := rules.Tokens(token); view != nil {
			return view, token, nil
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="aurora-platform", error="invalid_token"`)
		return nil, "", &Refusal{http.StatusUnauthorized, "the token is not known"}
	}
	if rules.Open != nil {
		return rules.Open, "", nil
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="aurora-platform"`)
	return nil, "", &Refusal{http.StatusUnauthorized, "requests need a bearer token"}
}

func (rules *Rules) hostHere(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.Trim(name, "[]")
	if addr, err := netip.ParseAddr(name); err == nil && addr.IsLoopback() {
		return true
	}
	return strings.EqualFold(name, "localhost") || slices.ContainsFunc(rules.Hosts, func(n string) bool { return strings.EqualFold(n, name) })
}

func (rules *Rules) originHere(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		site := r.Header.Get("Sec-Fetch-Site")
		return site != "cross-site" && site != "same-site"
	}
	if slices.Contains(rules.Origins, origins[0]) {
		return len(origins) == 1
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Scheme == scheme && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
