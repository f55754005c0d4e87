package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-multierror"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

func mustParse(t testing.TB, text string) *Rules {
	t.Helper()
	r, err := Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatIsNoFileIsNoPolicyAndIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, filepath.Dir(pipe), "/dev/zero"} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+": it is no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestEveryFaultOfAPolicyFileIsReportedWithItsPlace(t *testing.T) {
	_, err := Parse("policy.yaml", []byte(`trust:
  com.example.*: oficial
  "a::b": partner
risks: {}
risk:
  com.example.x: lo
  nothing: low
actions: {hihg: ask, low: allways}
servers: {deny: [""]}
limits:
  - {server: a, tool: b.c, calls: 0}
  - {tool: "x.y", calls: 5, per: 0}
  - {calls: 5}
flow:
  - {from: [nobody], to: [high]}
review: {first: {partner: pinn}}
approvals: {expire: 10ms}
ledger: {max_entries: 1}
`))
	var all *multierror.Error
	if !errors.As(err, &all) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, e := range all.Errors {
		got = append(got, e.Error())
	}
	for _, want := range []string{
		`policy.yaml:2:18: trust.com.example.*: "oficial" is not known here; did you mean "official"?`,
		`policy.yaml:3:11: trust.a::b: a server's pattern holds no "::"; write the server alone`,
		`policy.yaml:4:1: risks: unknown key; did you mean "risk"?`,
		`policy.yaml:6:18: risk.com.example.x: "lo" is not known here; did you mean "low"?`,
		`policy.yaml:7:12: risk.nothing: the pattern covers no tool: it names no server; write server.tool or server::tool`,
		`policy.yaml:8:11: actions.hihg: unknown key; did you mean "high"?`,
		`policy.yaml:8:27: actions.low: "allways" is not known here; one of allow, ask, deny`,
		`policy.yaml:9:18: servers.deny[0]: the pattern is empty`,
		`policy.yaml:11:5: limits[0]: want either server or tool`,
		`policy.yaml:11:35: limits[0].calls: want 1 to 1000000, got 0`,
		`policy.yaml:12:34: limits[1].per: want 1ms to 24h0m0s, got 0s`,
		`policy.yaml:13:5: limits[2]: want either server or tool`,
		`policy.yaml:15:5: flow[0].then: required key is missing`,
		`policy.yaml:15:13: flow[0].from[0]: "nobody" is not known here; one of official, internal, partner, unknown`,
		`policy.yaml:16:27: review.first.partner: "pinn" is not known here; did you mean "pin"?`,
		`policy.yaml:17:21: approvals.expire: want 1s to 720h0m0s, got 10ms`,
		`policy.yaml:18:23: ledger.max_entries: want 100 to 10000000, got 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
	if len(got) != 17 {
		t.Errorf("%d faults", len(got))
	}
}

func TestTheMostSpecificRuleDecidesWhereverItStands(t *testing.T) {
	r := mustParse(t, `
risk:
  "*": critical
  com.*: high
  com.example.crm.get_*: low
  com.example.crm.get_secrets: high
  com.example.crm.*_secrets: critical
  com.example.cr?.get_one: medium
  com.example.crm::list: low
  com.example.crm.list: high
trust:
  "*": partner
  com.example.*: internal
  com.example.bad: unknown
`)
	for name, want := range map[string]catalog.Risk{
		"get_x": catalog.Low, "get_secrets": catalog.High, "set_secrets": catalog.Critical,
		"get_one": catalog.Medium, "list": catalog.Low, "send": catalog.High,
	} {
		if got, by := r.Risk(catalog.ID{Server: "com.example.crm", Tool: name}); got != want {
			t.Errorf("%s is %q by %s, want %q", name, got, by, want)
		}
	}
	for server, want := range map[string]Trust{"com.example.crm": Internal, "com.example.bad": Unknown, "org": Partner, "im.polaris.diary": Partner} {
		if got, by := r.Trust(server); got != want {
			t.Errorf("%s is %s by %s, want %s", server, got, by, want)
		}
	}
}

func TestTheFilesRulesComeBeforeTheBuiltInOnes(t *testing.T) {
	id := catalog.ID{Server: "im.polaris.weather", Tool: "get_weather"}
	if got, _ := mustParse(t, "risk: {im.*: high}\n").Risk(id); got != catalog.High {
		t.Errorf("the file says high and the risk is %q", got)
	}
	if got, _ := mustParse(t, "builtin: false\n").Risk(id); got != catalog.Unknown {
		t.Errorf("without the built-in rules the risk is %q", got)
	}
	if got, _ := mustParse(t, "builtin: false\n").Trust("im.polaris.weather"); got != Unknown {
		t.Errorf("without the built-in rules the trust is %q", got)
	}
	all := mustParse(t, "trust: {x: partner}\n")
	without := all.Without("im.polaris.weather", "nobody")
	for server, want := range map[string]Trust{"im.polaris.weather": Unknown, "im.polaris.clock": Official, "x": Partner} {
		if got, _ := without.Trust(server); got != want {
			t.Errorf("without the rules for a stranger %s is %s, want %s", server, got, want)
		}
	}
	if got, _ := without.Risk(id); got != catalog.Unknown {
		t.Errorf("a stranger's tool has the risk %q", got)
	}
	if got, _ := all.Trust("im.polaris.weather"); got != Official {
		t.Errorf("the rules themselves were changed: %s", got)
	}
	if got, _ := mustParse(t, "unlisted: {unknown: critical}\n").Risk(catalog.ID{Server: "a", Tool: "b"}); got != catalog.Critical {
		t.Errorf("an unlisted tool is %q", got)
	}
}

func TestAServerCannotTakeAnothersRulesByADotInAToolsName(t *testing.T) {
	r := mustParse(t, `
risk: {git.hub.get: low, git.hub.*: low, git.hub.wipe: critical, jira.*: low, jira.issue.delete: high, "own::a.b": low}
tools: {deny: [git.hub.send]}
`)
	for _, tc := range []struct {
		server, tool string
		want         catalog.Risk
	}{
		{"git.hub", "get", catalog.Low},
		{"git", "hub.get", catalog.Unknown},
		{"git", "hub.other", catalog.Unknown},
		{"git", "git.hub.get", catalog.Unknown},
		{"git", "hub.wipe", catalog.Critical}, // a higher risk holds either way
		{"jira", "issue.get", catalog.Low},    // the server is spelled out, the rest is a wildcard
		{"jira", "issue.delete", catalog.High},
		{"own", "a.b", catalog.Low},
		{"own.a", "b", catalog.Unknown},
	} {
		if got, by := r.Risk(catalog.ID{Server: tc.server, Tool: tc.tool}); got != tc.want {
			t.Errorf("%s of %s is %q by %s, want %q", tc.tool, tc.server, got, by, tc.want)
		}
	}
	if _, barred := r.Barred(catalog.ID{Server: "git", Tool: "hub.send"}); !barred {
		t.Error("a denial holds in one reading only")
	}
	allow := mustParse(t, "tools: {allow: [git.hub.get]}\n")
	if _, barred := allow.Barred(catalog.ID{Server: "git.hub", Tool: "get"}); barred {
		t.Error("what the list allows is barred")
	}
	if by, barred := allow.Barred(catalog.ID{Server: "git", Tool: "hub.get"}); !barred || by.Line != 1 {
		t.Errorf("another server's tool is on the list (%s)", by)
	}
}

func TestListsBarServersAndTools(t *testing.T) {
	r := mustParse(t, `
servers: {allow: [com.*, org], deny: [com.bad.*]}
tools: {allow: ["*"], deny: ["*.exec", "org::rm"]}
`)
	for _, tc := range []struct {
		server, tool string
		barred       bool
	}{
		{"com.good", "get", false}, {"com.bad.x", "get", true}, {"net", "get", true},
		{"org", "rm", true}, {"com.good", "rm", false}, {"com.good", "exec", true}, {"com.good", "com.good.exec", true},
		{"COM.good", "get", true},
	} {
		if by, barred := r.Barred(catalog.ID{Server: tc.server, Tool: tc.tool}); barred != tc.barred {
			t.Errorf("%s of %s: barred is %v (%s)", tc.tool, tc.server, barred, by)
		}
	}
}

func TestTheStrictestFlowRuleHolds(t *testing.T) {
	r := mustParse(t, "flow:\n  - {from: [partner, unknown], to: [low, high], then: ask}\n  - {from: [unknown], to: [high], then: deny}\n  - {from: [unknown], to: [high], then: allow}\n")
	if a, by, ok := r.Flow(Unknown, catalog.High); a != Deny || by.Line != 3 || !ok {
		t.Errorf("%s by %s", a, by)
	}
	if a, _, _ := r.Flow(Partner, catalog.High); a != Ask {
		t.Errorf("from a partner: %s", a)
	}
	if _, _, ok := r.Flow(Unknown, catalog.Critical); ok {
		t.Error("the built-in rules hold beside the file's")
	}
}

func TestLoadTellsAMissingFileFromAFaultyOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("trust: {a: official}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, by := r.Trust("a"); got != Official || by.File != path || by.Line != 1 {
		t.Errorf("%s by %s", got, by)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("trust: {a.*: official}\nrisk: {a.b: low, \"a::c\": critical}\nactions: {low: allow}\n")
	f.Add("limits: [{server: a, calls: 1, per: 1s}]\nflow: [{from: [unknown], to: [high], then: ask}]\nreview: {first: {official: pin}}\n")
	f.Add("risk: {a: &x low, b.c: *x}\nservers: {allow: [a], deny: [b]}\napprovals: {expire: 1m}\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse("policy.yaml", []byte(text))
		if (r == nil) == (err == nil) {
			t.Fatalf("rules %v, error %v", r, err)
		}
		if r == nil {
			return
		}
		// Whatever a file says, an answer is one of the words.
		for _, id := range []catalog.ID{{Server: "a", Tool: "b"}, {Server: "a", Tool: "b.c"}, {Server: "im.polaris.diary", Tool: "delete_entry"}} {
			level, _ := r.Risk(id)
			action, _ := r.Action(level)
			trust, _ := r.Trust(id.Server)
			if !slices.Contains(risks, RiskWord(level)) || !slices.Contains(actions, action) || !slices.Contains(Trusts, trust) {
				t.Errorf("%v: risk %q, action %q, trust %q", id, level, action, trust)
			}
			for _, b := range r.Budgets(id) {
				if b.Calls < 1 || b.Per <= 0 || b.Burst < 1 {
					t.Errorf("budget %+v", b)
				}
			}
		}
	})
}

func TestTheSchemaTakesWhatParseTakes(t *testing.T) {
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		"trust: {a.*: official}\nrisk: {a.b: unknown}\n":                                    true,
		"x-note: mine\nactions: {low: allow, critical: }\nunlisted: {partner: medium}\n":    true,
		"limits: [{server: a, calls: 5, per: 1m}, {tool: a.b, calls: 1, per: 10}]\n":        true,
		"flow: [{from: [unknown], to: [high], then: deny}]\nservers: {deny: [a]}\n":         true,
		"review: {first: {official: pin, unknown: deny}, changed: deny}\nbuiltin: false\n":  true,
		"approvals: {expire: 5m, max_pending: 3}\nledger: {keep: 24h, max_entries: 1000}\n": true,
		"trust: {a: friend}\n":                                      false,
		"actions: {hihg: ask}\n":                                    false,
		"risk: {a.b: 1}\n":                                          false,
		"flow: [{from: [unknown], to: [high]}]\n":                   false,
		"limits: [{server: a}]\n":                                   false,
		"review: {first: {official: sure}}\n":                       false,
		"flow: [{from: [unknown], to: [worse], then: deny}]\n":      false,
		"tools: {allow: a.b}\n":                                     false,
		"unlisted: {partner: ask}\n":                                false,
		"review: {first: {official: pin, unknown: deny, x: ask}}\n": false,
	} {
		_, parsed := Parse("policy.yaml", []byte(text))
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if checked := schema.Validate(value); (parsed == nil) != good || (checked == nil) != good {
			t.Errorf("%q: Parse says %v, the schema says %v", text, parsed, checked)
		}
	}
}

func TestAFileThatSaysNothingIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "\n \n", "# to be written\n", "\uFEFF# x\n---\n  # y\n", "---\n...\n"} {
		r, err := Parse("policy.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(Default().Config(), r.Config()); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
	if _, err := Parse("policy.yaml", []byte("# x\nnothing\n")); err == nil {
		t.Error("a word is no policy")
	}
}
