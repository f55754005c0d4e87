package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/internal/cputime"
)

// fake joins the parts of a made-up token, so that scanners of repositories do
// not mistake the tests for a leak.
func fake(parts ...string) string { return strings.Join(parts, "") }

var (
	github = fake("ghp", "_", strings.Repeat("a1B2", 9))
	jwtX   = fake("eyJhbGciOiJIUzI1NiJ9", ".", "eyJzdWIiOiIxMjM0In0", ".", "c2lnbmF0dXJl")
	pem    = fake("-----BEGIN RSA ", "PRIVATE KEY-----\nMIIE\nAAAA\n-----END RSA ", "PRIVATE KEY-----")
)

func TestKnownShapesAreRemoved(t *testing.T) {
	r := New(nil)
	for _, c := range []struct{ in, want string }{
		{"id " + fake("AKIA", "IOSFODNN7EXAMPLE") + ".", "id [redacted:aws-access-key]."},
		{"use " + github + " now", "use [redacted:github-token] now"},
		{fake("github", "_pat_") + strings.Repeat("A1_b", 12), "[redacted:github-token]"},
		{fake("sk-", "ant-", "api03-") + strings.Repeat("xY9-", 10), "[redacted:anthropic-key]"},
		{fake("sk-", "proj-") + strings.Repeat("xY9_", 10), "[redacted:openai-key]"},
		{fake("sk-", strings.Repeat("aB3", 16)), "[redacted:api-key]"},
		{fake("xox", "b-", "123456789012-abcDEF"), "[redacted:slack-token]"},
		{fake("AI", "za", strings.Repeat("Sy_-9", 7)), "[redacted:google-key]"},
		{fake("sk_", "live_", strings.Repeat("4eC3", 6)), "[redacted:stripe-key]"},
		{"bot " + fake("123456789", ":AA", strings.Repeat("b1_", 11)), "bot [redacted:telegram-token]"},
		{"https://api.telegram.org/bot" + fake("123456789", ":AA", strings.Repeat("b1_", 11)) + "/getMe", "https://api.telegram.org/bot[redacted:telegram-token]/getMe"},
		{fake("SG", ".", strings.Repeat("a1", 11), ".", strings.Repeat("b", 43)), "[redacted:sendgrid-key]"},
		{fake("pa", "t", strings.Repeat("a1", 7), ".", strings.Repeat("0f", 32)), "[redacted:airtable-token]"},
		{fake("https://hooks.slack.com/", "services/T0AB/B0CD/", strings.Repeat("x", 24)), "https://hooks.slack.com/services/[redacted:webhook]"},
		{fake("https://discord.com/api/", "webhooks/123456789012345678/", strings.Repeat("x", 68)) + " ok", "https://discord.com/api/webhooks/[redacted:webhook] ok"},
		{fake("gs", "k_", strings.Repeat("a1", 26)), "[redacted:api-key]"},
		{fake("hv", "s.", strings.Repeat("a1", 47)), "[redacted:vault-token]"},
		{fake("da", "pi", strings.Repeat("0f", 16)), "[redacted:databricks-token]"},
		{fake("py", "pi-AgE", strings.Repeat("a1", 40)), "[redacted:pypi-token]"},
		{fake("AccountKey", "=", strings.Repeat("a1", 43), "==;Suffix=x"), "AccountKey=[redacted:password];Suffix=x"},
		{fake("X-Auth-Key", ": ", strings.Repeat("0f", 18)), "X-Auth-Key: [redacted:password]"},
		{"basicAuth: 'admin:admin1'", "basicAuth: '[redacted:password]'"},
		{"Set-Cookie: session=abcdefgh12345; HttpOnly", "Set-Cookie: session=[redacted:cookie]; HttpOnly"},
		{"Cookie: a=abcdefgh12345; b=c", "Cookie: a=[redacted:cookie]"},
		{"t=" + jwtX, "t=[redacted:jwt]"},
		{"Authorization: Bearer abcdef0123456789abcdef.", "Authorization: Bearer [redacted:bearer]."},
		{"Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:basic-auth]"},
		{"key:\n" + pem + "\nend", "key:\n[redacted:private-key]\nend"},
		{fake("-----BEGIN ", "PRIVATE KEY-----") + "\nMIIE cut off", "[redacted:private-key]"},
		{"postgres://me:p%40ss@db:5432/x and http://a@b/", "postgres://me:[redacted:url-password]@db:5432/x and http://a@b/"},
		{"https://:tok@host https://u:a@b:c@host", "https://:[redacted:url-password]@host https://u:[redacted:url-password]@host"},
		{"password=hunter2 user=me", "password=[redacted:password] user=me"},
		{"DB_PASSWORD=correcthorse", "DB_PASSWORD=[redacted:password]"},
		{`{"api_key": "abcdefgh", "apiKey":'x1y2z3w4'}`, `{"api_key": "[redacted:password]", "apiKey":'[redacted:password]'}`},
		{`"password" => "correct horse battery"`, `"password" => "[redacted:password]"`},
		{"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [redacted:password]"},
		{"token: a1b2c3d4e5.", "token: [redacted:password]."},
		{"?access_token=abc123def&x=1", "?access_token=[redacted:password]&x=1"},
	} {
		got, hits := r.String(c.in)
		if got != c.want || len(hits) == 0 {
			t.Errorf("%q\n became %q (%v),\n want   %q", c.in, got, hits, c.want)
		}
	}
}

