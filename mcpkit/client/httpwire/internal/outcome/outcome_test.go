package outcome

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// without an effect, for sure: what an empty outcome means.
const without fault.Outcome = ""

func TestTheStatusDecidesTheCodeAndWhatIsKnownOfTheEffect(t *testing.T) {
	for _, c := range []struct {
		status  int
		header  string
		body    string
		code    string
		outcome fault.Outcome
		words   string
	}{
		{401, "", "", fault.NeedsAuth, without, "401 Unauthorized"},
		{403, "", "not yours", fault.NeedsAuth, without, "not yours"},
		{429, "Retry-After: 7", "", fault.RateLimited, without, "wait for 7s"},
		{503, "", "", fault.Unavailable, fault.OutcomeUnknown, "503"},
		{307, "Location: https://user:pw@b.example/mcp?token=1", "", fault.HTTPStatus, without, "to https://b.example/mcp, which"},
		{404, "Content-Type: text/html; charset=utf-8", "<h1>Nothing</h1>", fault.NotMCP, without, "Nothing"},
		{404, "", "nothing", fault.HTTPStatus, without, "nothing"},
	} {
		resp := &http.Response{StatusCode: c.status, Header: http.Header{}}
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			resp.Header.Set(name, value)
		}
		f := Server("s").Status(resp, []byte(c.body), "tools/call")
		if f.Code != c.code || f.Outcome != c.outcome || !strings.Contains(f.Message, c.words) || !strings.Contains(f.Message, "tools/call") {
			t.Errorf("%d: %s, outcome %s, %q", c.status, f.Code, f.Outcome, f.Message)
		}
	}
}

func TestARequestThatMayHaveBeenSentHasAnUnknownEffect(t *testing.T) {
	if f := (Server("s").Failed(io.EOF, false, "tools/call")); f.Code != fault.Unreachable || f.Outcome != without {
		t.Errorf("nothing sent: %s, %s", f.Code, f.Outcome)
	}
	for err, code := range map[error]string{io.EOF: fault.ConnectionLost, ErrLate: fault.Timeout} {
		if f := Server("s").Failed(err, true, "tools/call"); f.Code != code || f.Outcome != fault.OutcomeUnknown {
			t.Errorf("%v: %s, %s", err, f.Code, f.Outcome)
		}
	}
}

func TestRetryAfterIsADateOrSeconds(t *testing.T) {
	for v, want := range map[string]time.Duration{"": 0, "12": 12 * time.Second, "-1": 0, "soon": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		if got := RetryAfter(&http.Response{Header: http.Header{"Retry-After": {v}}}); got != want {
			t.Errorf("%q is %v, want %v", v, got, want)
		}
	}
	later := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if got := RetryAfter(&http.Response{Header: http.Header{"Retry-After": {later}}}); got < 30*time.Minute || got > time.Hour {
		t.Errorf("%q is %v", later, got)
	}
}

func TestAQuoteIsTheTextOnOneLine(t *testing.T) {
	for body, want := range map[string]string{
		"  a\n\tb\x00 ": "a b",
		"<html><style>p { color: red }</style><p>It is <b>down</b>.</p><script>if (a < b) {}</script></html>": "It is down .",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no such session"}}`:                         "no such session",
		"1 < 2":                  "1 < 2",
		strings.Repeat("x", 200): strings.Repeat("x", maxQuote) + "…",
	} {
		if got := Quote([]byte(body)); got != want {
			t.Errorf("%q is quoted as %q, want %q", body, got, want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add([]byte("<script"))
	f.Add([]byte("<p>\xff</"))
	f.Fuzz(func(t *testing.T, body []byte) {
		q := Quote(body)
		if n := utf8.RuneCountInString(q); n > maxQuote+2 || strings.ContainsFunc(q, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is quoted as %q", body, q)
		}
	})
}
