package access

import (
	"net/http"
	"slices"
	"strings"
)

// Headers that pages may send and read, beside those that browsers always let through
// (https://fetch.spec.whatwg.org/#http-cors-protocol).
var (
	sent = []string{
		"Authorization", "Content-Type", "Last-Event-ID", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name",
		"Traceparent", "Tracestate", "Baggage",
	}
	exposed = strings.Join([]string{"Mcp-Session-Id", "Mcp-Protocol-Version", "WWW-Authenticate", "Retry-After"}, ", ")
)

// paramPrefix begins the headers that repeat arguments of a call (2026-07-28,
// basic/transports: x-mcp-header).
const paramPrefix = "mcp-param-"

// CORS lets pages of the configured origins read the answer to r, and answers the
// question that a browser asks beforehand (preflight), which has no token. It reports
// whether that was all of the request.
func (rules *Rules) CORS(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header["Origin"]
	if len(rules.Origins) == 0 || !rules.hostHere(r.Host) {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if len(origin) != 1 || !slices.Contains(rules.Origins, origin[0]) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin[0])
	h.Set("Access-Control-Expose-Headers", exposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	allowed := slices.Clone(sent)
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		if name = strings.TrimSpace(name); strings.HasPrefix(strings.ToLower(name), paramPrefix) && isToken(name) {
			allowed = append(allowed, name)
		}
	}
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
	h.Set("Access-Control-Max-Age", "600")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" { // a page of the internet asks for this machine
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// isToken reports whether s has only letters, digits and hyphens.
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}