func TestOrdinaryTextStaysAsItIs(t *testing.T) {
	r := New(nil)
	for _, s := range []string{
		"", "a", "=", "://", "password", "password=", "token:", "Bearer ", "eyJ", "sk-",
		"the password: please choose one", "Password: required", "a token=getToken() b", "token = tokens[0]",
		"password=${DB_PASSWORD} token=<your-token> secret=******** api_key={{key}}",
		`{"nextPageToken": "CAESBgoEMTIzNA", "progressToken": "abcdef123"}`, "next_page_token=CAESBgoEMTIzNA",
		"?$skiptoken=X%274453707402000100000017&x=1", `{"scrollToken":"DXF1ZXJ5QW5kRmV0Y2gB12","nextForwardToken":"f/3412345","cursor_token":"abc123def","uploadToken":"up1234567"}`,
		"path/to/patterns.md at 12345678:AAPL", "a dapi-style client", "Set-Cookie: and Cookie: are headers", "SG.", "hooks.slack.com/services/ takes a path",
		"risk-management-application-framework-2024", "sk-learn-pipeline-for-text-classification",
		"task-0123456789abcdef0123456789", "https://example.com/@scope/pkg:1.0@latest", "mail me@x.org: now",
		"Bearer authentication is required here", "Basic dXNlcjpwYXNz outside a header",
		"AKIA", "AKIAshort", "XAKIAIOSFODNN7EXAMPLE0", "ghp_short", "monkey=bananas123", "-----BEGIN CERTIFICATE-----\nMIIE",
		"sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"时间：2026年，密码：无", "max_token: 4096", "eyJhbGciOiJIUzI1NiJ9 is a header",
	} {
		if got, hits := r.String(s); got != s || hits != nil {
			t.Errorf("%q became %q (%v)", s, got, hits)
		}
	}
}

func TestTextFullOfBeginningsOfSecretsIsReadInTimeThatGrowsWithItsLength(t *testing.T) {
	for _, lure := range []string{"sk-", "glpat-", "xoxb-", "eyJ-", "token=", "password=", "PASSWORD=", "token:", `token="`, "token='", "://a:", "Bearer ", "-----BEGIN "} {
		const much = 1 << 19
		read := func(pieces int) time.Duration {
			text := strings.Repeat(lure, much/pieces/len(lure))
			return cputime.Of(func() {
				for range pieces {
					if _, hits := New(nil).String(text); len(hits) > 1 {
						t.Errorf("%q is taken for %v", lure, hits)
					}
				}
			})
		}
		// Half a mebibyte of each of the first seven took minutes once, as each
		// byte cost more the more text there was.
		if whole, cut := read(1), read(64); whole > 16*max(cut, 50*time.Millisecond) {
			t.Errorf("half a mebibyte of %q took %v, the same in 64 pieces %v", lure, whole, cut)
		}
	}
}

func TestALongSecretIsRemovedWhole(t *testing.T) {
	long := strings.Repeat("k3y/", 5000)
	for _, text := range []string{"password=" + long, "API_TOKEN=" + long, "secret: " + long, "client-" + jwtX[:36] + strings.Repeat("x", 3000) + jwtX[36:]} {
		out, hits := New(nil).String(text + " end")
		if hits == nil || !strings.HasSuffix(out, "] end") || len(out) > 60 {
			t.Errorf("%.40s… became %.80s", text, out)
		}
	}
}

