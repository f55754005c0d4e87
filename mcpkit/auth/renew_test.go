package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/authtest"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestAnExpiredTokenIsRenewedOnceForAllThatWait(t *testing.T) {
	r := newRig(t)
	r.login(r.client())
	one := r.age()
	r.opts.Store = r.open(nil) // as another process has it
	two := r.client()
	var wg sync.WaitGroup
	for i := range 20 {
		c := []*auth.Client{one, two}[i%2]
		wg.Go(func() {
			if status, err := r.get(c, "read"); err != nil || status != 200 {
				t.Errorf("a request ended with %d, %v", status, err)
			}
		})
	}
	wg.Wait()
	if n := len(r.as.Requests("/token")); n != 2 {
		t.Errorf("there were %d token requests, not one for the login and one for all", n)
	}
}

func TestATokenThatIsAboutToExpireIsRenewedBefore(t *testing.T) {
	r := newRig(t)
	r.login(r.client())
	rec := r.record()
	old := rec.Access
	rec.Obtained, rec.Expiry = time.Now().Add(-time.Hour), time.Now().Add(tokens.Skew/2)
	if err := r.store.Put(rec); err != nil {
		t.Fatal(err)
	}
	r.want(r.client(), "read", 200)
	if slices.Contains(r.srv.Tokens(), old) {
		t.Error("the old token was used half a minute before its end")
	}
	r.as.Set(func(b *authtest.Behaviour) { b.TokenStatus = 503 })
	rec = r.record()
	rec.Obtained, rec.Expiry = time.Now().Add(-time.Hour), time.Now().Add(tokens.Skew/2)
	if err := r.store.Put(rec); err != nil {
		t.Fatal(err)
	}
	r.want(r.client(), "read", 200) // while nothing can be renewed, the old one is good yet
}

func TestARotatedRefreshTokenIsOnDiskBeforeItsAccessTokenIsUsed(t *testing.T) {
	r := newRig(t)
	r.login(r.client())
	c := r.age()
	away := r.dir + ".away"
	r.as.Set(func(b *authtest.Behaviour) {
		b.BeforeToken = func() { // between reading the record and storing the new one
			if err := os.Rename(r.dir, away); err != nil {
				t.Error(err)
			}
		}
	})
	_, err := r.get(c, "read")
	if f, ok := errors.AsType[*fault.Error](err); !ok || !f.Retryable {
		t.Fatalf("the error is %v, not one that may pass", err)
	}
	if _, refresh := r.as.Live(); refresh != 1 {
		t.Fatalf("there are %d refresh tokens", refresh)
	}
	shown := len(r.srv.Tokens())
	if _, err := r.get(c, "read"); err == nil {
		t.Error("a token was used that is not on disk")
	}
	if len(r.srv.Tokens()) != shown {
		t.Error("the server was shown a token that is not on disk")
	}
	r.as.Set(func(b *authtest.Behaviour) { b.BeforeToken = nil })
	if err := os.Rename(away, r.dir); err != nil {
		t.Fatal(err)
	}
	r.want(c, "read", 200)
	if n := len(r.as.Requests("/token")); n != 2 {
		t.Errorf("there were %d token requests: what was issued was forgotten", n)
	}
	r.want(r.age(), "read", 200) // the rotated token is the one on disk
}

func TestAnEndedGrantNeedsAPersonAndAnOutageDoesNot(t *testing.T) {
	r := newRig(t)
	r.login(r.client())
	before := r.record()
	for _, status := range []int{500, 503, 429} {
		r.as.Set(func(b *authtest.Behaviour) { b.TokenStatus = status })
		_, err := r.get(r.age(), "read")
		if f, ok := errors.AsType[*fault.Error](err); !ok || !f.Retryable {
			t.Errorf("after %d the error is %v", status, err)
		}
		if r.record().Refresh != before.Refresh {
			t.Fatalf("after %d the refresh token is gone", status)
		}
	}
	r.as.Set(func(b *authtest.Behaviour) { b.TokenStatus = 0 })
	r.as.Revoke(true)
	c := r.age()
	_, err := r.get(c, "read")
	if n := r.needs(err, "invalid_grant"); !n.Login {
		t.Error("it is not said that logging in helps")
	}
	rec := r.record()
	if rec.Access != "" || rec.Refresh != "" || rec.Client.ID == "" {
		t.Error("the tokens are still there, or the client is not")
	}
	n := len(r.as.Requests("/token"))
	_, err = r.get(c, "read")
	r.needs(err, "invalid_grant") // why is not forgotten
	if len(r.as.Requests("/token")) != n {
		t.Error("the dead grant was tried again")
	}
	r.login(c)
	r.want(c, "read", 200)
}

