package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/auth/authtest"
)

// person is a platform's folder, a guarded server in its manifests, and somebody
// at a terminal.
type person struct {
	*testing.T
	as        *authtest.Issuer
	srv       *authtest.Server
	data      string
	manifests string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	as := authtest.NewIssuer(t)
	p := &person{T: t, as: as, srv: authtest.NewServer(t, as), data: filepath.Join(t.TempDir(), "data"), manifests: t.TempDir()}
	p.manifest("im.guarded", "alias: guarded\n", p.srv.URL, "")
	return p
}

func (p *person) manifest(name, top, url, auth string) {
	p.Helper()
	text := fmt.Sprintf("package: %s\ntype: mcp-server\n%smcp:\n  url: %s\n%s", name, top, url, auth)
	if err := os.WriteFile(filepath.Join(p.manifests, name+".yaml"), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// terminal runs one command and lets see read what it prints, line by line, and
// type.
func (p *person) terminal(see func(line string, typed io.Writer), args ...string) (code int, out, errOut string) {
	p.Helper()
	typing, typed := io.Pipe()
	defer typed.Close()
	reader, writer := io.Pipe()
	var all, complaints bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			fmt.Fprintln(&all, lines.Text())
			if line := lines.Text(); see != nil {
				reading.Go(func() { see(line, typed) }) // whoever looks holds nothing up
			}
		}
	})
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	args = append(args, "--data", p.data, "--manifests", p.manifests)
	code = execute(ctx, args, typing, writer, &complaints)
	writer.Close()
	reading.Wait()
	return code, all.String(), complaints.String()
}

