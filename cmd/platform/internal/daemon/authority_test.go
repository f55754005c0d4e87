package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/authority"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/check"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/authtest"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// guarded is a platform with a server that wants to know who comes.
type guarded struct {
	*running
	as  *authtest.Issuer
	srv *authtest.Server
	log syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	as := authtest.NewIssuer(t)
	return &guarded{as: as, srv: authtest.NewServer(t, as)}
}

func (g *guarded) manifest(auth string) string {
	return "package: far\ntype: mcp-server\nmcp:\n  url: " + g.srv.URL + "\n" + auth + quickRestarts
}

// launch runs a platform whose log, debugging and all, can be looked through.
func (g *guarded) launch(t *testing.T, manifest string) {
	t.Helper()
	r := &running{t: t, data: filepath.Join(t.TempDir(), "data"), dir: t.TempDir()}
	g.running = r
	r.write("far.yaml", manifest)
	r.policy = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(r.policy, []byte(trusting), 0o600); err != nil {
		t.Fatal(err)
	}
	o := settings.Defaults()
	o.Data, o.Manifests, o.Policy = r.data, []string{r.dir}, r.policy
	ctx, stop := context.WithCancel(context.Background())
	up := make(chan *Platform, 1)
	r.stop, r.done = stop, make(chan error, 1)
	log := slog.New(slog.NewTextHandler(&g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go func() {
		r.done <- Run(ctx, o, log, Hooks{Up: func(p *Platform, _ []error) { up <- p }})
	}()
	select {
	case r.Platform = <-up:
	case err := <-r.done:
		t.Fatalf("the platform did not come up: %v", err)
	}
	t.Cleanup(r.end)
}

// client is a verb's, in a process of its own.
func (g *guarded) client(t *testing.T) *auth.Client {
	t.Helper()
	o := settings.Defaults()
	o.Data, o.Manifests = g.data, []string{g.dir}
	logins, err := authority.OpenLogins(o, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := logins.Client("far")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (g *guarded) login(t *testing.T) {
	t.Helper()
	l, err := g.client(t).Begin(t.Context(), "http://127.0.0.1:8976/callback", nil)
	if err == nil {
		err = l.Finish(t.Context(), authtest.Browse(t, l.URL))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (g *guarded) use(t *testing.T, tool string) error {
	t.Helper()
	res, err := g.Call(t.Context(), control.CallRequest{Name: "far." + tool, Arguments: json.RawMessage(`{}`), TimeoutMS: 20_000})
	if err == nil && !strings.Contains(string(res.Result), "did "+tool) {
		t.Errorf("%s answered %s", tool, res.Result)
	}
	return err
}

// secretsStayIn looks through everything that was written, the store excepted.
func (g *guarded) secretsStayIn(t *testing.T) {
	t.Helper()
	g.end()
	written := map[string]string{"the log": g.log.String()}
	err := filepath.WalkDir(g.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(g.data, "auth")+"/") {
			return err
		}
		raw, err := os.ReadFile(path)
		written[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	secrets := g.as.Secrets()
	if len(secrets) == 0 || len(written) < 5 {
		t.Fatalf("only %d secrets and %d files were looked at", len(secrets), len(written))
	}
	for _, s := range secrets {
		for where, text := range written {
			if strings.Contains(text, s) {
				t.Errorf("%.12s… is written in %s", s, where)
			}
		}
	}
}

func TestAServerThatWantsALoginWaitsForItAndConnectsByItself(t *testing.T) {
	g := newGuarded(t)
	g.srv.Set(func(x *authtest.Guard) { x.Challenge, x.Need = "read", []string{"write"} })
	g.launch(t, g.manifest(""))
	g.phase("far", "needs_auth")
	if s := g.server("far"); !strings.Contains(s.Problem, "platform auth login far") {
		t.Errorf("the problem is %q", s.Problem)
	}
	if !strings.Contains(g.log.String(), "platform auth login far") {
		t.Error("the log does not say what to do")
	}
	if n := len(g.as.Requests("/register")); n != 0 {
		t.Errorf("%d clients were registered although nobody is there", n)
	}
	g.login(t)
	g.phase("far", "ready")
	if err := g.use(t, "read"); err != nil {
		t.Error(err)
	}

	// A tool needs more than was granted: its call says so, and the rest goes on.
	err := g.use(t, "write")
	if f := fault.From(err); f == nil || f.Code != fault.NeedsAuth || !strings.Contains(f.Message, "the scope write; run: platform auth login far") {
		t.Errorf("the call that needs more scope: %v", err)
	}
	g.phase("far", "ready")
	if err := g.use(t, "read"); err != nil {
		t.Error(err)
	}
	g.login(t)
	g.until("the call with the new scope", func() (bool, any) {
		err := g.use(t, "write")
		return err == nil, err
	})

	// An access token that is taken back is renewed without anybody noticing.
	g.as.Revoke(false)
	if err := g.use(t, "read"); err != nil {
		t.Error(err)
	}

	if _, err := g.client(t).Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.until("the logout to show", func() (bool, any) {
		err := g.use(t, "read")
		return err != nil && g.server("far").Phase == "needs_auth", err
	})
	g.login(t)
	g.phase("far", "ready")
	g.secretsStayIn(t)
}

func TestAGrantThatHasEndedSendsTheServerBackToWaiting(t *testing.T) {
	g := newGuarded(t)
	g.as.Set(func(b *authtest.Behaviour) { b.JWT = true })
	g.launch(t, g.manifest(""))
	g.phase("far", "needs_auth")
	g.login(t)
	g.phase("far", "ready")
	g.as.Revoke(true)
	if err := g.use(t, "read"); err == nil {
		t.Error("the call succeeded")
	}
	g.phase("far", "needs_auth")
	if s := g.server("far"); !strings.Contains(s.Problem, "invalid_grant") {
		t.Errorf("the problem is %q", s.Problem)
	}
	g.login(t)
	g.phase("far", "ready")
	g.secretsStayIn(t)
}

func TestAMachineNeedsNobodyAndAnotherSecretTakesEffect(t *testing.T) {
	g := newGuarded(t)
	g.as.Set(func(b *authtest.Behaviour) { b.Methods = []string{"client_secret_basic"} })
	g.as.Register("machine", authtest.Client{Secret: "machine-secret-0815"})
	config := func(secret string) string {
		return g.manifest("  auth: {type: client_credentials, client_id: machine, client_secret: " + secret + ", issuer: '" + g.as.URL + "'}\n")
	}
	g.launch(t, config("wrong-secret-4711"))
	g.phase("far", "needs_auth")
	if s := g.server("far"); !strings.Contains(s.Problem, "invalid_client") || !strings.Contains(s.Problem, "mended in the manifest") {
		t.Errorf("the problem is %q", s.Problem)
	}
	g.write("far.yaml", config("machine-secret-0815"))
	g.Reload()
	g.phase("far", "ready")
	if err := g.use(t, "write"); err != nil {
		t.Error(err)
	}
	if strings.Contains(g.log.String(), "machine-secret-0815") || strings.Contains(g.log.String(), "wrong-secret-4711") {
		t.Error("a secret is in the log")
	}
	g.secretsStayIn(t)
}

func TestAnIssuerThatIsAwayIsAnOutageAndNotForAPerson(t *testing.T) {
	g := newGuarded(t)
	g.launch(t, g.manifest("  call_timeout: 20\n"))
	g.phase("far", "needs_auth")
	g.login(t)
	g.phase("far", "ready")
	store, err := tokens.Open(filepath.Join(g.data, "auth"), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.Find("far")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	g.as.Set(func(b *authtest.Behaviour) { b.TokenStatus = 503 })
	all[0].Obtained, all[0].Expiry = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	if err := store.Put(all[0]); err != nil {
		t.Fatal(err)
	}
	g.until("a call that fails for a moment", func() (bool, any) {
		f := fault.From(g.use(t, "read"))
		return f != nil && f.Retryable && f.Code != fault.NeedsAuth, f
	})
	g.as.Set(func(b *authtest.Behaviour) { b.TokenStatus = 0 })
	g.until("the issuer's return", func() (bool, any) {
		err := g.use(t, "read")
		return err == nil, err
	})
}

func TestThePlatformsCheckUsesWhatIsStored(t *testing.T) {
	g := newGuarded(t)
	g.launch(t, g.manifest(""))
	g.phase("far", "needs_auth")
	o := settings.Defaults()
	o.Data, o.Manifests = g.data, []string{g.dir}
	check := func() check.Server {
		t.Helper()
		res, err := check.Run(t.Context(), o, true, slog.New(slog.DiscardHandler))
		if err != nil || len(res.Servers) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		return res.Servers[0]
	}
	if s := check(); !strings.Contains(s.Problem, "platform auth login far") {
		t.Errorf("before the login: %+v", s)
	}
	g.login(t)
	if s := check(); s.Problem != "" || !s.Live || len(s.Tools) != 2 {
		t.Errorf("after it: %+v", s)
	}
}
