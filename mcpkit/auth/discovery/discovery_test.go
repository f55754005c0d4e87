package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a host whose documents a test writes.
type site struct {
	URL string

	mu    sync.Mutex
	pages map[string]any // a func, a string, or what is sent as JSON
	seen  []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]any{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.URL.Path)
	page := s.pages[r.URL.Path]
	if page == nil {
		page = s.pages["*"]
	}
	s.mu.Unlock()
	switch page := page.(type) {
	case nil:
		http.NotFound(w, r)
	case func(http.ResponseWriter, *http.Request):
		page(w, r)
	case string:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(page)
	}
}

func (s *site) fetcher(t *testing.T, issuer string) *Fetcher {
	t.Helper()
	u, err := url.Parse(s.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	f := New(Options{Server: u, Issuer: issuer})
	t.Cleanup(f.Close)
	return f
}

type object = map[string]any

func (s *site) prm() object {
	return object{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}}
}

func (s *site) meta() object {
	return object{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/a", "token_endpoint": s.URL + "/t",
		"code_challenge_methods_supported": []string{"S256"},
	}
}

const (
	prmPlace  = "/.well-known/oauth-protected-resource/mcp"
	metaPlace = "/.well-known/oauth-authorization-server"
)

func TestHostileMetadataIsRefused(t *testing.T) {
	set := func(key string, v any) func(object) { return func(o object) { o[key] = v } }
	redirect := func(to string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	for _, tc := range []struct {
		name, words string
		prm, meta   func(object)
		page        any    // instead of the resource's metadata
		metaPage    any    // instead of the issuer's
		hint        string // of the challenge
	}{
		{name: "another resource", words: "which is another", prm: set("resource", "https://evil.example/mcp")},
		{name: "a resource below", words: "which is another", prm: func(o object) { o["resource"] = o["resource"].(string) + "/deeper" }},
		{name: "a sibling", words: "which is another", prm: func(o object) { o["resource"] = strings.TrimSuffix(o["resource"].(string), "p") }},
		{name: "a path with dots", words: "which is another", prm: func(o object) { o["resource"] = o["resource"].(string) + "/../mcp" }},
		{name: "another issuer", words: "which is another", meta: set("issuer", "https://evil.example")},
		{name: "an issuer with a query", words: "query", prm: func(o object) { o["authorization_servers"] = []string{o["resource"].(string) + "?x=1"} }},
		{name: "an issuer without https", words: "not https", prm: set("authorization_servers", []string{"http://evil.example"})},
		{name: "an issuer that is a script", words: "no absolute URL", prm: set("authorization_servers", []string{"javascript:alert(1)"})},
		{name: "an issuer with a user", words: "user name", prm: set("authorization_servers", []string{"https://a:b@evil.example"})},
		{name: "no issuer", words: "names no authorization server", prm: set("authorization_servers", []string{})},
		{name: "a page that is a script", words: "authorization_endpoint", meta: set("authorization_endpoint", "javascript:alert(1)")},
		{name: "a token endpoint without https", words: "token_endpoint", meta: set("token_endpoint", "http://evil.example/t")},
		{name: "no token endpoint", words: "token_endpoint", meta: set("token_endpoint", "")},
		{name: "registration at a file", words: "registration_endpoint", meta: set("registration_endpoint", "file:///etc/passwd")},
		{name: "revocation without https", words: "revocation_endpoint", meta: set("revocation_endpoint", "http://evil.example/r")},
		{name: "a hint without https", words: "not https", hint: "http://evil.example/prm"},
		{name: "a hint at the cloud's keys", words: "may not point to", hint: "https://169.254.169.254/prm"},
		{name: "a redirect there", words: "may not point to", page: redirect("https://169.254.169.254/latest")},
		{name: "a redirect without https", words: "not https", page: redirect("http://evil.example/")},
		{name: "a redirect in a circle", words: "redirects", page: redirect(prmPlace)},
		{name: "an endless document", words: "exceeds", page: func(w http.ResponseWriter, r *http.Request) {
			for range MaxBody/1024 + 2 {
				fmt.Fprint(w, strings.Repeat(" ", 1024))
			}
		}},
		{name: "an issuer that is broken", words: "500", metaPage: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }},
		{name: "an issuer with a page for everything", words: "publishes no metadata", metaPage: "<html>welcome"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			prm, meta := s.prm(), s.meta()
			if tc.prm != nil {
				tc.prm(prm)
			}
			if tc.meta != nil {
				tc.meta(meta)
			}
			s.pages[prmPlace], s.pages[metaPlace] = prm, meta
			if tc.page != nil {
				s.pages[prmPlace] = tc.page
			}
			if tc.metaPage != nil {
				s.pages[metaPlace], s.pages["*"] = tc.metaPage, tc.metaPage
			}
			found, err := s.fetcher(t, "").Discover(t.Context(), Challenge{ResourceMetadata: tc.hint})
			if err == nil || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("the error is %v, without %q; found %+v", err, tc.words, found)
			}
		})
	}
}

