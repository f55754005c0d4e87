package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

var errDefect = fault.New(fault.Internal, "the platform met a defect of its own; its log says more")

// admit lets in who may use the API. No browser may: a page could name this
// machine, but it cannot leave out its Origin, and a name of its own that it
// makes point here (DNS rebinding) stands in Host. The socket's file keeps other
// users out; over TCP that is the token's job.
func (a *api) admit(w http.ResponseWriter, r *http.Request) error {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp := local == nil || local.Network() != "unix"
	if !hostHere(r.Host, tcp) {
		return refuse(http.StatusMisdirectedRequest, control.WrongHost, "this is not the host %q", r.Host)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site" {
		return refuse(http.StatusForbidden, control.OriginRefused, "requests of web pages are refused")
	}
	if !tcp {
		return nil
	}
	challenge := `Bearer realm="platform"`
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		if a.token != "" && sameToken(strings.TrimSpace(given), a.token) {
			return nil
		}
		challenge += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	return refuse(http.StatusUnauthorized, control.Unauthorized, "requests over TCP need the token of DATA/%s", endpoint.TokenFile)
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

// dispatch gives a request to its route. What the mux would refuse in plain text
// is refused as a problem.
func (a *api) dispatch(w http.ResponseWriter, r *http.Request) {
	h, pattern := a.mux.Handler(r)
	if path.Clean(r.URL.Path) != r.URL.Path { // the mux would redirect
		pattern, h = "", http.NotFoundHandler()
	}
	if pattern != "" {
		a.mux.ServeHTTP(w, r)
		return
	}
	no := refusal{header: make(http.Header)}
	h.ServeHTTP(&no, r)
	if no.status == http.StatusMethodNotAllowed {
		allow := no.header.Get("Allow")
		w.Header().Set("Allow", allow)
		fail(w, refuse(no.status, control.MethodNotAllowed, "%s takes %s, not %s", r.URL.Path, allow, r.Method))
		return
	}
	fail(w, refuse(http.StatusNotFound, control.NotFound, "there is no %s", r.URL.Path))
}

// refusal keeps the status and header of an answer.
type refusal struct {
	header http.Header
	status int
}

func (n *refusal) Header() http.Header         { return n.header }
func (n *refusal) WriteHeader(status int)      { n.status = status }
func (n *refusal) Write(b []byte) (int, error) { return len(b), nil }