// agree is a browser on this machine: it follows the redirect.
func (p *person) agree(address string) {
	p.Helper()
	back, err := authtest.Redirect(address)
	if err != nil {
		p.Error(err)
		return
	}
	res, err := http.Get(back.String())
	if err != nil {
		p.Error(err)
		return
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 200 || !strings.Contains(string(body), "Logged in") {
		p.Errorf("the browser shows %s: %s", res.Status, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

func addressIn(line string) string {
	if line = strings.TrimSpace(line); strings.HasPrefix(line, "http") && strings.Contains(line, "/authorize?") {
		return line
	}
	return ""
}

func (p *person) login(server string) {
	p.Helper()
	code, out, errOut := p.terminal(func(line string, _ io.Writer) {
		if address := addressIn(line); address != "" {
			p.agree(address)
		}
	}, "auth", "login", server)
	if code != cli.ExitDone || !strings.Contains(out, "logged in to im.guarded") {
		p.Fatalf("the login ended with %d:\n%s%s", code, out, errOut)
	}
}

// silent checks that nothing confidential was printed.
func (p *person) silent(texts ...string) {
	p.Helper()
	for _, s := range p.as.Secrets() {
		if strings.Contains(strings.Join(texts, "\n"), s) {
			p.Errorf("%.10s… was printed", s)
		}
	}
}

func TestAPersonLogsInLooksAndLogsOut(t *testing.T) {
	p := newPerson(t)
	if code, out, errOut := p.terminal(nil, "auth", "status"); code != cli.ExitFindings || !strings.Contains(out, "needs_auth") || !strings.Contains(out, "platform auth login im.guarded") {
		t.Errorf("before: %d\n%s%s", code, out, errOut)
	}
	p.login("guarded")
	code, out, errOut := p.terminal(nil, "auth", "status", "im.guarded", "--json")
	var status struct {
		Servers []struct{ Server, State, Issuer string }
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != cli.ExitDone || len(status.Servers) != 1 || status.Servers[0].State != "ready" || status.Servers[0].Issuer != p.as.URL {
		t.Errorf("logged in: %d, %v\n%s%s", code, err, out, errOut)
	}
	code, out2, errOut2 := p.terminal(nil, "auth", "logout", "guarded")
	if code != cli.ExitDone || !strings.Contains(out2, "2 tokens revoked") {
		t.Errorf("logging out: %d\n%s%s", code, out2, errOut2)
	}
	if access, refresh := p.as.Live(); access+refresh != 0 {
		t.Error("tokens are still good")
	}
	if code, _, _ := p.terminal(nil, "auth", "status"); code != cli.ExitFindings {
		t.Errorf("logged out, status ends with %d", code)
	}
	p.silent(out, errOut, out2, errOut2)
}

func TestAServerThatIsOpenToAllNeedsNoLogin(t *testing.T) {
	p := newPerson(t)
	s := mcp.NewServer(&mcp.Implementation{Name: "open", Version: "1"}, nil)
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	defer srv.Close()
	defer srv.CloseClientConnections()
	p.manifest("im.open", "", srv.URL, "")
	t.Chdir(filepath.Dir(p.manifests))
	manifests := filepath.Base(p.manifests)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"run", "--data", p.data, "--manifests", manifests}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	defer func() { stop(); <-ended }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		code, out, errOut := p.terminal(nil, "auth", "status", "im.open")
		if code == cli.ExitDone && strings.Contains(out, "not_needed") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it ended with %d:\n%s%s", code, out, errOut)
		}
	}
	var out bytes.Buffer // with the data folder alone, from wherever
	if code := execute(t.Context(), []string{"auth", "status", "--data", p.data}, strings.NewReader(""), &out, io.Discard); code != cli.ExitFindings || !strings.Contains(out.String(), "platform auth login im.guarded") {
		t.Errorf("with one that is guarded: %d\n%s", code, &out)
	}
	client, err := control.Dial(p.data)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	servers, err := client.Servers(t.Context())
	if err != nil || len(servers) != 2 || !filepath.IsAbs(servers[0].Manifest) {
		t.Errorf("others do not find the manifest: %+v, %v", servers, err)
	}
}

func TestOverSSHAPersonPastesWhereTheBrowserEnded(t *testing.T) {
	p := newPerson(t)
	code, out, errOut := p.terminal(func(line string, typed io.Writer) {
		address := addressIn(line)
		if address == "" {
			return
		}
		back, err := authtest.Redirect(address)
		if err != nil {
			t.Error(err)
			return
		}
		other := *back
		other.RawQuery = "code=x&state=of-another-login"
		for _, text := range []string{"what is this", other.String(), back.Query().Get("code"), "", back.String()} {
			fmt.Fprintln(typed, text)
		}
	}, "auth", "login", "im.guarded")
	if code != cli.ExitDone || !strings.Contains(out, "logged in") {
		t.Fatalf("the login ended with %d:\n%s%s", code, out, errOut)
	}
	for _, words := range []string{"neither the address", "another login", "whole address"} {
		if !strings.Contains(errOut, words) {
			t.Errorf("nobody was told %q:\n%s", words, errOut)
		}
	}
	p.silent(out, errOut)
}

func TestWhoKnocksAtThePortWithoutBeingAskedEndsNoLogin(t *testing.T) {
	p := newPerson(t)
	code, out, errOut := p.terminal(func(line string, _ io.Writer) {
		address := addressIn(line)
		if address == "" {
			return
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Error(err)
			return
		}
		callback := u.Query().Get("redirect_uri")
		for target, want := range map[string]int{
			callback + "?code=evil&state=guess":      400,
			callback:                                 400,
			strings.TrimSuffix(callback, "callback"): 404,
			strings.Replace(callback, "127.0.0.1", "localhost", 1) + "?code=x&state=yy": 404, // another Host
		} {
			res, err := http.Get(target)
			if err != nil {
				t.Error(err)
				continue
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s is answered %s", target, res.Status)
			}
		}
		p.agree(address)
	}, "auth", "login", "im.guarded")
	if code != cli.ExitDone {
		t.Fatalf("the login ended with %d:\n%s%s", code, out, errOut)
	}
	if n := len(p.as.Requests("/token")); n != 1 {
		t.Errorf("there were %d token requests", n)
	}
}

func TestALoginThatCannotSucceedSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		set   func(*person)
		words string
		code  int
	}{
		"nobody comes":       {[]string{"im.guarded", "--timeout", "50ms"}, nil, "nobody has finished the login within 50ms", cli.ExitFailed},
		"another server":     {[]string{"im.gaurded"}, nil, `there is no server "im.gaurded"`, cli.ExitFailed},
		"a local server":     {[]string{"im.local"}, nil, "run by the platform itself", cli.ExitFailed},
		"a fixed token":      {[]string{"im.fixed"}, nil, "its authorization is configured (bearer)", cli.ExitFailed},
		"no server":          {nil, nil, "needs SERVER", cli.ExitUsage},
		"a port in use":      {[]string{"im.guarded", "--port", "PORT"}, nil, "address already in use", cli.ExitFailed},
		"no registration":    {[]string{"im.guarded"}, func(p *person) { p.as.Set(func(b *authtest.Behaviour) { b.NoRegistration = true }) }, "write its client_id", cli.ExitFailed},
		"the issuer is down": {[]string{"im.guarded"}, func(p *person) { p.srv.Set(func(g *authtest.Guard) { g.Issuers = []string{"http://127.0.0.1:1"} }) }, "connection refused", cli.ExitFailed},
		"the person says no": {[]string{"im.guarded"}, func(p *person) { p.as.Set(func(b *authtest.Behaviour) { b.Deny = "access_denied" }) }, "access_denied: the person said no", cli.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			p.manifest("im.fixed", "", p.srv.URL, "  auth: {token: abcdefgh}\n")
			local := "package: im.local\ntype: mcp-server\nmcp: {command: x}\n"
			if err := os.WriteFile(filepath.Join(p.manifests, "local.yaml"), []byte(local), 0o600); err != nil {
				t.Fatal(err)
			}
			if tc.set != nil {
				tc.set(p)
			}
			as, err := url.Parse(p.as.URL)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"auth", "login"}
			for _, a := range tc.args {
				args = append(args, strings.ReplaceAll(a, "PORT", as.Port()))
			}
			code, out, errOut := p.terminal(func(line string, _ io.Writer) {
				if address := addressIn(line); address != "" && name == "the person says no" {
					back, err := authtest.Redirect(address)
					if err != nil {
						t.Error(err)
						return
					}
					if res, err := http.Get(back.String()); err != nil || res.StatusCode != 400 {
						t.Errorf("the browser shows %v, %v", res, err)
					} else {
						res.Body.Close()
					}
				}
			}, args...)
			if code != tc.code || !strings.Contains(errOut, tc.words) {
				t.Errorf("it ended with %d:\n%s%s", code, out, errOut)
			}
		})
	}
}

