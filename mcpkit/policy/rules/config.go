package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules/pattern"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Trust is how far a server is trusted.
type Trust string

const (
	Official Trust = "official" // part of this platform
	Internal Trust = "internal" // of the operator's own
	Partner  Trust = "partner"  // of someone the operator knows
	Unknown  Trust = "unknown"  // everyone else
)

// Trusts are all levels, highest first.
var Trusts = []Trust{Official, Internal, Partner, Unknown}

// Lower is the lower one of two levels; a word that is no level counts as Unknown.
func (t Trust) Lower(u Trust) Trust {
	i, j := slices.Index(Trusts, t), slices.Index(Trusts, u)
	if i < 0 || j < 0 {
		return Unknown
	}
	return Trusts[max(i, j)]
}

// Action is what happens to a call.
type Action string

const (
	Allow Action = "allow"
	Ask   Action = "ask" // a person decides
	Deny  Action = "deny"
)

var actions = []Action{Allow, Ask, Deny}

// Stricter is the stricter one of two actions; a word that is none counts as Deny.
func (a Action) Stricter(b Action) Action {
	i, j := slices.Index(actions, a), slices.Index(actions, b)
	if i < 0 || j < 0 {
		return Deny
	}
	return actions[max(i, j)]
}

// UnknownRisk is how the policy file writes [catalog.Unknown].
const UnknownRisk = "unknown"

// risks are the words of the policy file, from harmless to harmful.
var risks = []string{string(catalog.Low), string(catalog.Medium), UnknownRisk, string(catalog.High), string(catalog.Critical)}

// RiskWord is a risk as the policy file and people write it.
func RiskWord(r catalog.Risk) string {
	if r == catalog.Unknown {
		return UnknownRisk
	}
	return string(r)
}

// Config is the policy file as it is written. Patterns are explained in the
// package comment.
type Config struct {
	Builtin   bool              `json:"builtin,omitempty" jsonschema:"whether the rules for the platform's own apps hold where this file has none"`
	Trust     map[string]Trust  `json:"trust,omitempty" jsonschema:"trust per server name or pattern"`
	Risk      map[string]string `json:"risk,omitempty" jsonschema:"risk per tool name or pattern"`
	Unlisted  PerTrust[string]  `json:"unlisted,omitempty" jsonschema:"risk of tools that no risk rule covers, by the trust of their server"`
	Actions   Actions           `json:"actions,omitempty" jsonschema:"what each risk means"`
	Servers   Lists             `json:"servers,omitempty" jsonschema:"which servers may be called at all"`
	Tools     Lists             `json:"tools,omitempty" jsonschema:"which tools may be called at all"`
	Limits    []Limit           `json:"limits,omitempty" jsonschema:"how often calls may be made; all that cover a call apply"`
	Flow      []Flow            `json:"flow,omitempty" jsonschema:"what happens when data reaches a tool; the strictest that applies holds, and a list replaces the built-in one"`
	Resources Reads             `json:"resources,omitempty" jsonschema:"which servers' resources and prompts may be read, and how much of them"`
	Review    Review            `json:"review,omitempty" jsonschema:"what happens to tools whose definition nobody has approved"`
	Approvals Approvals         `json:"approvals,omitempty"`
	Ledger    Ledger            `json:"ledger,omitempty"`
}

// PerTrust is a value for each level of trust.
type PerTrust[T any] struct {
	Official T `json:"official,omitempty"`
	Internal T `json:"internal,omitempty"`
	Partner  T `json:"partner,omitempty"`
	Unknown  T `json:"unknown,omitempty"`
}

// Of is the value for one level.
func (p PerTrust[T]) Of(t Trust) T {
	switch t {
	case Official:
		return p.Official
	case Internal:
		return p.Internal
	case Partner:
		return p.Partner
	}
	return p.Unknown
}

// Actions is what each risk means.
type Actions struct {
	Low      Action `json:"low,omitempty"`
	Medium   Action `json:"medium,omitempty"`
	High     Action `json:"high,omitempty"`
	Critical Action `json:"critical,omitempty"`
	Unknown  Action `json:"unknown,omitempty"`
}

// Of is what a risk means; a word that is no risk counts as critical.
func (a Actions) Of(r catalog.Risk) Action {
	switch r {
	case catalog.Low:
		return a.Low
	case catalog.Medium:
		return a.Medium
	case catalog.High:
		return a.High
	case catalog.Unknown:
		return a.Unknown
	}
	return a.Critical
}

