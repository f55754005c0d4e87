package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/internal/manifesttest"
)

func remote(auth string) string {
	return "package: a\ntype: mcp-server\nmcp:\n  url: https://example.com/mcp\n" + auth
}

func TestHowToAuthorizeFollowsFromWhatIsWritten(t *testing.T) {
	for auth, want := range map[string]string{
		"":                                    AuthOAuth,
		"  auth: {scopes: [a, 'b:c']}\n":      AuthOAuth,
		"  auth: {token: abc}\n":              AuthBearer,
		"  auth: {type: none}\n":              AuthNone,
		"  headers: {authorization: 'X y'}\n": AuthNone,
		"  auth: {type: client_credentials, client_id: a, client_secret: '${S}'}\n":                                AuthClientCredentials,
		"  auth: {type: client_credentials, client_id: a, client_key_file: k.pem, client_auth: private_key_jwt}\n": AuthClientCredentials,
		"  auth: {type: client_credentials, client_id: a, assertion_file: /run/token}\n":                           AuthClientCredentials,
		"  auth: {client_id: a, issuer: 'https://id.example', redirect_port: 8976, audience: ['api://x']}\n":       AuthOAuth,
	} {
		m := mustParse(t, "a.yaml", remote(auth), manifesttest.Env("S=secret-of-a"))
		if got := m.AuthType(); got != want {
			t.Errorf("%q is %s, not %s", auth, got, want)
		}
	}
	if got := mustParse(t, "a.yaml", "package: a\ntype: mcp-server\nmcp: {command: x}\n", nil).AuthType(); got != AuthNone {
		t.Errorf("a stdio server is authorized towards by %s", got)
	}
}

func TestWhatCannotAuthorizeIsAFault(t *testing.T) {
	for _, tc := range []struct{ auth, words string }{
		{"  auth: {type: magic}\n", "unknown type"},
		{"  auth: {typ: oauth}\n", "unknown key"},
		{"  auth: {type: bearer}\n", "the token is empty"},
		{"  auth: {type: oauth, token: abc}\n", "type oauth has no token"},
		{"  auth: {token: abc, scopes: [a]}\n", "type bearer has no scopes"},
		{"  auth: {token: abc}\n  headers: {AUTHORIZATION: x}\n", "headers has an Authorization already"},
		{"  auth: {type: client_credentials, client_secret: abc}\n", "needs a client_id"},
		{"  auth: {type: client_credentials, client_id: abc}\n", "needs a client_secret, a client_key_file or an assertion_file"},
		{"  auth: {assertion_file: x}\n", "type oauth has no assertion_file"},
		{"  auth: {client_secret: abc}\n", "needs its client_id"},
		{"  auth: {client_id: a, client_secret: abc, client_key_file: x}\n", "has a client_secret already"},
		{"  auth: {client_id: a, client_auth: tls}\n", "unknown method"},
		{"  auth: {client_id: a, client_auth: private_key_jwt}\n", "needs a client_key_file"},
		{"  auth: {issuer: example.com}\n", "not an absolute https URL"},
		{"  auth: {redirect_port: 70000}\n", "outside 0 to 65535"},
		{"  auth: {scopes: ['a b']}\n", "not a scope"},
	} {
		_, err := Parse("a.yaml", []byte(remote(tc.auth)), manifesttest.Env())
		if err == nil || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%q: the error is %v, without %q", tc.auth, err, tc.words)
		}
	}
	_, err := Parse("a.yaml", []byte("package: a\ntype: mcp-server\nmcp: {command: x, auth: {token: abc}}\n"), manifesttest.Env())
	if err == nil || !strings.Contains(err.Error(), "only an http server") {
		t.Errorf("a stdio server with auth: %v", err)
	}
}

func TestHeadersOfTheProtocolAreNobodyElses(t *testing.T) {
	for header, fine := range map[string]bool{
		"X-Api": true, "Accept": true, "Mcp-Tenant": true,
		"Mcp-Session-Id": false, "mcp-protocol-version": false, "Mcp-Method": false, "MCP-NAME": false, "Mcp-Param-Region": false,
	} {
		_, err := Parse("a.yaml", []byte(remote("  headers: {"+header+": x}\n")), manifesttest.Env())
		if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "sets this header itself") {
			t.Errorf("%s: %v", header, err)
		}
	}
}

func TestTokenAndSecretOfAuthAreSecrets(t *testing.T) {
	for _, auth := range []string{
		"  auth: {token: '${S}'}\n",
		"  auth: {type: client_credentials, client_id: a, client_secret: '${S}'}\n",
	} {
		if got := mustParse(t, "a.yaml", remote(auth), manifesttest.Env("S=secret-of-a")).SecretValues(); !slices.Equal(got, []string{"secret-of-a"}) {
			t.Errorf("%q has the secrets %q", auth, got)
		}
	}
}

func TestADisabledServerMayLackItsToken(t *testing.T) {
	mustParse(t, "a.yaml", "disabled: true\n"+remote("  auth: {type: bearer, token: '${S}'}\n"), manifesttest.Env())
}