func TestALoginForScriptsIsOneLineOfJSONAStep(t *testing.T) {
	p := newPerson(t)
	code, out, errOut := p.terminal(func(line string, _ io.Writer) {
		var step struct{ URL string }
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if step.URL != "" {
			p.agree(step.URL)
		}
	}, "auth", "login", "im.guarded", "--json", "--scope", "extra")
	var steps []string
	for line := range strings.Lines(out) {
		var step struct{ Step, State string }
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		steps = append(steps, step.Step+step.State)
	}
	if code != cli.ExitDone || strings.Join(steps, " ") != "open doneready" {
		t.Errorf("it ended with %d after %q:\n%s%s", code, steps, out, errOut)
	}
	if got := p.as.Requests("/authorize")[0].Form.Get("scope"); got != "extra" {
		t.Errorf("the scope was %q", got)
	}
	p.silent(out, errOut)
}

func TestTokensAreSealedWhereAKeyIsConfigured(t *testing.T) {
	p := newPerson(t)
	t.Chdir(t.TempDir())
	key := strings.Repeat("0123456789abcdef", 2)
	if err := os.WriteFile("auth.key", []byte(key), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("platform.yaml", []byte("auth: {key_file: auth.key}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := p.terminal(nil, "auth", "status"); code != cli.ExitFailed || !strings.Contains(errOut, "others can read it") {
		t.Errorf("an open key: %d\n%s", code, errOut)
	}
	if err := os.Chmod("auth.key", 0o600); err != nil {
		t.Fatal(err)
	}
	p.login("im.guarded")
	stored := ""
	files, err := filepath.Glob(filepath.Join(p.data, "auth", "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		stored += string(raw)
	}
	p.silent(stored)
	if err := os.WriteFile("platform.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := p.terminal(nil, "auth", "status"); code != cli.ExitFailed || !strings.Contains(errOut, "sealed") {
		t.Errorf("without the key: %d\n%s", code, errOut)
	}
	t.Setenv("AURORA_AUTH_KEY", key)
	if code, _, errOut := p.terminal(nil, "auth", "status"); code != cli.ExitDone {
		t.Errorf("with the key in the environment: %d\n%s", code, errOut)
	}
}
