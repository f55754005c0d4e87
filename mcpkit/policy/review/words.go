package review

import (
	"regexp"
	"strings"
	"sync"
)

// textRule finds one kind of poison in a text that was brought into plain lower
// case.
type textRule struct {
	code     string
	severity Severity
	message  string
	patterns []pattern
}

// pattern is an expression, and the words of which a text must hold at least one
// from each group to be worth a try: expressions with gaps are slow. Every word
// stands where [spotted] looks: at the beginning of a word, or at a sign.
type pattern struct {
	words [][]string
	need  groups                // the same, once spotter has numbered them
	re    func() *regexp.Regexp // compiled when it is tried first: most runs of the program try none
}

// on makes a pattern of groups of words, each "a|b|c", and an expression.
func on(re string, groups ...string) pattern {
	p := pattern{re: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(re) })}
	for _, g := range groups {
		p.words = append(p.words, strings.Split(g, "|"))
	}
	return p
}

// admits reports whether a text with words of the groups seen is worth a try.
func (r *textRule) admits(seen groups) bool {
	for i := range r.patterns {
		if r.patterns[i].need&^seen == 0 {
			return true
		}
	}
	return false
}

// find is where the first of the rule's patterns matches in s, which holds words
// of the groups seen, or nil.
func (r *textRule) find(s string, seen groups) []int {
	for i := range r.patterns {
		if p := &r.patterns[i]; p.need&^seen == 0 {
			if m := p.re().FindStringIndex(s); m != nil {
				return m
			}
		}
	}
	return nil
}

const (
	people  = `user|human|person|operator`
	secrets = `credential|password|key|token|secret|variables|history|messages|prompt`
)