// Lists say what may be called at all. Deny wins; a list of Allow that is not
// empty denies everything else.
type Lists struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Limit bounds how often calls are made. Server gives each server it covers a
// budget of its own, Tool each tool; exactly one of them is set.
type Limit struct {
	Server string          `json:"server,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Calls  int             `json:"calls"`
	Per    strict.Duration `json:"per,omitempty"`   // default one minute
	Burst  int             `json:"burst,omitempty"` // calls at once; default Calls
}

// Flow says what happens when data of a server with one of the trust levels
// From reaches a tool with one of the risks To.
type Flow struct {
	From []Trust  `json:"from"`
	To   []string `json:"to"`
	Then Action   `json:"then"`
}

// Reads bounds what is read of a server by name: resources and expansions of
// prompts. A server that servers denies is not read either.
type Reads struct {
	Allow     []string    `json:"allow,omitempty" jsonschema:"server names or patterns; if there are any, no other server is read"`
	Deny      []string    `json:"deny,omitempty" jsonschema:"server names or patterns; they win"`
	MaxBytes  strict.Size `json:"max_bytes,omitempty" jsonschema:"largest result of one read"`
	PerMinute strict.Size `json:"per_minute,omitempty" jsonschema:"all results of one server in a minute, and at once"`
}

// Review says what happens to tools whose definition nobody has approved.
type Review struct {
	First    PerTrust[First] `json:"first,omitempty" jsonschema:"a server that is seen for the first time"`
	Added    Action          `json:"added,omitempty" jsonschema:"a new tool of a server that was approved"`
	Changed  Action          `json:"changed,omitempty" jsonschema:"a tool that is not what was approved"`
	Findings Action          `json:"findings,omitempty" jsonschema:"a tool that was not approved and whose definition looks poisoned"`
}

// First is what happens to a server that is seen for the first time: Pin takes
// its tools as they are, unless one looks poisoned; the others are actions.
type First string

const Pin First = "pin"

// Approvals says how long and how many people are asked.
type Approvals struct {
	Expire     strict.Duration `json:"expire,omitempty"`      // an unanswered question, and an answer that nobody used
	MaxPending int             `json:"max_pending,omitempty"` // more are refused
}

// Ledger says how much of the past is remembered.
type Ledger struct {
	Keep       strict.Duration `json:"keep,omitempty"`
	MaxEntries int             `json:"max_entries,omitempty"`
}

// DefaultConfig is what holds where no file says otherwise.
func DefaultConfig() *Config {
	const unknown = UnknownRisk
	return &Config{
		Builtin: true,
		// Whoever says that a server is the operator's own speaks for its tools; those of
		// official ones are named one by one.
		Unlisted: PerTrust[string]{unknown, string(catalog.Medium), unknown, unknown},
		Actions:  Actions{Low: Allow, Medium: Allow, High: Ask, Critical: Deny, Unknown: Ask},
		Flow: []Flow{
			{From: []Trust{Unknown, Partner}, To: []string{unknown, string(catalog.High)}, Then: Ask},
			{From: []Trust{Unknown, Partner}, To: []string{string(catalog.Critical)}, Then: Deny},
		},
		Resources: Reads{MaxBytes: 4 << 20, PerMinute: 32 << 20},
		Review: Review{
			First: PerTrust[First]{Official: Pin, Internal: Pin, Partner: First(Ask), Unknown: First(Ask)},
			Added: Ask, Changed: Ask, Findings: Ask,
		},
		Approvals: Approvals{Expire: strict.Duration{Duration: 10 * time.Minute}, MaxPending: 256},
		Ledger:    Ledger{Keep: strict.Duration{Duration: 30 * 24 * time.Hour}, MaxEntries: 100_000},
	}
}

// Load reads and parses the policy file at path. Its error holds all faults; it
// wraps fs.ErrNotExist where there is no such file.
func Load(path string) (*Rules, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads the file of a policy. What is no file, such as a pipe, which might
// never end, is not read.
func ReadFile(path string) ([]byte, error) { return smallfile.Read(path, strict.MaxSize, 0) }

// Parse reads a policy file; file is its name in messages. The error is a
// multierror of *strict.Faults, each with line, column and key. A file of comments
// alone, or of nothing, says nothing: what it leaves out is as in [Default].
func Parse(file string, data []byte) (*Rules, error) {
	if saysNothing(data) {
		return Default(), nil
	}
	doc := strict.YAML(file, data, strict.Options{})
	c := DefaultConfig()
	doc.Decode(c)
	check(doc, c)
	if len(doc.Faults) > 0 {
		doc.Sort()
		var all *multierror.Error
		for _, f := range doc.Faults {
			all = multierror.Append(all, f)
		}
		return nil, all
	}
	return compile(c, doc), nil
}

// saysNothing reports whether a YAML file has comments, marks of a document and blanks
// alone.
func saysNothing(data []byte) bool {
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\uFEFF")) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" && line != "---" && line != "..." {
			return false
		}
	}
	return true
}

// check reports what the decoder cannot know.
func check(doc *strict.Document, c *Config) {
	for _, key := range slices.Sorted(maps.Keys(c.Trust)) {
		at := "trust." + key
		checkPattern(doc, at, key, false)
		oneOf(doc, at, c.Trust[key], Trusts)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Risk)) {
		at := "risk." + key
		checkPattern(doc, at, key, true)
		oneOf(doc, at, c.Risk[key], risks)
	}
	for _, t := range Trusts {
		oneOf(doc, "unlisted."+string(t), c.Unlisted.Of(t), risks)
		oneOf(doc, "review.first."+string(t), c.Review.First.Of(t), []First{Pin, First(Allow), First(Ask), First(Deny)})
	}
	for _, r := range risks {
		oneOf(doc, "actions."+r, c.Actions.Of(risk(r)), actions)
	}
	oneOf(doc, "review.added", c.Review.Added, actions)
	oneOf(doc, "review.changed", c.Review.Changed, actions)
	oneOf(doc, "review.findings", c.Review.Findings, actions)
	for at, list := range map[string][]string{
		"servers.allow": c.Servers.Allow, "servers.deny": c.Servers.Deny,
		"tools.allow": c.Tools.Allow, "tools.deny": c.Tools.Deny,
		"resources.allow": c.Resources.Allow, "resources.deny": c.Resources.Deny,
	} {
		for i, p := range list {
			checkPattern(doc, fmt.Sprintf("%s[%d]", at, i), p, strings.HasPrefix(at, "tools"))
		}
	}
	for i, l := range c.Limits {
		checkLimit(doc, fmt.Sprintf("limits[%d]", i), l)
	}
	for i, f := range c.Flow {
		at := fmt.Sprintf("flow[%d]", i)
		for j, t := range f.From {
			oneOf(doc, fmt.Sprintf("%s.from[%d]", at, j), t, Trusts)
		}
		for j, r := range f.To {
			oneOf(doc, fmt.Sprintf("%s.to[%d]", at, j), r, risks)
		}
		if doc.Has(at + ".then") {
			oneOf(doc, at+".then", f.Then, actions)
		}
	}
	positive(doc, "resources.max_bytes", int(c.Resources.MaxBytes), 1<<10, 1<<30)
	positive(doc, "resources.per_minute", int(c.Resources.PerMinute), 1<<10, 1<<40)
	positive(doc, "approvals.expire", c.Approvals.Expire.Duration, time.Second, 30*24*time.Hour)
	positive(doc, "approvals.max_pending", c.Approvals.MaxPending, 1, 10_000)
	positive(doc, "ledger.keep", c.Ledger.Keep.Duration, time.Hour, 10*365*24*time.Hour)
	positive(doc, "ledger.max_entries", c.Ledger.MaxEntries, 100, 10_000_000)
}

func checkLimit(doc *strict.Document, at string, l Limit) {
	switch {
	case (l.Server == "") == (l.Tool == ""):
		doc.FaultAt(at, "", "want either server or tool")
	case l.Server != "":
		checkPattern(doc, at+".server", l.Server, false)
	default:
		checkPattern(doc, at+".tool", l.Tool, true)
	}
	if doc.Has(at + ".calls") {
		positive(doc, at+".calls", l.Calls, 1, 1_000_000)
	}
	if doc.Has(at + ".burst") {
		positive(doc, at+".burst", l.Burst, 1, 1_000_000)
	}
	if doc.Has(at + ".per") {
		positive(doc, at+".per", l.Per.Duration, time.Millisecond, 24*time.Hour)
	}
}

func oneOf[T ~string](doc *strict.Document, key string, got T, known []T) {
	if slices.Contains(known, got) || doc.Faulty(key) {
		return
	}
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	hint := "one of " + strings.Join(words, ", ")
	if near := strict.Nearest(string(got), words); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	doc.FaultAt(key, hint, "%.60q is not known here", string(got))
}

func positive[T int | time.Duration](doc *strict.Document, key string, got, least, most T) {
	if (got < least || got > most) && !doc.Faulty(key) {
		doc.FaultAt(key, "", "want %v to %v, got %v", least, most, got)
	}
}

func checkPattern(doc *strict.Document, key, text string, tool bool) {
	server, name, pair := strings.Cut(text, pattern.Pair)
	switch {
	case doc.Faulty(key):
	case text == "" || pair && (server == "" || name == ""):
		doc.FaultAt(key, "", "the pattern is empty")
	case len(text) > 512:
		doc.FaultAt(key, "", "the pattern is longer than 512 bytes")
	case pair && !tool:
		doc.FaultAt(key, "write the server alone", "a server's pattern holds no %q", pattern.Pair)
	case !pair && tool && !strings.ContainsAny(text, ".*") && !strings.Contains(text, "__"):
		doc.FaultAt(key, "write server.tool or server::tool", "the pattern covers no tool: it names no server")
	}
}
