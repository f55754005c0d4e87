// Package rules is the policy file: which server is trusted how far, which tool
// can do how much harm, and what follows from it.
//
//	trust:
//	  com.example.*: partner          # exact names before patterns
//	risk:
//	  com.example.crm.get_*: low
//	  com.example.crm::files.delete: critical
//	actions: {low: allow, medium: allow, high: ask, critical: deny, unknown: ask}
//	servers: {deny: [com.example.old]}
//	limits:
//	  - {server: com.example.*, calls: 30, per: 1m}
//	flow:
//	  - {from: [unknown, partner], to: [high], then: deny}
//
// In a pattern * stands for any run of characters and ? for one. Of several
// patterns that cover a name one decides: the exact name, else the one that
// spells out the most characters, else the one with fewer wildcards, else the
// first in alphabetical order. The order in the file means nothing.
//
// A tool's pattern covers its canonical name, <server>.<tool>, or is written
// <server>::<tool>. In the first form a dot cannot tell the end of the server
// from a dot in the tool's own name, which the server chooses: the server "git"
// could offer "hub.get" and fall under the rules of "git.hub". So a dot in a
// pattern grants nothing to a tool with a dot of its own, while denials and
// higher risks apply all the same; <server>::<tool> leaves nothing open.
//
// A server may be named by its alias, and a tool by a name that is exported to models,
// once [Rules.Named] has told the rules of them.
//
// Whatever the file does not say is said by DefaultConfig and, for the
// platform's own apps, by the built-in rules; the file's rules come before
// them, however unspecific they are. A server's annotations have no say.
//
// A Rules is immutable. The package counts and remembers nothing.
package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules/pattern"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Builtin is the file of rules that no file says.
const Builtin = "built-in"

// Source is where a rule stands. File is Builtin and Line 0 for what no file says.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Rule string `json:"rule"` // the rule in the file's own words, such as "risk: com.example.*: low"
}

// String is file:line: rule.
func (s Source) String() string {
	if s.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Rule)
	}
	return s.File + ": " + s.Rule
}

// Rules is a policy file, ready to be asked.
type Rules struct {
	config Config
	doc    *strict.Document // positions; nil for the defaults
	names  pattern.Names

	trust, risk   []rule
	serverAllow   []rule
	serverDeny    []rule
	toolAllow     []rule
	toolDeny      []rule
	readAllow     []rule
	readDeny      []rule
	limits        []Budget
	flow          []Source
	builtinTrust  map[string]Trust
	builtinRisk   map[catalog.ID]catalog.Risk
	actionSources map[catalog.Risk]Source
}

type rule struct {
	pattern pattern.Pattern
	value   string
	source  Source
}

// Budget is a rate limit for one server or one tool.
type Budget struct {
	Calls   int           // per Per
	Per     time.Duration // more than zero
	Burst   int           // at least one
	Pattern string        // as written
	Tool    bool          // each tool has a budget of its own, not each server
	Source  Source

	pattern pattern.Pattern
}

// Default is what holds without a file.
func Default() *Rules { return compile(DefaultConfig(), nil) }

// Without are the rules without the built-in ones for some servers, which bear the
// name of an app of the platform's and are none.
func (r *Rules) Without(servers ...string) *Rules {
	if len(servers) == 0 {
		return r
	}
	out := *r
	out.builtinTrust, out.builtinRisk = maps.Clone(r.builtinTrust), maps.Clone(r.builtinRisk)
	maps.DeleteFunc(out.builtinTrust, func(server string, _ Trust) bool { return slices.Contains(servers, server) })
	maps.DeleteFunc(out.builtinRisk, func(id catalog.ID, _ catalog.Risk) bool { return slices.Contains(servers, id.Server) })
	return &out
}

// Config is the policy with everything filled in. It is not to be changed.
func (r *Rules) Config() *Config { return &r.config }