func TestConfiguredSecretsAreRemovedInEveryFormTheyAreWritten(t *testing.T) {
	key := "line-one-0123456789\nline-two-0123456789\n"
	r := New([]string{`pa"ss w/rd+`, "longer-secret", "longer", key, "abc", ""})
	for in, want := range map[string]string{
		`x pa"ss w/rd+ y`:               "x [redacted:secret] y",
		`?p=pa%22ss+w%2Frd%2B&`:         "?p=[redacted:secret]&",
		`{"p":"pa\"ss w/rd+"}`:          `{"p":"[redacted:secret]"}`,
		"longer-secretlonger":           "[redacted:secret][redacted:secret]",
		"log: line-two-0123456789 end":  "log: [redacted:secret] end",
		"abc is too short to be a find": "abc is too short to be a find",
	} {
		if got, _ := r.String(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	r.Set([]string{"other"})
	if got, hits := r.String("longer other"); got != "longer [redacted:secret]" || hits["secret"] != 1 {
		t.Errorf("after Set got %q, %v", got, hits)
	}
	var none *Redactor
	if got, _ := none.String(github + " longer"); got != "[redacted:github-token] longer" {
		t.Errorf("nil gave %q", got)
	}
}

func TestReplacementsThatCompleteAnotherSecretLeakNothing(t *testing.T) {
	secrets := []string{"aaaa", "t]bbbb", "t][re", "x[redacted:secret]"}
	r := New(secrets)
	for _, in := range []string{"aaaabbbb", "aaaaaaaa", "aaaaaaaaaaaaaaaabbbb", "xaaaa"} {
		got, _ := r.String(in)
		for _, s := range secrets {
			if strings.Contains(got, s) {
				t.Errorf("%q became %q, which holds %q", in, got, s)
			}
		}
	}
}

func TestJSONKeepsItsStructureAndItsNumbers(t *testing.T) {
	r := New([]string{"hunter2-secret", "12345678", `quo"te`})
	for _, c := range []struct{ in, want string }{
		{`{"n":12345678901234567890.10,"e":1E+2,"t":"hunter2-secret"}`, `{"n":12345678901234567890.10,"e":1E+2,"t":"[redacted:secret]"}`},
		{`{"n": 12345678, "s": "12345678"}`, `{"n": 12345678, "s": "[redacted:secret]"}`},
		{"[ \"a\\n\\u0068unter2-secret\\t<&>\" ,\n true,null ]", "[ \"a\\n[redacted:secret]\\t<&>\" ,\n true,null ]"},
		{`{"hunter2-secret":{"x":"y"}}`, `{"[redacted:secret]":{"x":"y"}}`},
		{`["quo\"te","\\","\\\"","https:\/\/u:pw@h"]`, `["[redacted:secret]","\\","\\\"","https://u:[redacted:url-password]@h"]`},
		{`{"password" : "abcdef", "accessToken":"xyz-123", "nextPageToken":"xyz-123", "token":["abcdef"], "secret":12345678}`,
			`{"password" : "[redacted:password]", "accessToken":"[redacted:password]", "nextPageToken":"xyz-123", "token":["abcdef"], "secret":12345678}`},
		{`"{\"token\":\"abcdef\"}"`, `"{\"token\":\"[redacted:password]\"}"`},
		{"not json: hunter2-secret", "not json: [redacted:secret]"},
		{`{"open": "hunter2-secret`, `{"open": "[redacted:secret]`},
		{`{"clean":"\u00e9\ud83d\ude00 \/"}`, `{"clean":"\u00e9\ud83d\ude00 \/"}`},
		{`"\ud83d\ude00\ud800 hunter2-secret"`, "\"😀\ufffd [redacted:secret]\""},
	} {
		got, hits := r.JSON(json.RawMessage(c.in))
		if string(got) != c.want || (hits == nil) != (c.in == c.want) {
			t.Errorf("%s\n became %s (%v),\n want   %s", c.in, got, hits, c.want)
		}
		if json.Valid([]byte(c.in)) && !json.Valid(got) {
			t.Errorf("%s became invalid: %s", c.in, got)
		}
	}
}

func TestLogRecordsHoldNoSecretWhereverItStands(t *testing.T) {
	const secret = "hunter2-secret"
	var buf bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&buf, nil), slog.NewTextHandler(&buf, nil)} {
		log := slog.New(New([]string{secret}).Handler(h))
		log.With("with", secret).WithGroup("g").Info("message "+secret,
			"string", secret, "error", fmt.Errorf("wrapped: %w", errors.New(secret)),
			"bytes", []byte("b "+secret), "raw", json.RawMessage(`{"a":"`+secret+`"}`),
			"struct", struct{ Inner *string }{new(secret)}, "group", slog.GroupValue(slog.String("deep", secret)),
			"valuer", lazy(secret), "password", "anything", "n", 12345678901234567, "took", time.Second)
	}
	out := buf.String()
	if strings.Contains(out, secret) || strings.Contains(out, "anything") {
		t.Errorf("the log holds it:\n%s", out)
	}
	for _, want := range []string{"message [redacted:secret]", "wrapped: [redacted:secret]", "b [redacted:secret]", "12345678901234567", `{"a":"[redacted:secret]"}`, "took=1s"} {
		if !strings.Contains(out, want) {
			t.Errorf("the log lacks %q:\n%s", want, out)
		}
	}
}