func TestOnlyWhereTheServerIsMayItsMetadataPoint(t *testing.T) {
	for _, tc := range []struct {
		server, issuer, target string
		good                   bool
	}{
		{"https://93.184.215.14/mcp", "", "93.184.215.15:443", true},
		{"https://93.184.215.14/mcp", "", "127.0.0.1:443", false},
		{"https://93.184.215.14/mcp", "", "[::1]:443", false},
		{"https://93.184.215.14/mcp", "", "10.1.2.3:443", false},
		{"https://93.184.215.14/mcp", "", "100.64.0.1:443", false},
		{"https://93.184.215.14/mcp", "", "[fd00::1]:443", false},
		{"https://93.184.215.14/mcp", "", "[::ffff:10.0.0.1]:443", false},
		{"https://93.184.215.14/mcp", "", "[64:ff9b::a00:1]:443", false},
		{"https://93.184.215.14/mcp", "", "[2002:a00:1::]:443", false},
		{"https://93.184.215.14/mcp", "https://10.1.2.3", "10.1.2.3:443", true}, // the configuration says so
		{"https://10.0.0.1/mcp", "", "10.1.2.3:443", true},
		{"https://10.0.0.1/mcp", "", "127.0.0.1:443", false},
		{"https://10.0.0.1/mcp", "", "169.254.169.254:443", false},
		{"http://localhost:8080/mcp", "", "127.0.0.1:443", true},
		{"http://localhost:8080/mcp", "", "192.168.0.1:443", true},
		{"http://localhost:8080/mcp", "", "169.254.169.254:443", false},
		{"http://localhost:8080/mcp", "", "[fe80::1]:443", false},
		{"http://localhost:8080/mcp", "", "0.0.0.0:443", false},
	} {
		u, err := url.Parse(tc.server)
		if err != nil {
			t.Fatal(err)
		}
		f := New(Options{Server: u, Issuer: tc.issuer})
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // nothing is dialled: an address that is refused is refused before
		if got := f.allows(ctx, hostOf(tc.target), netip.MustParseAddrPort(tc.target).Addr()); (got == nil) != tc.good {
			t.Errorf("from %s (issuer %q) to %s: %v", tc.server, tc.issuer, tc.target, got)
		}
	}
}

func hostOf(hostport string) string {
	u := url.URL{Host: hostport}
	return u.Hostname()
}

func TestAServerWithoutMetadataIsItsOwnIssuer(t *testing.T) {
	s := newSite(t)
	found, err := s.fetcher(t, "").Discover(t.Context(), Challenge{})
	if err != nil || !found.Legacy || !found.Guessed || found.Issuer != s.URL || found.Meta.TokenEndpoint != s.URL+"/token" || found.Resource != s.URL+"/mcp" {
		t.Errorf("found %+v, %v", found, err)
	}
	s.pages[metaPlace] = s.meta()
	found, err = s.fetcher(t, "").Discover(t.Context(), Challenge{})
	if err != nil || !found.Legacy || found.Guessed || found.Meta.TokenEndpoint != s.URL+"/t" {
		t.Errorf("with the issuer's metadata found %+v, %v", found, err)
	}
}

