package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

// admit lets in who may use the API. No browser may: a page could name this
// machine, but it cannot leave out its Origin, and a name of its own that it
// makes point here (DNS rebinding) stands in Host. The socket's file keeps other
// users out; over TCP that is the token's job.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) error {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp := local == nil || local.Network() != "unix"
	if !hostHere(r.Host, tcp) {
		return httpjson.Refuse(http.StatusMisdirectedRequest, control.WrongHost, "this is not the host %q", r.Host)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site" {
		return httpjson.Refuse(http.StatusForbidden, control.OriginRefused, "requests of web pages are refused")
	}
	if !tcp {
		return nil
	}
	challenge := `Bearer realm="platform"`
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		if g.o.Token != "" && sameToken(strings.TrimSpace(given), g.o.Token) {
			return nil
		}
		challenge += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	return httpjson.Refuse(http.StatusUnauthorized, control.Unauthorized, "requests over TCP need the token of DATA/%s", endpoint.TokenFile)
}

// sameToken takes the same time wherever the two differ.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// hostHere reports whether a Host header names this machine's loopback. On the
// socket it may also be a bare word, for there is no address that it could be.
func hostHere(host string, tcp bool) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return addr.IsLoopback()
	}
	return strings.EqualFold(name, "localhost") || !tcp && !strings.ContainsAny(name, ".:")
}