func compile(c *Config, doc *strict.Document) *Rules {
	r := &Rules{config: *c, doc: doc, actionSources: map[catalog.Risk]Source{}}
	for key, t := range c.Trust {
		r.trust = append(r.trust, r.rule("trust."+key, key, string(t), "trust: %s: %s", key, t))
	}
	for key, k := range c.Risk {
		r.risk = append(r.risk, r.rule("risk."+key, key, k, "risk: %s: %s", key, k))
	}
	slices.SortFunc(r.trust, func(a, b rule) int { return a.pattern.Compare(b.pattern) })
	slices.SortFunc(r.risk, func(a, b rule) int { return a.pattern.Compare(b.pattern) })
	list := func(key string, patterns []string) (out []rule) {
		for i, p := range patterns {
			out = append(out, r.rule(fmt.Sprintf("%s[%d]", key, i), p, "", "%s: %s", key, p))
		}
		slices.SortFunc(out, func(a, b rule) int { return a.pattern.Compare(b.pattern) })
		return out
	}
	r.serverAllow, r.serverDeny = list("servers.allow", c.Servers.Allow), list("servers.deny", c.Servers.Deny)
	r.toolAllow, r.toolDeny = list("tools.allow", c.Tools.Allow), list("tools.deny", c.Tools.Deny)
	r.readAllow, r.readDeny = list("resources.allow", c.Resources.Allow), list("resources.deny", c.Resources.Deny)
	for i, l := range c.Limits {
		per := l.Per.Duration
		if per <= 0 {
			per = time.Minute
		}
		b := Budget{Calls: l.Calls, Per: per, Burst: l.Burst, Pattern: l.Server + l.Tool, Tool: l.Tool != "", pattern: pattern.Parse(l.Server + l.Tool)}
		if b.Burst == 0 {
			b.Burst = b.Calls
		}
		b.Source = r.source(fmt.Sprintf("limits[%d]", i), "limits: %s: %d per %s", b.Pattern, b.Calls, per)
		r.limits = append(r.limits, b)
	}
	for i, f := range c.Flow {
		r.flow = append(r.flow, r.source(fmt.Sprintf("flow[%d]", i), "flow: from %v to %v: %s", f.From, f.To, f.Then))
	}
	for _, word := range risks {
		k := risk(word)
		r.actionSources[k] = r.source("actions."+word, "actions: %s: %s", word, c.Actions.Of(k))
	}
	if c.Builtin {
		r.builtinTrust, r.builtinRisk = builtinTrust(), builtinRisk()
	}
	return r
}

func (r *Rules) rule(key, text, value, format string, args ...any) rule {
	return rule{pattern.Parse(text), value, r.source(key, format, args...)}
}

// source is where a key of the file stands, or the built-in default's place.
func (r *Rules) source(key, format string, args ...any) Source {
	s := Source{File: Builtin, Rule: fmt.Sprintf(format, args...)}
	if r.doc != nil && r.doc.Has(key) {
		s.File = r.doc.File
		s.Line, _ = r.doc.At(key)
	}
	return s
}

// Trust is how far a server is trusted.
func (r *Rules) Trust(server string) (Trust, Source) {
	for _, t := range r.trust {
		if t.pattern.Server(server) {
			return Trust(t.value), t.source
		}
	}
	if t, ok := r.builtinTrust[server]; ok {
		return t, Source{File: Builtin, Rule: fmt.Sprintf("trust: %s: %s", server, t)}
	}
	return Unknown, Source{File: Builtin, Rule: "trust: *: unknown"}
}

// Risk is how much harm a tool may do.
func (r *Rules) Risk(id catalog.ID) (catalog.Risk, Source) {
	s := pattern.Of(id)
	var found, harsher *rule
	for i := range r.risk {
		sure, maybe := r.risk[i].pattern.Covers(s)
		if maybe && harsher == nil {
			harsher = &r.risk[i]
		}
		if sure {
			found = &r.risk[i]
			break
		}
	}
	level, source := r.unnamed(id)
	if found != nil {
		level, source = risk(found.value), found.source
	}
	if harsher != nil && harsh(risk(harsher.value)) > harsh(level) {
		level, source = risk(harsher.value), harsher.source
	}
	return level, source
}

// unnamed is the risk of a tool that no rule of the file covers.
func (r *Rules) unnamed(id catalog.ID) (catalog.Risk, Source) {
	if k, ok := r.builtinRisk[id]; ok {
		return k, Source{File: Builtin, Rule: fmt.Sprintf("risk: %s: %s", id.Canonical(), k)}
	}
	trust, _ := r.Trust(id.Server)
	word := r.config.Unlisted.Of(trust)
	return risk(word), r.source("unlisted."+string(trust), "unlisted: %s: %s", trust, word)
}