func TestATokenThatTheServerRefusesIsRenewedOnce(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.login(c)
	r.as.Revoke(false)
	r.want(c, "read", 200)
	n := len(r.as.Requests("/token"))
	r.srv.Set(func(g *authtest.Guard) { g.Always401 = true })
	_, err := r.get(c, "read")
	r.needs(err, "does not accept the token")
	if got := len(r.as.Requests("/token")) - n; got > 1 {
		t.Errorf("the token was renewed %d times", got)
	}
	if s, _ := c.Status(); s.State != "needs_auth" {
		t.Errorf("the state is %s", s.State)
	}
}

func TestWaitEndsWhenAnotherProcessHasLoggedIn(t *testing.T) {
	r := newRig(t)
	c := r.client()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Wait(ctx) }()
	r.opts.Store = r.open(nil)
	other := r.client()
	r.login(other)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.want(c, "read", 200)
	if _, err := other.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithCancel(ctx)
	go func() { done <- c.Wait(short) }()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait returned %v", err)
	}
}

func TestLogoutRevokesAndForgets(t *testing.T) {
	r := newRig(t)
	c := r.client()
	r.login(c)
	n, err := c.Logout(t.Context())
	if err != nil || n != 2 {
		t.Errorf("%d tokens were revoked, %v", n, err)
	}
	if access, refresh := r.as.Live(); access != 0 || refresh != 0 {
		t.Errorf("%d access and %d refresh tokens are still good", access, refresh)
	}
	if all, err := r.store.Find("im.guarded"); len(all) != 0 || err != nil {
		t.Errorf("%d records are left, %v", len(all), err)
	}
	_, err = r.get(c, "read")
	r.needs(err, "nobody has logged in")
	if n, err := c.Logout(t.Context()); n != 0 || err != nil {
		t.Errorf("logging out twice: %d, %v", n, err)
	}
	r.login(c)
	r.as.Set(func(b *authtest.Behaviour) { b.Metadata = map[string]any{"revocation_endpoint": nil} })
	r.login(c)
	if n, err := c.Logout(t.Context()); n != 0 || err != nil {
		t.Errorf("without a revocation endpoint: %d, %v", n, err)
	}
}

func TestAServerThatWantsMoreScopeIsAskedForOnce(t *testing.T) {
	r := newRig(t)
	r.srv.Set(func(g *authtest.Guard) { g.Challenge, g.Need = "read", []string{"write"} })
	c := r.client()
	r.login(c)
	r.want(c, "read", 200)
	_, err := r.get(c, "write")
	if n := r.needs(err, "needs the scope write"); !n.Login || !slices.Equal(n.Scopes, []string{"write"}) {
		t.Errorf("what is needed is %+v", n)
	}
	r.want(c, "read", 200) // the rest goes on
	if s, _ := c.Status(); s.State != "ready" || !slices.Equal(s.Wanted, []string{"write"}) {
		t.Errorf("the status is %+v", s)
	}
	r.login(c)
	asked := r.as.Requests("/authorize")
	if got := asked[len(asked)-1].Form.Get("scope"); got != "read write" {
		t.Errorf("the login asked for %q, not for what is granted and what is wanted", got)
	}
	r.want(c, "write", 200)
}

func TestAStepUpThatNeverSucceedsEnds(t *testing.T) {
	for _, granted := range [][]string{nil, {"read"}} {
		r := newRig(t)
		r.srv.Set(func(g *authtest.Guard) { g.Challenge, g.Need = "read", []string{"write"} })
		r.opts.Browse = browse
		c := r.client()
		r.want(c, "read", 200)
		r.as.Set(func(b *authtest.Behaviour) { b.Grant = granted })
		if granted == nil { // it says that it grants, and the server never agrees
			r.srv.Set(func(g *authtest.Guard) { g.Need = []string{"write", "moon"} })
			r.as.Set(func(b *authtest.Behaviour) {
				b.Grant, b.Answer = []string{"read"}, map[string]any{"scope": "read write moon"}
			})
		}
		before := len(r.as.Requests("/authorize"))
		_, err := r.get(c, "write")
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != fault.Denied {
			t.Errorf("the error is %v", err)
		}
		_, err = r.get(c, "write")
		if err == nil {
			t.Error("the second try succeeded")
		}
		if n := len(r.as.Requests("/authorize")) - before; n != 1 {
			t.Errorf("the person was asked %d times", n)
		}
	}
}

func browse(_ context.Context, address string) (url.Values, error) {
	u, err := authtest.Redirect(address)
	if err != nil {
		return nil, err
	}
	return u.Query(), nil
}

