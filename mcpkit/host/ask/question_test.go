package ask

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
)

func TestAddressesThatDeceiveAreRefused(t *testing.T) {
	for url, want := range map[string]string{ // host, or "" where it is refused
		"https://example.com/a?b=c":                        "example.com",
		"https://EXAMPLE.com:8443/":                        "example.com",
		"https://münchen.example/":                         "xn--mnchen-3ya.example",
		"http://127.0.0.1:8080/x":                          "127.0.0.1",
		"http://localhost/":                                "localhost",
		"https://192.0.2.7/":                               "192.0.2.7",
		"http://example.com/":                              "",
		"https://example.com@evil.test/":                   "",
		"https://example.com\\@evil.test":                  "",
		"https://evil.test/\u202egpj.exe":                  "",
		"javascript:alert(1)":                              "",
		"file:///etc/passwd":                               "",
		"https://":                                         "",
		"https://exa mple.com/":                            "",
		"https://example.com/" + strings.Repeat("x", 5000): "",
	} {
		params, _ := json.Marshal(map[string]string{"mode": "url", "message": "go", "url": url})
		q, err := readQuestion("q", handshake.MethodElicit, params)
		if (err == nil) != (want != "") || err == nil && q.Host != want {
			t.Errorf("%.60s: host %q, %v", url, q.Host, err)
		}
		if warned := q.Warning != ""; err == nil && warned != (strings.Contains(url, "ü") || strings.ContainsAny(want[:1], "1l")) {
			t.Errorf("%.60s: warned %q", url, q.Warning)
		}
	}
}
