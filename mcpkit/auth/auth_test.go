package auth_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/authtest"
	"github.com/aurorabot-dev/platform/mcpkit/auth/issuer"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const redirect = "http://127.0.0.1:8976/callback"

// rig is a client of a guarded server, with everything it writes.
type rig struct {
	*testing.T
	as    *authtest.Issuer
	srv   *authtest.Server
	store *tokens.Store
	dir   string
	cfg   auth.Config
	opts  auth.Options
	log   *bytes.Buffer

	mu      sync.Mutex
	told    []string // by Options.Secret
	written []string // errors
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, dir: filepath.Join(t.TempDir(), "auth"), log: &bytes.Buffer{}}
	r.as = authtest.NewIssuer(t)
	r.srv = authtest.NewServer(t, r.as)
	r.store = r.open(nil)
	r.cfg = auth.Config{Server: "im.guarded", URL: r.srv.URL}
	r.opts = auth.Options{
		Store: r.store, RedirectURI: redirect,
		Logger: slog.New(slog.NewTextHandler(locked{r}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secret: func(values ...string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, values...)
		},
	}
	return r
}

type locked struct{ r *rig }

func (l locked) Write(b []byte) (int, error) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	return l.r.log.Write(b)
}

func (r *rig) open(key []byte) *tokens.Store {
	r.Helper()
	s, err := tokens.Open(r.dir, key)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

func (r *rig) client() *auth.Client {
	r.Helper()
	c, err := auth.New(r.cfg, r.opts)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return c
}

// begin and login do what a person does.
func (r *rig) begin(c *auth.Client) *auth.Login {
	r.Helper()
	l, err := c.Begin(r.Context(), redirect, nil)
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func (r *rig) login(c *auth.Client) {
	r.Helper()
	l := r.begin(c)
	if err := l.Finish(r.Context(), authtest.Browse(r, l.URL)); err != nil {
		r.Fatal(err)
	}
}

// get makes a request as a transport does: authorized, and again after a
// challenge, thrice at most. It returns the last status, 0 where none came.
func (r *rig) get(c *auth.Client, tool string) (int, error) {
	r.Helper()
	status, err := get(r.Context(), c, r.srv.URL, tool)
	if err != nil {
		r.mu.Lock()
		r.written = append(r.written, err.Error())
		r.mu.Unlock()
	}
	return status, err
}

func get(ctx context.Context, c *auth.Client, target, tool string) (int, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` + tool + `","version":"1"}}}`
	for tries := 0; ; tries++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if err := c.Authorize(ctx, req); err != nil {
			return 0, err
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return 0, err
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if res.StatusCode != 401 && res.StatusCode != 403 || tries == 3 {
			return res.StatusCode, nil
		}
		if retry, err := c.Challenge(ctx, res); !retry {
			return res.StatusCode, err
		}
	}
}

func (r *rig) want(c *auth.Client, tool string, status int) {
	r.Helper()
	if got, err := r.get(c, tool); err != nil || got != status {
		r.Fatalf("the request ended with %d and %v, not with %d", got, err, status)
	}
}

// needs checks that only a person can help.
func (r *rig) needs(err error, words string) *auth.NeededError {
	r.Helper()
	n, ok := errors.AsType[*auth.NeededError](err)
	if !ok || !strings.Contains(err.Error(), words) {
		r.Fatalf("the error is %v, not that a person is needed because %q", err, words)
	}
	return n
}

func (r *rig) record() *tokens.Record {
	r.Helper()
	all, err := r.store.Find("im.guarded")
	if err != nil || len(all) == 0 {
		r.Fatalf("there is no record: %v", err)
	}
	return all[0]
}

// age makes the stored access token expire, and is a client that knows only that.
func (r *rig) age() *auth.Client {
	r.Helper()
	rec := r.record()
	rec.Expiry, rec.Obtained = time.Now().Add(-time.Minute), time.Now().Add(-time.Hour)
	if err := r.store.Put(rec); err != nil {
		r.Fatal(err)
	}
	return r.client()
}

func TestAPersonLogsInOnceAndRequestsCarryTheToken(t *testing.T) {
	r := newRig(t)
	c := r.client()
	_, err := r.get(c, "read")
	if n := r.needs(err, "nobody has logged in"); !n.Login {
		t.Error("it is not said that logging in helps")
	}
	if s, err := c.Status(); err != nil || s.State != "needs_auth" {
		t.Errorf("the status is %+v, %v", s, err)
	}
	r.login(c)
	r.want(c, "read", 200)
	r.want(r.client(), "read", 200) // another start of the platform
	if n := len(r.as.Requests("/token")); n != 1 {
		t.Errorf("%d token requests were made", n)
	}
	reg := r.as.Clients()
	for _, client := range reg {
		if client.Metadata["application_type"] != "native" || client.Metadata["token_endpoint_auth_method"] != "none" {
			t.Errorf("the client was registered as %v", client.Metadata)
		}
	}
	q := r.as.Requests("/authorize")[0].Form
	f := r.as.Requests("/token")[0].Form
	for _, form := range []url.Values{q, f} {
		if form.Get("resource") != r.srv.URL {
			t.Errorf("the resource is %q, not %q", form.Get("resource"), r.srv.URL)
		}
	}
	s, err := c.Status()
	if err != nil || s.State != "ready" || s.Issuer != r.as.URL || !s.Renews || s.Expires.Before(time.Now()) {
		t.Errorf("the status is %+v, %v", s, err)
	}
	r.login(c) // registered already
	if len(r.as.Clients()) != len(reg) {
		t.Error("the second login registered another client")
	}
}

func TestMetadataIsFoundWhereverTheSpecificationsPutIt(t *testing.T) {
	for _, tc := range []struct {
		name, resource, issuer string // places; the issuer's path after a space
		noHint                 bool
	}{
		{name: "in the challenge", resource: "/somewhere/else.json"},
		{name: "at the path's well-known place", noHint: true},
		{name: "at the root's", resource: "/.well-known/oauth-protected-resource", noHint: true},
		{name: "OpenID", issuer: "/.well-known/openid-configuration"},
		{name: "an issuer with a path", issuer: "/.well-known/oauth-authorization-server/tenant /tenant"},
		{name: "OpenID, inserted", issuer: "/.well-known/openid-configuration/tenant /tenant"},
		{name: "OpenID, appended", issuer: "/tenant/.well-known/openid-configuration /tenant"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			place, path, _ := strings.Cut(tc.issuer, " ")
			issuer := r.as.URL + path
			r.srv.Set(func(g *authtest.Guard) {
				g.MetadataPath, g.NoHint, g.Issuers = tc.resource, tc.noHint, []string{issuer}
			})
			r.as.Set(func(b *authtest.Behaviour) {
				b.MetadataPath, b.Metadata, b.Iss = place, map[string]any{"issuer": issuer}, issuer
			})
			c := r.client()
			r.login(c)
			r.want(c, "read", 200)
			if got := r.record().Key.Issuer; got != issuer {
				t.Errorf("the tokens are kept for the issuer %q", got)
			}
		})
	}
}

func TestARootThatStandsForItsServersIsTheResource(t *testing.T) {
	r := newRig(t)
	root := strings.TrimSuffix(r.srv.URL, "/mcp")
	r.srv.Set(func(g *authtest.Guard) { g.Resource = root })
	c := r.client()
	r.login(c)
	r.want(c, "read", 200)
	if got := r.as.Requests("/token")[0].Form.Get("resource"); got != root {
		t.Errorf("the token was asked for %q, not for what is published", got)
	}
}

func TestAMisleadingAnswerOfTheBrowserGetsNoToken(t *testing.T) {
	for _, tc := range []struct {
		name, words string
		behave      func(*authtest.Behaviour)
		answer      func(url.Values)
	}{
		{name: "another issuer", words: "iss differs", behave: func(b *authtest.Behaviour) { b.Iss = "https://evil.example" }},
		{name: "another issuer that is not announced", words: "iss differs", behave: func(b *authtest.Behaviour) {
			b.Iss, b.Metadata = "https://evil.example", map[string]any{"authorization_response_iss_parameter_supported": nil}
		}},
		{name: "an issuer that is the same only after normalizing", words: "iss differs", answer: func(q url.Values) { q.Set("iss", q.Get("iss")+"/") }},
		{name: "no issuer although announced", words: "iss is missing", behave: func(b *authtest.Behaviour) { b.Iss = "none" }},
		{name: "another state", words: "another login", behave: func(b *authtest.Behaviour) { b.State = "guessed" }},
		{name: "no state", words: "another login", answer: func(q url.Values) { q.Del("state") }},
		{name: "no code", words: "no code", answer: func(q url.Values) { q.Del("code") }},
		{name: "a refusal", words: "access_denied: the person said no", behave: func(b *authtest.Behaviour) { b.Deny = "access_denied" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			if tc.behave != nil {
				r.as.Set(tc.behave)
			}
			c := r.client()
			l := r.begin(c)
			q := authtest.Browse(t, l.URL)
			if tc.answer != nil {
				tc.answer(q)
			}
			if err := l.Finish(t.Context(), q); err == nil || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("the error is %v, without %q", err, tc.words)
			}
			if n := len(r.as.Requests("/token")); n != 0 {
				t.Errorf("the code was exchanged in %d requests", n)
			}
		})
	}
}

