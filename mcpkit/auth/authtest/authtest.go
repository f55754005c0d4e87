// Package authtest is a small authorization server and an MCP server that it
// protects, for tests: discovery, dynamic registration, client metadata
// documents, PKCE, rotation of refresh tokens, revocation, client credentials and
// JWT access tokens, and every way of getting these wrong that a client must
// notice.
//
//	as := authtest.NewIssuer(t)
//	mcp := authtest.NewServer(t, as)
//	as.Set(func(b *authtest.Behaviour) { b.Iss = "https://other.example" })
//	answer := authtest.Browse(t, login.URL) // what a person does, by HTTP
//
// It checks what it is sent as strictly as the specifications allow, and a person
// always agrees. Both listen on loopback and end with the test.
package authtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Behaviour is how the issuer behaves. The zero value is correct, with dynamic
// registration, rotation, revocation and opaque tokens that live an hour.
type Behaviour struct {
	MetadataPath   string         // where metadata is, instead of the RFC 8414 place; "none" for nowhere
	Metadata       map[string]any // members to set in the metadata; nil removes one
	Iss            string         // iss of the redirect; "none" for none, empty for the right one
	State          string         // state of the redirect, instead of the right one
	Deny           string         // error of the redirect, instead of a code
	NoRegistration bool
	Methods        []string      // token_endpoint_auth_methods_supported; default none
	Secret         bool          // registered clients get a secret
	TTL            time.Duration // of access tokens; 0 is an hour
	NoRefresh      bool
	NoRotation     bool
	JWT            bool // access tokens are JWTs of type at+jwt
	Audience       any  // aud of them, instead of the resource
	TokenIssuer    string
	Grant          []string       // scopes to grant, whatever is asked
	TokenError     string         // error of every token request
	TokenStatus    int            // its status
	Answer         map[string]any // members to set in token answers; nil removes one
	BeforeToken    func()         // called at the beginning of each token request
}

// Client is a client that the issuer knows.
type Client struct {
	Secret    string
	Redirects []string
	Key       *ecdsa.PublicKey
	Assertion string         // that vouches for it
	Metadata  map[string]any // of its registration
}

type grant struct {
	client, challenge, redirect, resource string
	scopes                                []string
	expires                               time.Time
	dead                                  bool
}

// Issuer is an authorization server.
type Issuer struct {
	URL string // and issuer identifier, unless Metadata says otherwise
	t   testing.TB
	key *ecdsa.PrivateKey

	mu       sync.Mutex
	b        Behaviour
	clients  map[string]*Client
	codes    map[string]*grant
	access   map[string]*grant
	refresh  map[string]*grant
	requests []Request
	issued   []string
}

// Request is one that the issuer got.
type Request struct {
	Path string
	Form url.Values
	Auth string // the header Authorization
}

// NewIssuer starts an authorization server.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	as := &Issuer{t: t, key: key, clients: map[string]*Client{}, codes: map[string]*grant{}, access: map[string]*grant{}, refresh: map[string]*grant{}}
	srv := httptest.NewServer(as)
	t.Cleanup(srv.Close)
	as.URL = srv.URL
	return as
}

// Set changes how it behaves from now on.
func (as *Issuer) Set(change func(*Behaviour)) {
	as.mu.Lock()
	defer as.mu.Unlock()
	change(&as.b)
}

// Register makes a client known.
func (as *Issuer) Register(id string, c Client) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.clients[id] = &c
}

// Clients are the clients it knows, by id.
func (as *Issuer) Clients() map[string]Client {
	as.mu.Lock()
	defer as.mu.Unlock()
	out := map[string]Client{}
	for id, c := range as.clients {
		out[id] = *c
	}
	return out
}

// Requests are those it got for a path, in order.
func (as *Issuer) Requests(path string) []Request {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(as.requests), func(r Request) bool { return r.Path != path })
}

// Secrets is everything confidential that it has issued: codes, tokens, client
// secrets.
func (as *Issuer) Secrets() []string {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.Clone(as.issued)
}

