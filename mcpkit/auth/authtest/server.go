package authtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Guard is how the server guards itself. The zero value publishes its metadata
// at the path's well-known place, names that place in its challenge, and lets
// every token of its issuer in.
type Guard struct {
	Resource     string   // instead of its URL
	MetadataPath string   // instead of the well-known place; "none" for nowhere
	NoHint       bool     // the challenge does not say where the metadata is
	Issuers      []string // instead of its issuer's URL
	Scopes       []string // scopes_supported
	Challenge    string   // scope of the challenge
	Need         []string // scopes that calls of the tool "write" need
	Always401    bool
}

// Server is an MCP server with the tools "read" and "write" at URL, by Streamable
// HTTP. Without a token of its issuer it answers 401.
type Server struct {
	URL string
	as  *Issuer

	mu   sync.Mutex
	g    Guard
	seen []string
}

// NewServer starts an MCP server that as protects.
func NewServer(t testing.TB, as *Issuer) *Server {
	t.Helper()
	s := &Server{as: as}
	m := mcp.NewServer(&mcp.Implementation{Name: "guarded", Version: "1"}, nil)
	for _, name := range []string{"read", "write"} {
		mcp.AddTool(m, &mcp.Tool{Name: name, Description: name + " something"},
			func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "did " + name}}}, nil, nil
			})
	}
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, inner) }))
	t.Cleanup(func() {
		for session := range m.Sessions() {
			session.Close()
		}
		h.CloseClientConnections()
		h.Close()
	})
	s.URL = h.URL + "/mcp"
	return s
}

// Set changes how it guards itself from now on.
func (s *Server) Set(change func(*Guard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.g)
}

// Tokens are the bearer tokens that it was shown, in order.
func (s *Server) Tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, inner http.Handler) {
	s.mu.Lock()
	g := s.g
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		s.seen = append(s.seen, token)
	}
	s.mu.Unlock()
	origin := strings.TrimSuffix(s.URL, "/mcp")
	place := g.MetadataPath
	if place == "" {
		place = "/.well-known/oauth-protected-resource/mcp"
	}
	resource := g.Resource
	if resource == "" {
		resource = s.URL
	}
	if r.URL.Path == place {
		issuers := g.Issuers
		if issuers == nil {
			issuers = []string{s.as.URL}
		}
		auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
			Resource: resource, AuthorizationServers: issuers, ScopesSupported: g.Scopes,
		}).ServeHTTP(w, r)
		return
	}
	if r.URL.Path != "/mcp" {
		http.NotFound(w, r)
		return
	}
	var params []string
	if !g.NoHint && place != "none" {
		params = append(params, fmt.Sprintf("resource_metadata=%q", origin+place))
	}
	hint := params
	if g.Challenge != "" {
		params = append(params, fmt.Sprintf("scope=%q", g.Challenge))
	}
	if g.Always401 {
		challenge(w, http.StatusUnauthorized, params)
		return
	}
	guarded := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		grant := s.as.verify(token, resource)
		if grant == nil {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Scopes: grant.scopes, Expiration: grant.expires, UserID: grant.client}, nil
	}, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(g.Need) > 0 && r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			info := auth.TokenInfoFromContext(r.Context())
			if strings.Contains(string(body), `"write"`) && !all(info.Scopes, g.Need) {
				challenge(w, http.StatusForbidden, append(hint, `error="insufficient_scope"`, fmt.Sprintf("scope=%q", strings.Join(g.Need, " "))))
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	// The middleware writes its own challenge; ours says more.
	guarded.ServeHTTP(&challenger{ResponseWriter: w, params: params}, r)
}

func all(have, need []string) bool {
	for _, n := range need {
		found := false
		for _, h := range have {
			found = found || h == n
		}
		if !found {
			return false
		}
	}
	return true
}

func challenge(w http.ResponseWriter, status int, params []string) {
	w.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(params, ", ")))
	http.Error(w, http.StatusText(status), status)
}

// challenger adds the challenge to answers of 401.
type challenger struct {
	http.ResponseWriter
	params []string
}

func (c *challenger) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		c.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(c.params, ", ")))
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *challenger) Unwrap() http.ResponseWriter { return c.ResponseWriter }
func (c *challenger) Flush() {
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Browse is a person at a browser who opens address and agrees: it returns the
// query of the redirect without following it.
func Browse(t testing.TB, address string) url.Values {
	t.Helper()
	back, err := Redirect(address)
	if err != nil {
		t.Fatal(err)
	}
	return back.Query()
}

// Redirect opens address and returns where the browser is sent.
func Redirect(address string) (*url.URL, error) {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	res, err := c.Get(address)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		return nil, fmt.Errorf("no redirect: %s: %s", res.Status, body)
	}
	return back, nil
}