func TestAnIssuerThatDoesNotMarkItsAnswersIsBelieved(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(b *authtest.Behaviour) {
		b.Iss, b.Metadata = "none", map[string]any{"authorization_response_iss_parameter_supported": nil}
	})
	c := r.client()
	r.login(c)
	r.want(c, "read", 200)
}

func TestABareCodeIsGoodOnlyWhereTheIssuerMarksNoAnswers(t *testing.T) {
	r := newRig(t)
	c := r.client()
	l := r.begin(c)
	code := authtest.Browse(t, l.URL).Get("code")
	if err := l.FinishCode(t.Context(), code); err == nil || !strings.Contains(err.Error(), "whole address") {
		t.Errorf("the bare code was taken: %v", err)
	}
	r.as.Set(func(b *authtest.Behaviour) {
		b.Iss, b.Metadata = "none", map[string]any{"authorization_response_iss_parameter_supported": nil}
	})
	l = r.begin(c)
	if err := l.FinishCode(t.Context(), authtest.Browse(t, l.URL).Get("code")); err != nil {
		t.Fatal(err)
	}
	r.want(c, "read", 200)
}

func TestWhatAPersonPastesIsUnderstood(t *testing.T) {
	for in, want := range map[string]string{
		redirect + "?code=abc&state=s\n": "abc",
		"  code=abc&state=s":             "abc",
		"?code=abc&state=s#frag":         "abc",
		"abc":                            "abc",
		"4/0AbC-d_e==":                   "4/0AbC-d_e==",
		redirect + "?error=access_denied&state=s":   "",
		"http://127.0.0.1:1/callback?state=s&code=": "fault",
		"":          "fault",
		"two words": "fault",
	} {
		got, err := issuer.ParseAnswer(in)
		if (err != nil) != (want == "fault") || err == nil && got.Get("code") != want {
			t.Errorf("%q became %v, %v", in, got, err)
		}
	}
}