// Barred says whether the lists deny a tool, and which entry does. Where a list
// of what is allowed lacks it, the source names that list.
func (r *Rules) Barred(id catalog.ID) (Source, bool) {
	s := pattern.Of(id)
	for _, d := range r.serverDeny {
		if d.pattern.Server(id.Server) {
			return d.source, true
		}
	}
	for _, d := range r.toolDeny {
		if _, maybe := d.pattern.Covers(s); maybe {
			return d.source, true
		}
	}
	if len(r.serverAllow) > 0 && !slices.ContainsFunc(r.serverAllow, func(a rule) bool { return a.pattern.Server(id.Server) }) {
		return r.source("servers.allow", "servers.allow does not list %s", id.Server), true
	}
	if len(r.toolAllow) > 0 && !slices.ContainsFunc(r.toolAllow, func(a rule) bool { sure, _ := a.pattern.Covers(s); return sure }) {
		return r.source("tools.allow", "tools.allow does not list %s", id.Canonical()), true
	}
	return Source{}, false
}

// Unreadable says whether the lists bar a server's resources and prompts, and
// which entry does.
func (r *Rules) Unreadable(server string) (Source, bool) {
	for _, denied := range [][]rule{r.serverDeny, r.readDeny} {
		for _, d := range denied {
			if d.pattern.Server(server) {
				return d.source, true
			}
		}
	}
	for _, allowed := range []struct {
		key  string
		list []rule
	}{{"servers.allow", r.serverAllow}, {"resources.allow", r.readAllow}} {
		if len(allowed.list) > 0 && !slices.ContainsFunc(allowed.list, func(a rule) bool { return a.pattern.Server(server) }) {
			return r.source(allowed.key, "%s does not list %s", allowed.key, server), true
		}
	}
	return Source{}, false
}

// Action is what a risk means.
func (r *Rules) Action(k catalog.Risk) (Action, Source) {
	return r.config.Actions.Of(k), r.actionSources[k]
}

// Flow is what happens when data of that trust reaches a tool of that risk; ok
// is false where no rule speaks of it.
func (r *Rules) Flow(from Trust, to catalog.Risk) (a Action, s Source, ok bool) {
	a = Allow
	for i, f := range r.config.Flow {
		if !slices.Contains(f.From, from) || !slices.Contains(f.To, RiskWord(to)) {
			continue
		}
		if worst := a.Stricter(f.Then); !ok || worst != a {
			a, s, ok = worst, r.flow[i], true
		}
	}
	return a, s, ok
}

// Budgets are the rate limits that cover a tool, in the order of the file.
func (r *Rules) Budgets(id catalog.ID) []Budget {
	var out []Budget
	s := pattern.Of(id)
	for _, b := range r.limits {
		covered := !b.Tool && b.pattern.Server(id.Server)
		if b.Tool {
			_, covered = b.pattern.Covers(s)
		}
		if covered {
			out = append(out, b)
		}
	}
	return out
}

// ReviewSource is where a key of the review section stands, such as "changed".
func (r *Rules) ReviewSource(key string, value any) Source {
	return r.source("review."+key, "review: %s: %v", key, value)
}

func risk(word string) catalog.Risk {
	if word == UnknownRisk {
		return catalog.Unknown
	}
	return catalog.Risk(word)
}

func harsh(k catalog.Risk) int { return slices.Index(risks, RiskWord(k)) }

// The platform's own apps. Deleting is not undone by any of them and is high
// (a person is asked), writing is medium, reading is low. A tool that is not
// named here is of unknown risk, in an app of ours as anywhere.
var builtin = map[string]string{
	"im.polaris.weather": "low: get_weather find_city",
	"im.polaris.clock":   "low: get_time list_timers; medium: create_timer create_alarm cancel_timer",
	"im.polaris.diary":   "low: read_entry list_entries search_entries; medium: write_entry; high: delete_entry",
}

func builtinTrust() map[string]Trust {
	out := map[string]Trust{}
	for server := range maps.Keys(builtin) {
		out[server] = Official
	}
	return out
}

func builtinRisk() map[catalog.ID]catalog.Risk {
	out := map[catalog.ID]catalog.Risk{}
	for server, groups := range builtin {
		for group := range strings.SplitSeq(groups, "; ") {
			level, tools, _ := strings.Cut(group, ": ")
			for _, tool := range strings.Fields(tools) {
				out[catalog.ID{Server: server, Tool: tool}] = catalog.Risk(level)
				out[catalog.ID{Server: server, Tool: server + "." + tool}] = catalog.Risk(level)
			}
		}
	}
	return out
}
