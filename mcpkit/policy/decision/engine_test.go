package decision

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

func tool(server, name string) *catalog.Tool {
	id := catalog.ID{Server: server, Tool: name}
	return &catalog.Tool{
		Name: id.Canonical(), Description: "Does " + name + ".", InputSchema: json.RawMessage(`{"type":"object"}`),
		Source: catalog.Source{Kind: "mcp", Server: server, OriginalName: name},
	}
}

func parse(t testing.TB, text string) *rules.Rules {
	t.Helper()
	r, err := rules.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestToolsOfAServerThatIsTheOperatorsOwnAreAllowedUnlessTheyAreNamed(t *testing.T) {
	e := NewEngine(parse(t, "trust: {com.mine.*: internal, com.friend.*: partner}\nrisk: {com.mine.dice.burn: high}\n"), nil, nil)
	for _, tc := range []struct {
		server, tool string
		want         rules.Action
		risk         catalog.Risk
	}{
		{"com.mine.dice", "roll", rules.Allow, catalog.Medium},
		{"com.mine.dice", "burn", rules.Ask, catalog.High},
		{"com.friend.dice", "roll", rules.Ask, catalog.Unknown},
		{"com.stranger.dice", "roll", rules.Ask, catalog.Unknown},
	} {
		r := Request{Tool: tool(tc.server, tc.tool)}
		if v := e.Decide(r); v.Action != tc.want || v.Risk != tc.risk {
			t.Errorf("%s %s: %s at risk %q, want %s at %q", tc.server, tc.tool, v.Action, v.Risk, tc.want, tc.risk)
		}
		if v := e.Judge(r); v.Action != tc.want || v.Risk != tc.risk {
			t.Errorf("%s %s: previewed as %s at risk %q", tc.server, tc.tool, v.Action, v.Risk)
		}
	}
}

func TestWithoutAFileOursAreAllowedAndOthersAskAPerson(t *testing.T) {
	e := NewEngine(nil, nil, nil)
	for _, tc := range []struct {
		server, tool string
		want         rules.Action
		risk         catalog.Risk
	}{
		{"im.polaris.weather", "get_weather", rules.Allow, catalog.Low},
		{"im.polaris.weather", "im.polaris.weather.get_weather", rules.Allow, catalog.Low},
		{"im.polaris.clock", "get_time", rules.Allow, catalog.Low},
		{"im.polaris.clock", "create_alarm", rules.Allow, catalog.Medium},
		{"im.polaris.diary", "read_entry", rules.Allow, catalog.Low},
		{"im.polaris.diary", "write_entry", rules.Allow, catalog.Medium},
		{"im.polaris.diary", "delete_entry", rules.Ask, catalog.High},
		{"im.polaris.diary", "wipe", rules.Ask, catalog.Unknown},
		{"im.polaris", "weather.get_weather", rules.Ask, catalog.Unknown},
		{"im.polaris.qq", "send_qq_message", rules.Ask, catalog.Unknown},
		{"github", "get_issue", rules.Ask, catalog.Unknown},
		{"im.polaris.weather", "get_weather ", rules.Ask, catalog.Unknown},
		{"im.polaris.weather", "gеt_weather", rules.Ask, catalog.Unknown}, // Cyrillic
	} {
		v := e.Decide(Request{Tool: tool(tc.server, tc.tool)})
		if v.Action != tc.want || v.Risk != tc.risk {
			t.Errorf("%s %s: %s at risk %q, want %s at %q (%s)", tc.server, tc.tool, v.Action, v.Risk, tc.want, tc.risk, v.Reason)
		}
	}
}

func TestAServersAnnotationsNeverLowerTheRisk(t *testing.T) {
	e := NewEngine(nil, nil, nil)
	harmless := tool("com.example", "wipe_disk")
	harmless.Annotations = json.RawMessage(`{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":false}`)
	harmless.Risk = catalog.Low
	if v := e.Decide(Request{Tool: harmless}); v.Action != rules.Ask || v.Risk != catalog.Unknown {
		t.Errorf("got %s at risk %q", v.Action, v.Risk)
	}
}

func TestCriticalIsNeverAllowedUnlessTheFileSaysSo(t *testing.T) {
	for _, trust := range rules.Trusts {
		for _, name := range []string{"a.b::c", "a.*", "*.c", "a.b.c"} {
			e := NewEngine(parse(t, fmt.Sprintf("trust: {a.b: %s}\nrisk: {%q: critical}\n", trust, name)), nil, nil)
			for _, from := range rules.Trusts {
				e.RememberResult("r-"+string(from), from)
				for _, p := range [][]string{nil, {"r-" + string(from)}, {"forgotten"}} {
					if v := e.Decide(Request{Tool: tool("a.b", "c"), Provenance: p}); v.Action != rules.Deny {
						t.Fatalf("trust %s, pattern %s, from %v: %s (%s)", trust, name, p, v.Action, v.Reason)
					}
				}
			}
		}
	}
	e := NewEngine(parse(t, "risk: {a.b.c: critical}\nactions: {critical: ask}\n"), nil, nil)
	if v := e.Decide(Request{Tool: tool("a.b", "c")}); v.Action != rules.Ask {
		t.Errorf("with critical: ask the verdict is %s", v.Action)
	}
}

func TestLowTrustDataDoesNotDriveAHighRiskToolUnseen(t *testing.T) {
	e := NewEngine(parse(t, `
trust: {shop: partner, vault: internal}
risk: {vault.open: high, vault.look: low, vault.burn: critical, shop.list: low}
actions: {high: allow, critical: ask}
`), nil, nil)
	open, look, burn := tool("vault", "open"), tool("vault", "look"), tool("vault", "burn")
	e.RememberResult("own", rules.Internal)
	e.RememberResult("shop", e.Trust(Request{Tool: tool("shop", "list")}))
	e.RememberResult("wild", e.Trust(Request{Tool: tool("stranger", "x")}))
	// What an internal tool made of a stranger's data is a stranger's data.
	e.RememberResult("washed", e.Trust(Request{Tool: look, Provenance: []string{"own", "wild"}}))
	// A second result under one id does not make the first trusted.
	e.RememberResult("wild", rules.Official)
	for _, tc := range []struct {
		tool *catalog.Tool
		from []string
		want rules.Action
	}{
		{open, nil, rules.Allow},
		{open, []string{"own"}, rules.Allow},
		{open, []string{"shop"}, rules.Ask},
		{open, []string{"own", "wild"}, rules.Ask},
		{open, []string{"washed"}, rules.Ask},
		{open, []string{"never seen"}, rules.Ask},
		{open, []string{""}, rules.Ask},
		{look, []string{"wild", "never seen"}, rules.Allow},
		{burn, []string{"own"}, rules.Ask},
		{burn, []string{"wild"}, rules.Deny},
	} {
		v := e.Decide(Request{Tool: tc.tool, Provenance: tc.from})
		if v.Action != tc.want {
			t.Errorf("%s from %v: %s, want %s (%s)", tc.tool.Name, tc.from, v.Action, tc.want, v.Reason)
		}
	}
	if v := e.Decide(Request{Tool: open, Provenance: []string{"wild"}}); v.Causes != CauseFlow || !strings.Contains(v.Reason, "unknown trust") {
		t.Errorf("causes %v, reason %q", v.Causes.Strings(), v.Reason)
	}
}

func TestWhatIsForgottenOrTooMuchIsNotTrusted(t *testing.T) {
	var r results
	r.remember("own", rules.Internal)
	many := make([]string, maxProvenance+1)
	for i := range many {
		many[i] = "own"
	}
	if got, _ := r.lowest(many[1:]); got != rules.Internal {
		t.Errorf("data of internal trust has trust %s", got)
	}
	if got, _ := r.lowest(many); got != rules.Unknown {
		t.Errorf("more ids than are looked up have trust %s", got)
	}
	r.remember("first", rules.Official)
	for i := range maxResults {
		r.remember(fmt.Sprint(i), rules.Official)
	}
	if got, id := r.lowest([]string{"5", "first"}); got != rules.Unknown || id != "first" {
		t.Errorf("a forgotten result has trust %s (%s)", got, id)
	}
	if len(r.trust) != maxResults || len(r.order) != maxResults {
		t.Errorf("%d results are kept in %d places", len(r.trust), len(r.order))
	}
}

func TestOverTheLimitACallIsRefusedForAStatedTimeAndRule(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	clock := func() time.Time { return now }
	config := "risk: {'*': low}\nlimits:\n  - {server: a.*, calls: 3, per: 1m}\n  - {tool: a.b.slow, calls: 1, per: 10s}\n"
	e := NewEngine(parse(t, config), nil, clock)
	fast, slow, other := tool("a.b", "fast"), tool("a.b", "slow"), tool("a.c", "fast")
	want := func(when string, tl *catalog.Tool, limited bool) Verdict {
		t.Helper()
		v := e.Decide(Request{Tool: tl})
		if (v.RetryAfter > 0) != limited || (v.Action == rules.Deny) != limited {
			t.Errorf("%s: %s, try again in %s (%s)", when, v.Action, v.RetryAfter, v.Reason)
		}
		return v
	}
	want("first slow", slow, false)
	f := want("second slow", slow, true).Fault("a.b.slow")
	if f.Code != fault.RateLimited || !f.Retryable || !strings.Contains(f.Message, "policy.yaml:4") {
		t.Errorf("the fault is %v, retryable %v", f, f.Retryable)
	}
	// The refused call took nothing from the server's budget.
	want("second of the server", fast, false)
	want("third of the server", fast, false)
	want("fourth of the server", fast, true)
	want("another server", other, false)
	e.SetConfig(parse(t, config+"trust: {a.b: partner}\n"))
	want("after a reload", fast, true)
	now = now.Add(20 * time.Second)
	want("a third of a minute later", fast, false)
	want("and again", fast, true)
	if x := e.Explain(fast); len(x.Limits) != 1 || x.Limits[0].Left != 0 {
		t.Errorf("limits: %+v", x.Limits)
	}
}

func TestMoreBudgetsThanCanBeCountedAreUsedUp(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	e := NewEngine(parse(t, "risk: {'*': low}\nlimits: [{tool: '*', calls: 1, per: 1h}]\n"), nil, func() time.Time { return now })
	for i := range maxBuckets {
		if v := e.Decide(Request{Tool: tool("s", fmt.Sprint(i))}); v.Action != rules.Allow {
			t.Fatalf("tool %d: %s", i, v.Reason)
		}
	}
	more := tool("s", "one more")
	if v := e.Decide(Request{Tool: more}); v.RetryAfter <= 0 {
		t.Errorf("one more: %s", v.Action)
	}
	now = now.Add(2 * time.Hour) // what is full again makes room
	if v := e.Decide(Request{Tool: more}); v.Action != rules.Allow {
		t.Errorf("later: %s", v.Reason)
	}
}

func TestRequestsThatAreDeniedTakeNothingFromTheBudget(t *testing.T) {
	e := NewEngine(parse(t, "risk: {a.b: critical, a.c: low}\nlimits: [{server: a, calls: 1, per: 1h}]\n"), nil, nil)
	for range 5 {
		e.Decide(Request{Tool: tool("a", "b")})
	}
	if v := e.Decide(Request{Tool: tool("a", "c")}); v.Action != rules.Allow {
		t.Errorf("got %s: %s", v.Action, v.Reason)
	}
}

func TestExplainNamesTheRuleAndTheLineThatDecide(t *testing.T) {
	e := NewEngine(parse(t, `
trust:
  com.example.*: partner
risk:
  com.example.crm.get_*: low
  com.example.crm.send: high
actions: {high: allow}
tools:
  deny: [com.example.crm.get_secret]
`), nil, nil)
	for name, want := range map[string]string{
		"get_x":      "allow policy.yaml:5: risk: com.example.crm.get_*: low",
		"send":       "allow policy.yaml:6: risk: com.example.crm.send: high",
		"get_secret": "deny policy.yaml:9: tools.deny: com.example.crm.get_secret",
		"other":      "ask built-in: unlisted: partner: unknown",
	} {
		x := e.Explain(tool("com.example.crm", name))
		if got := string(x.Action) + " " + x.Rule.String(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	x := e.Explain(tool("com.example.crm", "send"))
	if len(x.Flow) != 2 || x.Flow[0].From != rules.Partner || x.Flow[0].Action != rules.Ask {
		t.Errorf("flow: %+v", x.Flow)
	}
	b, err := json.Marshal(x)
	for _, part := range []string{`"trust":"partner"`, `"line":3`, `"risk":"high"`, `"action":"allow"`, `"from":"unknown"`} {
		if err != nil || !strings.Contains(string(b), part) {
			t.Errorf("%s lacks %s (%v)", b, part, err)
		}
	}
}

func TestDecisionsGoOnWhileThePolicyIsReplaced(t *testing.T) {
	low, critical := parse(t, "risk: {a.b: low}\n"), parse(t, "risk: {a.b: critical}\n")
	e := NewEngine(low, nil, nil)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			tl := tool("a", "b")
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := e.Decide(Request{Tool: tl, CallID: "x"})
				if v.Action != rules.Allow && v.Action != rules.Deny || (v.Action == rules.Allow) != (v.Risk == catalog.Low) {
					t.Errorf("a verdict of two policies: %+v", v)
					return
				}
			}
		})
	}
	for range 200 {
		e.SetConfig(critical)
		if v := e.Decide(Request{Tool: tool("a", "b")}); v.Action != rules.Deny {
			t.Errorf("after the reload: %s", v.Action)
		}
		e.SetConfig(low)
	}
	close(stop)
	wg.Wait()
}

func BenchmarkDecide(b *testing.B) {
	e := NewEngine(parse(b, "risk: {a.*: low}\nlimits: [{server: a, calls: 1000000, per: 1ms}]\n"), nil, nil)
	e.RememberResult("r", rules.Official)
	r := Request{Tool: tool("a", "b"), Arguments: json.RawMessage(`{}`), Provenance: []string{"r"}}
	b.ReportAllocs()
	for b.Loop() {
		if v := e.Decide(r); v.Action != rules.Allow {
			b.Fatal(v.Reason)
		}
	}
}