func TestTheConfiguredIssuerIsTheOnlyOne(t *testing.T) {
	s := newSite(t)
	prm := s.prm()
	prm["authorization_servers"] = []string{"https://first.example", s.URL}
	s.pages[prmPlace], s.pages[metaPlace] = prm, s.meta()
	found, err := s.fetcher(t, s.URL).Discover(t.Context(), Challenge{})
	if err != nil || found.Issuer != s.URL {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := s.fetcher(t, "https://third.example").Discover(t.Context(), Challenge{}); err == nil || !strings.Contains(err.Error(), "not protected by the configured issuer") {
		t.Errorf("another issuer: %v", err)
	}
}

func TestIssuersDifferByAnythingButTheEmptyPath(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"https://a.example", "https://a.example", true},
		{"https://a.example", "https://a.example/", true},
		{"https://a.example/t", "https://a.example/t/", false},
		{"https://a.example", "https://A.example", false},
		{"https://a.example", "https://a.example:443", false},
		{"https://a.example", "http://a.example", false},
		{"https://a.example/?x", "https://a.example", false},
		{"https://a.example/%74", "https://a.example/t", false},
	} {
		if got := SameIssuer(tc.a, tc.b); got != tc.same {
			t.Errorf("%s and %s are the same: %v", tc.a, tc.b, got)
		}
	}
}

func TestAChallengeIsReadAmongOthers(t *testing.T) {
	for _, tc := range []struct {
		lines []string
		want  Challenge
	}{
		{nil, Challenge{}},
		{[]string{"Bearer"}, Challenge{}},
		{[]string{`Bearer realm="x, y", error="invalid_token", scope="a  b", resource_metadata="https://x.example/p"`},
			Challenge{"https://x.example/p", []string{"a", "b"}, "invalid_token"}},
		{[]string{"Negotiate", `Basic realm="x"`, `bearer scope=one`}, Challenge{Scopes: []string{"one"}}},
		{[]string{"Negotiate YII==", `Bearer scope="a"`}, Challenge{Scopes: []string{"a"}}},
		{[]string{`Bearer scope="unterminated`}, Challenge{}},
		{[]string{`Basic realm="x", resource_metadata="https://evil.example"`}, Challenge{}},
	} {
		h := http.Header{}
		for _, l := range tc.lines {
			h.Add("WWW-Authenticate", l)
		}
		got := ParseChallenge(h)
		if got.ResourceMetadata != tc.want.ResourceMetadata || got.Error != tc.want.Error || !slices.Equal(got.Scopes, tc.want.Scopes) {
			t.Errorf("%q became %+v", tc.lines, got)
		}
	}
}

func TestWhatWasPostedFollowsNoRedirect(t *testing.T) {
	s := newSite(t)
	s.pages["/t"] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+"/elsewhere", http.StatusTemporaryRedirect)
	}
	_, _, err := s.fetcher(t, "").Do(t.Context(), http.MethodPost, s.URL+"/t", http.Header{}, strings.NewReader("secret"))
	if err == nil || slices.Contains(s.seen, "/elsewhere") {
		t.Errorf("the form went on to %q (%v)", s.seen, err)
	}
}

func FuzzParseChallenge(f *testing.F) {
	for _, s := range []string{`Bearer a="b"`, `Bearer`, `Bearer a=b,c="d\"e", Basic x`, `,,`, `Bearer a=`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := ParseChallenge(http.Header{"Www-Authenticate": {s}})
		if c.ResourceMetadata != "" {
			_ = CheckURL(c.ResourceMetadata)
		}
	})
}