// Revoke ends all access tokens, and with all also what could renew them.
func (as *Issuer) Revoke(all bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, g := range as.access {
		g.dead = true
	}
	if all {
		clear(as.refresh)
	}
}

// Live counts the tokens that are good: access and refresh.
func (as *Issuer) Live() (access, refresh int) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, g := range as.access {
		if !g.dead && time.Now().Before(g.expires) {
			access++
		}
	}
	return access, len(as.refresh)
}

func (as *Issuer) secret(kind string) string {
	s := kind + "-" + rand.Text()
	as.issued = append(as.issued, s)
	return s
}

func (as *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	as.mu.Lock()
	as.requests = append(as.requests, Request{r.URL.Path, r.Form, r.Header.Get("Authorization")})
	before := as.b.BeforeToken
	as.mu.Unlock()
	if before != nil && r.URL.Path == "/token" {
		before()
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	place := as.b.MetadataPath
	if place == "" {
		place = "/.well-known/oauth-authorization-server"
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Path == place:
		answer(w, http.StatusOK, as.metadata())
	case r.Method == http.MethodPost && r.URL.Path == "/register" && !as.b.NoRegistration:
		as.register(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/authorize":
		as.authorize(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/token":
		as.token(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/revoke":
		as.revoke(w, r)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, code, description string) {
	answer(w, status, map[string]string{"error": code, "error_description": description})
}

func (as *Issuer) methods() []string {
	if as.b.Methods != nil {
		return as.b.Methods
	}
	return []string{"none"}
}

func (as *Issuer) metadata() map[string]any {
	m := map[string]any{
		"issuer": as.URL, "authorization_endpoint": as.URL + "/authorize", "token_endpoint": as.URL + "/token",
		"registration_endpoint": as.URL + "/register", "revocation_endpoint": as.URL + "/revoke",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", "client_credentials"},
		"token_endpoint_auth_methods_supported":          as.methods(),
		"authorization_response_iss_parameter_supported": true,
	}
	if as.b.NoRegistration {
		delete(m, "registration_endpoint")
	}
	override(m, as.b.Metadata)
	return m
}

func override(m, with map[string]any) {
	for k, v := range with {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
}

// register is RFC 7591.
func (as *Issuer) register(w http.ResponseWriter, r *http.Request) {
	var m map[string]any
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", err.Error())
		return
	}
	c := &Client{Metadata: m}
	for _, u := range m["redirect_uris"].([]any) {
		c.Redirects = append(c.Redirects, u.(string))
	}
	id := "client-" + rand.Text()
	m["client_id"] = id
	if as.b.Secret {
		c.Secret = as.secret("secret")
		m["client_secret"] = c.Secret
	}
	as.clients[id] = c
	answer(w, http.StatusCreated, m)
}

// authorize is the page where a person agrees; it agrees at once.
func (as *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id := q.Get("client_id")
	c := as.clients[id]
	if strings.HasPrefix(id, "https://") && c == nil { // by its metadata document, which a test serves nowhere
		c = &Client{Redirects: []string{q.Get("redirect_uri")}}
	}
	switch {
	case c == nil:
		http.Error(w, "unknown client", http.StatusBadRequest)
		return
	case len(c.Redirects) > 0 && !slices.Contains(c.Redirects, q.Get("redirect_uri")):
		http.Error(w, "unknown redirect_uri", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "":
		http.Error(w, "code with PKCE only", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {as.URL}}
	switch as.b.Iss {
	case "":
	case "none":
		back.Del("iss")
	default:
		back.Set("iss", as.b.Iss)
	}
	if as.b.State != "" {
		back.Set("state", as.b.State)
	}
	if as.b.Deny != "" {
		back.Set("error", as.b.Deny)
		back.Set("error_description", "the person said no")
	} else {
		code := as.secret("code")
		as.codes[code] = &grant{
			client: id, challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), resource: q.Get("resource"),
			scopes: strings.Fields(q.Get("scope")), expires: time.Now().Add(time.Minute),
		}
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