func TestEachKindOfClientIsUsedWhereItIsMeantToBe(t *testing.T) {
	const document = "https://platform.example/client.json"
	reads := func(b *authtest.Behaviour) {
		b.Metadata = map[string]any{"client_id_metadata_document_supported": true}
	}
	for _, tc := range []struct {
		name    string
		behave  func(*authtest.Behaviour)
		config  func(*auth.Config)
		method  string // seen at the token endpoint
		client  string // its id; empty for a registered one
		refused string
	}{
		{name: "a registered one"},
		{name: "a registered one with a secret", method: "basic", behave: func(b *authtest.Behaviour) { b.Secret, b.Methods = true, []string{"client_secret_basic"} }},
		{name: "a registered one with a secret in the form", method: "post", behave: func(b *authtest.Behaviour) { b.Secret, b.Methods = true, []string{"client_secret_post"} }},
		{name: "a document", client: document, behave: reads, config: func(c *auth.Config) { c.ClientMetadataURL = document }},
		{name: "a document that the issuer does not read", config: func(c *auth.Config) { c.ClientMetadataURL = document }},
		{name: "a configured one before all", client: "known", method: "basic",
			behave: func(b *authtest.Behaviour) {
				reads(b)
				b.Methods = []string{"client_secret_basic", "client_secret_post"}
			},
			config: func(c *auth.Config) {
				c.ClientID, c.ClientSecret, c.ClientMetadataURL = "known", "known-secret", document
			}},
		{name: "none", behave: func(b *authtest.Behaviour) { b.NoRegistration = true }, refused: "registers no clients by itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.as.Register("known", authtest.Client{Secret: "known-secret", Redirects: []string{redirect}})
			if tc.behave != nil {
				r.as.Set(tc.behave)
			}
			if tc.config != nil {
				tc.config(&r.cfg)
			}
			c := r.client()
			if tc.refused != "" {
				_, err := c.Begin(t.Context(), redirect, nil)
				r.needs(err, tc.refused)
				return
			}
			r.login(c)
			r.want(r.age(), "read", 200) // renewed as the same client
			if n := len(r.as.Requests("/token")); n != 2 {
				t.Errorf("there were %d token requests, not two", n)
			}
			for _, req := range r.as.Requests("/token") {
				method := ""
				if strings.HasPrefix(req.Auth, "Basic ") {
					method = "basic"
				} else if req.Form.Has("client_secret") {
					method = "post"
				}
				if method != tc.method {
					t.Errorf("the client authenticated by %q, not by %q", method, tc.method)
				}
			}
			id := r.record().Client.ID
			if registered := strings.HasPrefix(id, "client-"); registered != (tc.client == "") || !registered && id != tc.client {
				t.Errorf("the client is %q", id)
			}
		})
	}
}

