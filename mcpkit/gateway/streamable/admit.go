package streamable

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/gateway"
)

type refusal struct {
	status int
	why    string
}

// admit finds what a client may see, and the token by which it may. A page in a browser could name this machine,
// but it cannot leave out its Origin, and a name of its own that it makes point
// here (DNS rebinding) stands in Host.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) (*gateway.View, string, *refusal) {
	if !h.hostHere(r.Host) {
		return nil, "", &refusal{http.StatusMisdirectedRequest, "this is not that host"}
	}
	if !h.originHere(r) {
		return nil, "", &refusal{http.StatusForbidden, "requests of that page are refused"}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); h.o.Tokens != nil && strings.EqualFold(scheme, "Bearer") && token != "" {
		if view := h.o.Tokens(token); view != nil {
			return view, token, nil
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="aurora-platform", error="invalid_token"`)
		return nil, "", &refusal{http.StatusUnauthorized, "the token is not known"}
	}
	if h.o.Open != nil {
		return h.o.Open, "", nil
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="aurora-platform"`)
	return nil, "", &refusal{http.StatusUnauthorized, "requests need a bearer token"}
}

func (h *Handler) hostHere(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.Trim(name, "[]")
	if addr, err := netip.ParseAddr(name); err == nil && addr.IsLoopback() {
		return true
	}
	return strings.EqualFold(name, "localhost") || slices.ContainsFunc(h.o.Hosts, func(n string) bool { return strings.EqualFold(n, name) })
}

func (h *Handler) originHere(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		site := r.Header.Get("Sec-Fetch-Site")
		return site != "cross-site" && site != "same-site"
	}
	if slices.Contains(h.o.Origins, origins[0]) {
		return len(origins) == 1
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// decodeHeader is a header's value, which is wrapped where it is not plain ASCII
// (2026-07-28, basic/transports: =?base64?…?=).
func decodeHeader(v string) string {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return v
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		return v
	}
	return string(b)
}