func TestAMachineAuthorizesItself(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for method, config := range map[string]auth.Config{
		"client_secret_basic": {ClientSecret: "machine secret+&"},
		"client_secret_post":  {ClientSecret: "machine secret+&"},
		"private_key_jwt":     {Key: key},
	} {
		t.Run(method, func(t *testing.T) {
			r := newRig(t)
			r.as.Set(func(b *authtest.Behaviour) { b.Methods = []string{method} })
			r.as.Register("machine", authtest.Client{Secret: config.ClientSecret, Key: &key.PublicKey})
			r.srv.Set(func(g *authtest.Guard) { g.Challenge, g.Need = "read", []string{"write"} })
			r.cfg.Type, r.cfg.ClientID, r.cfg.ClientSecret, r.cfg.Key = auth.ClientCredentials, "machine", config.ClientSecret, config.Key
			c := r.client()
			r.want(c, "read", 200)
			r.want(c, "write", 200) // stepped up by itself
			if got := r.record().Scopes; !slices.Equal(got, []string{"read", "write"}) {
				t.Errorf("the scopes are %q", got)
			}
			if r.record().Client.Secret != "" {
				t.Error("the configured secret was copied into the store")
			}
			r.want(r.age(), "read", 200)
			r.as.Revoke(true)
			r.want(r.client(), "read", 200)
			if n := len(r.as.Requests("/token")); n != 4 {
				t.Errorf("there were %d token requests", n)
			}
			r.as.Set(func(b *authtest.Behaviour) { b.TokenError = "invalid_client" })
			_, err := r.get(r.age(), "read")
			r.needs(err, "invalid_client")
		})
	}
}

func TestAWorkloadIsVouchedForByWhatItsSurroundingsSay(t *testing.T) {
	r := newRig(t)
	said := "first-assertion-0815"
	r.as.Register("workload", authtest.Client{Assertion: said})
	r.cfg.Type, r.cfg.ClientID = auth.ClientCredentials, "workload"
	r.cfg.Assertion = func() (string, error) { return said, nil }
	r.want(r.client(), "read", 200)
	said = "second-assertion-4711" // they are replaced every hour or so
	r.as.Register("workload", authtest.Client{Assertion: said})
	r.want(r.age(), "read", 200)
	said = "one-that-is-not-good"
	_, err := r.get(r.age(), "read")
	r.needs(err, "invalid_grant")
	if strings.Contains(err.Error(), said) {
		t.Errorf("the error quotes the assertion: %v", err)
	}
	r.cfg.Assertion = func() (string, error) { return "", errors.New("no such file") }
	_, err = r.get(r.age(), "read")
	if f, ok := errors.AsType[*fault.Error](err); !ok || !f.Retryable {
		t.Errorf("without an assertion: %v", err)
	}
}

func TestAConfiguredSecretIsNotShownToAnotherIssuer(t *testing.T) {
	r := newRig(t)
	evil := authtest.NewIssuer(t)
	r.as.Set(func(b *authtest.Behaviour) { b.Methods = []string{"client_secret_post"} })
	r.as.Register("machine", authtest.Client{Secret: "machine-secret"})
	r.cfg.Type, r.cfg.ClientID, r.cfg.ClientSecret = auth.ClientCredentials, "machine", "machine-secret"
	r.want(r.client(), "read", 200)
	r.as.Revoke(true)
	r.srv.Set(func(g *authtest.Guard) { g.Issuers = []string{evil.URL} })
	_, err := r.get(r.client(), "read")
	r.needs(err, "has moved from the issuer")
	r.cfg.Issuer = r.as.URL
	_, err = r.get(r.client(), "read")
	if err == nil || !strings.Contains(err.Error(), "not protected by the configured issuer") {
		t.Errorf("the error is %v", err)
	}
	if n := len(evil.Requests("/token")); n != 0 {
		t.Errorf("the other issuer got %d token requests", n)
	}
}

func TestAServerThatMovesToAnotherIssuerIsLoggedInAnew(t *testing.T) {
	r := newRig(t)
	r.opts.Browse = browse
	c := r.client()
	r.want(c, "read", 200)
	old := r.record()
	next := authtest.NewIssuer(t)
	r.as.Revoke(true)
	r.srv.Set(func(g *authtest.Guard) { g.Issuers = []string{next.URL} })
	if _, err := r.get(c, "read"); err == nil { // next's tokens are not the server's, but that is not the point
		t.Fatal("the request succeeded")
	}
	if r.record().Key.Issuer != next.URL {
		t.Fatalf("the newest tokens are of %s", r.record().Key.Issuer)
	}
	for _, path := range []string{"/authorize", "/token", "/register", "/revoke"} {
		for _, req := range next.Requests(path) {
			for _, v := range []string{old.Client.ID, old.Access, old.Refresh} {
				if strings.Contains(req.Form.Encode()+req.Auth, v) {
					t.Errorf("the new issuer was shown what the old one had issued, at %s", path)
				}
			}
		}
	}
}

func TestWhatAJWTSaysOfItselfIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name, words string
		behave      func(*authtest.Behaviour)
		audience    []string
	}{
		{name: "right", behave: func(b *authtest.Behaviour) {}},
		{name: "one of several audiences", behave: func(b *authtest.Behaviour) { b.Audience = []string{"other", "RESOURCE"} }},
		{name: "another audience", words: "is for https://other.example", behave: func(b *authtest.Behaviour) { b.Audience = "https://other.example" }},
		{name: "another audience that is configured", audience: []string{"api://x"}, behave: func(b *authtest.Behaviour) { b.Audience = "api://x" }},
		{name: "another issuer", words: "was issued by https://evil.example", behave: func(b *authtest.Behaviour) { b.TokenIssuer = "https://evil.example" }},
		{name: "expired", words: "expired already", behave: func(b *authtest.Behaviour) { b.TTL = -time.Hour }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.as.Set(func(b *authtest.Behaviour) {
				b.JWT = true
				tc.behave(b)
				if list, ok := b.Audience.([]string); ok {
					b.Audience = []string{list[0], r.srv.URL}
				}
			})
			r.cfg.Audience = tc.audience
			c := r.client()
			l := r.begin(c)
			err := l.Finish(t.Context(), authtest.Browse(t, l.URL))
			if tc.words == "" && err != nil || tc.words != "" && (err == nil || !strings.Contains(err.Error(), tc.words)) {
				t.Fatalf("the login ended with %v", err)
			}
			if all, _ := r.store.Find("im.guarded"); tc.words != "" && len(all) != 0 {
				t.Error("the token was stored")
			}
		})
	}
}

func TestAnswersOfATokenEndpointThatCannotBeUsedAreErrors(t *testing.T) {
	for name, answer := range map[string]map[string]any{
		"no token":          {"access_token": nil},
		"a token in pieces": {"access_token": "two words"},
		"a header in it":    {"access_token": "a\r\nX: y"},
		"another type":      {"token_type": "DPoP"},
		"no type":           {"token_type": nil},
	} {
		r := newRig(t)
		r.as.Set(func(b *authtest.Behaviour) { b.Answer = answer })
		l := r.begin(r.client())
		if err := l.Finish(t.Context(), authtest.Browse(t, l.URL)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	r := newRig(t)
	r.as.Set(func(b *authtest.Behaviour) {
		b.Answer = map[string]any{"token_type": "bearer", "expires_in": "1800", "scope": nil}
	})
	r.srv.Set(func(g *authtest.Guard) { g.Challenge = "read" })
	r.login(r.client())
	rec := r.record()
	if d := time.Until(rec.Expiry); d < 25*time.Minute || d > 31*time.Minute || !slices.Equal(rec.Scopes, []string{"read"}) {
		t.Errorf("an answer in other clothes became %v, %q", d, rec.Scopes)
	}
}

func TestKeysOfTheUsualKindsAreRead(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		t.Error(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := x509.MarshalECPrivateKey(small)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "damaged": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]}),
		"a curve that is too small": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: weak}),
	} {
		if _, err := auth.ParseKey(data); err == nil {
			t.Errorf("%s is taken for a key", name)
		}
	}
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	store, err := tokens.Open(filepath.Join(t.TempDir(), "auth"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]auth.Config{
		"no name":                   {URL: "https://x.example"},
		"plain http":                {Server: "x", URL: "http://x.example/mcp"},
		"another scheme":            {Server: "x", URL: "ftp://x.example/mcp"},
		"an unknown type":           {Server: "x", URL: "https://x.example", Type: "magic"},
		"no token":                  {Server: "x", URL: "https://x.example", Type: auth.Bearer},
		"a machine without secret":  {Server: "x", URL: "https://x.example", Type: auth.ClientCredentials, ClientID: "x"},
		"a secret without a client": {Server: "x", URL: "https://x.example", ClientSecret: "s"},
		"an issuer without https":   {Server: "x", URL: "https://x.example", Issuer: "http://x.example"},
	} {
		if _, err := auth.New(cfg, auth.Options{Store: store}); err == nil {
			t.Errorf("%s: there was no error", name)
		}
	}
	for _, u := range []string{"https://x.example/mcp", "http://localhost:1/mcp", "http://[::1]:1/mcp", "https://me:pw@x.example/mcp"} {
		if _, err := auth.New(auth.Config{Server: "x", URL: u}, auth.Options{Store: store}); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	if _, err := auth.New(auth.Config{Server: "x", URL: "https://x.example"}, auth.Options{}); err == nil {
		t.Error("OAuth without a store")
	}
}