// textRules are tried on every name, description and value at every level. A gap
// such as [^.]{0,40} ends with the sentence.
var textRules = []textRule{
	{"override", Danger, "it tells the reader to drop its instructions", []pattern{
		on(`\b(?:ignore|disregard|forget|override|bypass)\b[^.]{0,40}\b(?:previous|prior|above|earlier|preceding|system|original|all other|your)\b[^.]{0,30}\b(?:instruction|prompt|rule|direction|guideline)s?\b`,
			"ignore|disregard|forget|override|bypass", "instruction|prompt|rule|direction|guideline"),
		on(`\bnew (?:system )?instructions?\s*:`, "instruction"),
		on(`\byou are now (?:a|an|in|the)\b`, "you are now"),
		on(`\b(?:jailbreak|dan) mode\b`, "jailbreak|dan mode"),
		on(`(?:忽略|无视|忘记|忘掉|跳过)[^。]{0,12}(?:之前|以上|上述|先前|前面|此前|系统|所有)[^。]{0,8}(?:指令|提示|规则|要求|说明)`, "忽略|无视|忘记|忘掉|跳过"),
	}},
	{"secrecy", Danger, "it wants something kept from the person", []pattern{
		on(`\b(?:do not|don't|dont|never|must not|without)\b[^.]{0,24}\b(?:tell|telling|mention|mentioning|inform|informing|reveal|revealing|notify|notifying|alert|alerting|disclose|disclosing|show (?:this|it) to)\b[^.]{0,24}\b(?:`+people+`)s?\b`,
			"do not|don't|dont|never|must not|without", "tell|mention|inform|reveal|notif|alert|disclos|show ", people),
		on(`\b(?:hide|conceal|keep)\b[^.]{0,30}\bfrom (?:the )?(?:`+people+`)s?\b`, "hide|conceal|keep", people),
		on(`\bsilently\b[^.]{0,30}\b(?:call|send|read|include|pass|run|execute|forward)\b`, "silently"),
		on(`(?:不要|别|请勿|切勿|不得|无需|不能)[^。]{0,6}(?:告诉|告知|提及|透露|通知|显示给|让)[^。]{0,4}(?:用户|使用者|主人)`, "用户|使用者|主人"),
	}},
	{"role_marker", Danger, "it poses as a message of the system or as the end of the tool's text", []pattern{
		on(`</?\s*(?:important|system|instructions?|secret|hidden|admin|assistant|critical|tool|function)(?:[\s_-][^<>]{0,40})?>`, "<"),
		on(`<\|[a-z_]{2,20}\|>|<</?sys>>`, "<"),
		on(`\[/?(?:inst|system|sys)\]`, "["),
		on(`\n ?#{0,4} ?(?:system|assistant)\s*:\s`, "system|assistant"),
		on(`(?:^|\n) ?#{0,4} ?(?:system|assistant) (?:prompt|message|note|override)\s*:`, "system|assistant"),
		on(`\bbegin (?:system|hidden) (?:prompt|instructions?)\b`, "begin "),
	}},
	{"secret_path", Danger, "it names a place where secrets are kept", []pattern{
		on(`\.ssh\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\bauthorized_keys\b`, ".ssh|id_|authorized_keys"),
		on(`(?:^|[\s/'"(\x60])\.env\b`, ".env"),
		on(`\.aws/|\.kube/|\.gnupg\b|\.netrc\b|\.npmrc\b|\.pypirc\b|\.git-credentials\b|\.docker/config|\.keychain\b`, ".aws|.kube|.gnupg|.netrc|.npmrc|.pypirc|.git-c|.docker|.keychain"),
		on(`/etc/(?:passwd|shadow|sudoers)\b|/proc/(?:self|\d+)/environ\b`, "/etc/|/proc/"),
		on(`\b(?:mcp|claude_desktop_config)\.json\b|\bwallet\.dat\b`, "mcp.json|claude_desktop_config|wallet.dat"),
	}},
	{"exfiltration", Danger, "it asks for data to be sent elsewhere", []pattern{
		on(`\b(?:send|upload|forward|transmit|exfiltrate|leak)\b[^.]{0,60}\b(?:chat history|conversation history|previous messages|system prompt|credentials|passwords?|api keys?|access tokens?|private keys?|ssh keys?|secrets|environment variables)\b`,
			"send|upload|forward|transmit|exfiltrate|leak", secrets),
		on(`\b(?:read|open|load|cat|fetch)\b[^.]{0,60}\b(?:file|contents?|key|history|prompt|config\w*)\b[^.]{0,60}\b(?:pass|include|send|put|add|attach|append|place)\b[^.]{0,40}\b(?:as|in|into|to|via)\b[^.]{0,30}\b(?:parameter|param|argument|field|side ?notes?|notes?|url|endpoint|server|request)\b`,
			"read|open|load|cat|fetch", "pass|include|send|put|add|attach|append|place", "param|argument|field|note|side|url|endpoint|server|request"),
		on(`\b(?:send|post|upload|forward|transmit|exfiltrate)\b[^.]{0,80}\bto https?://`, "to http"),
		on(`!\[[^\]]{0,80}\]\(https?://`, "]("),
	}},
	{"order", Danger, "it orders what else is to be done around the call", []pattern{
		on(`\bbefore (?:using|calling|invoking|running|you (?:use|call|invoke)|any)\b[^.]{0,50}\b(?:tools?|function|action|command)\b[^.]{0,80}\b(?:must|first|always|call|read|need|should|have to)\b`, "before "),
		on(`\b(?:must|always|first|should)\b[^.]{0,40}\b(?:call|use|invoke|run|read|execute)\b[^.]{0,60}\bbefore (?:using|calling|invoking|running|any)\b[^.]{0,40}\b(?:tools?|function|action|else)\b`, "before "),
		on(`(?:调用|使用)(?:任何|其他|本|此|该)[^。]{0,8}(?:工具|函数)[^。]{0,6}(?:之前|前)[^。]{0,10}(?:必须|先|务必|请)`, "工具|函数"),
	}},
	{"steering", Warning, "it wants to be used in place of others, or at every occasion", []pattern{
		on(`\b(?:instead of|rather than|in place of|never use|do not use|don't use)\b[^.]{0,30}\b(?:any )?other (?:tool|server)s?\b`, "other tool|other server"),
		on(`\bwhenever (?:you|the user|any|another)\b[^.]{0,60}\b(?:tool|call|email|message|file)\b[^.]{0,60}\b(?:must|always|also|instead)\b`, "whenever"),
	}},
	{"mentions_context", Warning, "it asks for the conversation or the model's thoughts", []pattern{
		on(`\b(?:conversation|chat|message)[ _-]?(?:history|log|transcript)\b`, "conversation|chat|message"),
		on(`\bsystem[ _-]?prompt\b|\bchain[ _-]of[ _-]thought\b|\ball (?:previous|prior) (?:messages|tool (?:calls|results))\b`, "system|chain|all "),
		on(`\b(?:entire|full|whole) (?:conversation|chat|context)\b`, "entire|full|whole"),
	}},
	{"mentions_secret", Note, "it speaks of secrets", []pattern{
		on(`\b(?:passwords?|passphrases?|api[ _-]?keys?|access[ _-]?tokens?|private[ _-]?keys?|client[ _-]?secrets?|credentials?)\b`, "pass|api|access|private|client|credential"),
	}},
	{"encoded", Warning, "it holds a long run that nobody can read", []pattern{
		on(`(?:\\x[0-9a-f]{2}){16,}|(?:%[0-9a-f]{2}){24,}`, `\x|%`),
	}},
}