type lazy string

func (l lazy) LogValue() slog.Value { return slog.StringValue(string(l)) }

func FuzzRedact(f *testing.F) {
	f.Add("a hunter2 b", "hunter2", "other")
	f.Add(`{"a":"hunter2\n"}`, "hunter2", `"a"`)
	f.Add("postgres://me:pw@db password=aaaa1111", "aaaa", "me:[")
	f.Fuzz(func(t *testing.T, text, s1, s2 string) {
		r := New([]string{s1, s2})
		clean, hits := r.String(text)
		if (hits == nil) != (clean == text) {
			t.Fatalf("%q became %q with %v", text, clean, hits)
		}
		for _, s := range r.load().secrets {
			if strings.Contains(clean, s) {
				t.Fatalf("%q became %q, which holds %q", text, clean, s)
			}
		}
		if again, _ := r.String(clean); again != clean {
			t.Fatalf("%q became %q and then %q", text, clean, again)
		}
		for _, raw := range [][]byte{[]byte(text), mustJSON(t, map[string]string{text: s2, "x": text}), mustJSON(t, []string{s1, text})} {
			out, hits := r.JSON(raw)
			if (hits == nil) != bytes.Equal(out, raw) {
				t.Fatalf("%q became %q with %v", raw, out, hits)
			}
			if json.Valid(raw) {
				var was, is any
				if err := json.Unmarshal(out, &is); err != nil {
					t.Fatalf("%s became %s: %v", raw, out, err)
				}
				json.Unmarshal(raw, &was)
				eachString(is, func(v string) {
					for _, s := range r.load().secrets {
						if strings.Contains(v, s) {
							t.Fatalf("%s became %s, which holds %q", raw, out, s)
						}
					}
				})
				if hits == nil && !cmp.Equal(was, is) {
					t.Fatalf("%s changed to %s", raw, out)
				}
			}
			if again, _ := r.JSON(out); !bytes.Equal(again, out) {
				t.Fatalf("%q became %q and then %q", raw, out, again)
			}
		}
	})
}

func mustJSON(t *testing.T, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func eachString(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachString(e, f)
		}
	case map[string]any:
		for k, e := range v {
			f(k)
			eachString(e, f)
		}
	}
}

// documents are 1 MB tool results of several kinds.
func documents() map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(words ...string) any {
		var b strings.Builder
		for b.Len() < 1<<20 {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(" \n       "[rng.IntN(8)])
		}
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": b.String()}}}
	}
	calm := strings.Fields("The forecast for tomorrow is cloudy with a light breeze from the west, and temperatures between 12 and 19 degrees; see the website of the weather service for details about your own region. 天气 预报")
	// Every third word begins like something that it is not.
	wild := strings.Fields("the token of a session is a secret that passes https://example.com/x?y=z between password and key: value sk eyes github AKIN slack bearer, and then = some")
	rows := make([]map[string]any, 0, 10000)
	for i := range 10000 {
		rows = append(rows, map[string]any{"id": i, "name": "row number " + fmt.Sprint(i), "url": "https://example.com/items/" + fmt.Sprint(i), "price": 12.5, "next_token": "abc"})
	}
	must := func(v any) []byte { raw, _ := json.Marshal(v); return raw }
	return map[string][]byte{
		"prose":  must(text(calm...)),
		"bait":   must(text(wild...)),
		"rows":   must(rows),
		"nested": must(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(must(rows))}}}),
		"base64": must(map[string]any{"data": strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA+/x9", 1<<20/28)}),
	}
}

func BenchmarkJSON(b *testing.B) {
	r := New([]string{"hunter2-secret", "another-secret-value", "third-secret-value", "tok_0123456789"})
	for name, doc := range documents() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			redacting, validating := time.Hour, time.Hour
			for b.Loop() { // the best of each: a busy machine disturbs the rest
				start := time.Now()
				r.JSON(doc)
				middle := time.Now()
				json.Valid(doc)
				redacting, validating = min(redacting, middle.Sub(start)), min(validating, time.Since(middle))
			}
			b.ReportMetric(float64(redacting)/float64(validating), "of-json.Valid")
		})
	}
}