func TestScopesComeFromTheConfigurationTheChallengeOrTheMetadata(t *testing.T) {
	for _, tc := range []struct {
		name              string
		config            []string
		challenge, offers string
		issuer            any
		want              string
	}{
		{name: "nothing", want: ""},
		{name: "metadata", offers: "a b", want: "a b"},
		{name: "challenge", offers: "a b", challenge: "c", want: "c"},
		{name: "configuration", offers: "a b", challenge: "c", config: []string{"d"}, want: "d"},
		{name: "for a refresh token", challenge: "c", issuer: []string{"c", "offline_access"}, want: "c offline_access"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Scopes = tc.config
			r.srv.Set(func(g *authtest.Guard) { g.Challenge, g.Scopes = tc.challenge, strings.Fields(tc.offers) })
			if tc.issuer != nil {
				r.as.Set(func(b *authtest.Behaviour) { b.Metadata = map[string]any{"scopes_supported": tc.issuer} })
			}
			r.login(r.client())
			q := r.as.Requests("/authorize")[0].Form
			if got := q.Get("scope"); got != tc.want || tc.want == "" && q.Has("scope") {
				t.Errorf("the scope %q was asked for, not %q", got, tc.want)
			}
		})
	}
}

func TestNothingOfALoginIsWrittenAnywhere(t *testing.T) {
	r := newRig(t)
	key := bytes.Repeat([]byte("k"), tokens.MinKey)
	r.store = r.open(key)
	r.opts.Store = r.store
	r.as.Set(func(b *authtest.Behaviour) { b.Secret, b.Methods, b.JWT = true, []string{"client_secret_post"}, true })
	c := r.client()
	r.login(c)
	r.want(r.age(), "read", 200)
	r.as.Set(func(b *authtest.Behaviour) { b.TokenError = "invalid_grant" }) // it repeats what it was sent
	_, err := r.get(r.age(), "read")
	r.needs(err, "invalid_grant")
	r.as.Set(func(b *authtest.Behaviour) { b.TokenError = "invalid_request" })
	l := r.begin(c)
	err = l.Finish(t.Context(), authtest.Browse(t, l.URL))
	if err == nil {
		t.Fatal("the login succeeded")
	}
	written := r.log.String() + strings.Join(r.written, "\n") + err.Error()
	err = filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		written += path + string(raw)
		if info, serr := os.Stat(path); serr != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	secrets := r.as.Secrets()
	if len(secrets) < 6 {
		t.Fatalf("only %d secrets were issued", len(secrets))
	}
	for _, s := range secrets {
		if strings.Contains(written, s) {
			t.Errorf("%.12s… is written somewhere", s)
		}
		if !slices.Contains(r.told, s) {
			t.Errorf("%.12s… was not announced", s)
		}
	}
	if info, err := os.Stat(r.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
}

func TestATokenGoesToItsServerAndNoOther(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.login(c)
	for _, target := range []string{"http://127.0.0.1:1/mcp", "https" + strings.TrimPrefix(r.srv.URL, "http"), r.as.URL} {
		req, err := http.NewRequest(http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Authorize(t.Context(), req); err != nil || req.Header.Get("Authorization") != "" {
			t.Errorf("%s is shown the token (%v)", target, err)
		}
		res := &http.Response{StatusCode: 401, Header: http.Header{}, Request: req}
		_, err = c.Challenge(t.Context(), res)
		r.needs(err, "another server")
	}
	other := authtest.NewServer(t, r.as) // the same issuer, another resource
	r.cfg.URL = other.URL
	c = r.client()
	_, err := get(t.Context(), c, other.URL, "read")
	r.needs(err, "nobody has logged in")
	r.cfg.Server, r.cfg.URL = "im.other", r.srv.URL // another name for the same server
	_, err = get(t.Context(), r.client(), r.srv.URL, "read")
	r.needs(err, "nobody has logged in")
	if len(other.Tokens()) != 0 {
		t.Error("the other server was shown a token")
	}
}

func TestAServerThatWantsNobodyToLogInIsLeftAlone(t *testing.T) {
	r := newRig(t)
	open := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(open.Close)
	r.cfg.URL = open.URL + "/mcp"
	_, err := r.client().Begin(t.Context(), redirect, nil)
	r.needs(err, "neither asks for a login")
}

func TestAConfiguredTokenIsSentAndItsRefusalIsForAPerson(t *testing.T) {
	r := newRig(t)
	r.cfg.Type, r.cfg.Token = auth.Bearer, "static-token"
	c := r.client()
	_, err := r.get(c, "read")
	if n := r.needs(err, "configured token"); n.Login {
		t.Error("it is said that logging in helps")
	}
	if got := r.srv.Tokens(); !slices.Equal(got, []string{"static-token"}) {
		t.Errorf("the server was shown %q", got)
	}
	if _, err := c.Begin(t.Context(), redirect, nil); err == nil {
		t.Error("a person can log in over a configured token")
	}
	if s, err := c.Status(); err != nil || s.State != "configured" {
		t.Errorf("the status is %+v, %v", s, err)
	}
}

func TestARefusalThatNoTokenChangesIsLeftAsItIs(t *testing.T) {
	r := newRig(t)
	oauth := r.client()
	r.cfg.Type = auth.None
	none := r.client()
	for _, tc := range []struct {
		c      *auth.Client
		status int
	}{{oauth, 403}, {none, 401}, {none, 403}} {
		req, err := http.NewRequest(http.MethodGet, r.srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if retry, err := tc.c.Challenge(t.Context(), &http.Response{StatusCode: tc.status, Header: http.Header{}, Request: req}); retry || err != nil {
			t.Errorf("%d: %v, %v", tc.status, retry, err)
		}
	}
}
