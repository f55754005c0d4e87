package injection

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rule finds one kind of injection in a text in plain form.
type rule struct {
	code     string
	severity Severity
	message  string
	patterns []pattern
}

// pattern is an expression, and the groups of words of which a text must hold at least
// one each to be worth a try: expressions with gaps are slow.
type pattern struct {
	words [][]string
	need  []int                 // the numbers of the groups, once the vocabulary has numbered them
	re    func() *regexp.Regexp // compiled when it is tried first
}

// on makes a pattern of an expression and of groups of words, each "a|b|c". Both are
// brought into plain form letter by letter, as the texts are.
func on(re string, groups ...string) pattern {
	p := pattern{re: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Map(base, re)) })}
	for _, g := range groups {
		p.words = append(p.words, strings.Split(strings.Map(base, g), "|"))
	}
	return p
}

// command is the expression of an order in languages that put the verb first: the
// verb, and then its object with what qualifies it, in either order.
func command(verb, qualifier, object string) string {
	return verb + `[^.]{0,40}(?:` + qualifier + `[^.]{0,30}` + object + `|` + object + `[^.]{0,30}` + qualifier + `)`
}

// admits reports whether a text with words of the groups seen is worth a try.
func (p *pattern) admits(seen []bool) bool {
	return !slices.ContainsFunc(p.need, func(group int) bool { return !seen[group] })
}

// find is where the first of the rule's patterns matches in s, which has words of the
// groups seen, or nil.
func (r *rule) find(s string, seen []bool) []int {
	for i := range r.patterns {
		if p := &r.patterns[i]; p.admits(seen) {
			if m := p.re().FindStringIndex(s); m != nil {
				return m
			}
		}
	}
	return nil
}

// ruleset is the rules with the words of all their patterns.
type ruleset struct {
	rules  []rule
	groups int
	words  [256]*[256][]word // by their first and second bytes
	short  []word            // of one byte
}

type word struct {
	text  string
	group int
}

// rules are made when they are needed: most commands look through nothing.
var rules = sync.OnceValue(func() *ruleset {
	set := &ruleset{rules: allRules()}
	for i := range set.rules {
		for j := range set.rules[i].patterns {
			p := &set.rules[i].patterns[j]
			for _, group := range p.words {
				for _, text := range group {
					set.add(word{text, set.groups})
				}
				p.need = append(p.need, set.groups)
				set.groups++
			}
		}
	}
	return set
})

// add makes a word of the vocabulary findable by its beginning.
func (set *ruleset) add(w word) {
	if len(w.text) < 2 {
		set.short = append(set.short, w)
		return
	}
	if set.words[w.text[0]] == nil {
		set.words[w.text[0]] = new([256][]word)
	}
	second := &set.words[w.text[0]][w.text[1]]
	*second = append(*second, w)
}

// seen are the groups of which s holds a word.
func (set *ruleset) seen(s string) []bool {
	seen := make([]bool, set.groups)
	for _, w := range set.short {
		seen[w.group] = seen[w.group] || strings.Contains(s, w.text)
	}
	for i := 0; i+1 < len(s); i++ {
		seconds := set.words[s[i]]
		if seconds == nil {
			continue
		}
		for _, w := range seconds[s[i+1]] {
			if !seen[w.group] && strings.HasPrefix(s[i:], w.text) {
				seen[w.group] = true
			}
		}
	}
	return seen
}

const (
	person  = `user|human|person|operator`
	people  = person + `|users|humans|people|persons|operators`
	secrets = `credential|password|key|token|secret|variables|history|messages|prompt`
	// notOwner follows a word for a person who is not the owner of something: not
	// "the user's address".
	notOwner = `(?:[^'’\w]|['’](?:[^s]|$)|$)`
)

// allRules are tried on every name, description and value at every level. A gap
// such as [^.]{0,40} ends with the sentence.
func allRules() []rule {
	return []rule{
		{"override", Danger, "it tells the reader to drop its instructions", []pattern{
			on(`\b(?:ignore|disregard|forget|override|bypass)\b[^.]{0,40}\b(?:previous|prior|above|earlier|preceding|system|original|all other|your)\b[^.]{0,30}\b(?:instruction|prompt|rule|direction|guideline)s?\b`,
				"ignore|disregard|forget|override|bypass", "instruction|prompt|rule|direction|guideline"),
			on(`\bnew (?:system )?instructions?\s*:`, "instruction"),
			on(`\byou are now (?:a|an|in|the)\b`, "you are now"),
			on(`\b(?:jailbreak|dan) mode\b`, "jailbreak|dan mode"),
			on(`(?:忽略|忽視|忽视|无视|無視|忘记|忘記|忘掉|跳过|跳過|不要理会|不要理會)[^。]{0,12}(?:之前|以上|上述|先前|前面|此前|系统|系統|所有)[^。]{0,8}(?:指令|指示|提示|规则|規則|要求|说明|說明)`, "忽略|忽視|忽视|无视|無視|忘记|忘記|忘掉|跳过|跳過|理会|理會"),
			on(`(?:ignore|disregard|forget|override|bypass)(?:all|any|the|your|of|these|those|my)*(?:previous|prior|above|earlier|system)(?:system)?(?:instruction|prompt|rule|direction|guideline)`, "ignore|disregard|forget|override|bypass"),
			// Spanish, Portuguese, Italian
			on(command(`\b(?:ignor[ae]|ignoren|ignorar|ignori|olvid[ae]|olviden|descart[ae]|omit[ae]|esque[cç]a|desconsidere|desrespeite|dimentica|trascura|haz caso omiso de|haga caso omiso de)\b`, `\b(?:anterior\w*|previ[aeo]s?|prior\w*|precedent[ei]s?|de arriba|acima|tod[ao]s|tutte|del sistema|do sistema|di sistema|tus|suas)\b`, `\b(?:instruccion(?:es)?|instruc(?:oes|ao)|istruzion[ei]|indicacion(?:es)?|orient(?:acoes)|ordenes|ordens|ordini|reglas|regras|regole|directrices|diretrizes|direttive|prompts?)\b`),
				"ignor|olvid|descart|omit|esquec|desconsider|desrespeit|dimentic|trascur|caso omiso", "instruc|istruz|indicac|orient|orden|ordin|regla|regra|regol|direc|diret|prompt"),
			// French
			on(command(`\b(?:ignore[sz]?|ignorer|oublie[sz]?|oublier|neglige[sz]?|tien(?:s|t)? pas compte|tenez pas compte|fais abstraction|faites abstraction)\b`, `\b(?:precedente?s?|anterieure?s?|ci-dessus|toutes|tous|du systeme|systeme|initiales?)\b`, `\b(?:instructions?|consignes?|directives?|regles?|ordres?|prompts?)\b`),
				"ignore|oublie|neglige|pas compte|abstraction", "instruction|consigne|directive|regle|ordre|prompt"),
			// German
			on(command(`\b(?:ignorier(?:e|t|en)?|missacht(?:e|et|en)|vergiss|vergesst|vergessen sie|verwirf|verwerfen sie|umgeh(?:e|en)?)\b`, `\b(?:bisherig\w*|vorherig\w*|vorig\w*|fruhere\w*|obig\w*|alle[nrs]?|samtliche\w*|vorangegangen\w*|vorangehend\w*|vorstehend\w*|deine|ihre|system\w*)\b`, `(?:anweisung|instruktion|regel|vorgabe|anordnung|befehl|richtlinie|prompt)\w*`),
				"ignorier|missacht|vergiss|vergess|verwirf|verwerfen|umgeh", "anweisung|instruktion|regel|vorgabe|anordnung|befehl|richtlinie|prompt"),
			// Russian
			on(command(`(?:игнорируй|проигнорируй|забудь|отбрось|отмени|не обращай внимания на|не обращайте внимания на)(?:те)?`, `(?:предыдущ|прежн|вышеуказанн|вышестоящ|системн|ранее|прошл|все|всех)\p{L}*`, `(?:инструкци|указани|правил|команд|предписани|промпт)\p{L}*`),
				"игнорируй|забудь|отбрось|отмени|внимания на", "инструкци|указани|правил|команд|предписани|промпт"),
			// Japanese, Korean: the verb comes last
			on(`(?:これまで|今まで|以前|上記|前述|以上|先ほど|先程|すべて|全て|全部|あらゆる|システム|前)[^。]{0,16}(?:指示|命令|プロンプト|ルール|規則|指令)[^。]{0,12}(?:無視し[てろ、。なまく]|無視せよ|忘れて|忘れろ|忘れなさい|従わない|従わず|破棄し)`, "無視|忘れ|従わ|破棄"),
			on(`(?:이전|앞선|위의|위|지금까지|기존|모든|시스템|앞의)[^.]{0,16}(?:지시|명령|지침|프롬프트|규칙|안내)[^.]{0,12}(?:무시하(?:고|세요|십시오|라|시오|며)|무시해|잊어|잊으|따르지)`, "무시|잊어|잊으|따르지"),
		}},
		{"secrecy", Danger, "it wants something kept from the person", []pattern{
			// The person is the one who is not to be told …
			on(`\b(?:do not|don't|don’t|dont|never|must not|mustn't|should not|shouldn't|cannot|can't|avoid|refrain from)\b[^.]{0,24}\b(?:tell|telling|inform|informing|notify|notifying|alert|alerting|warn|warning)\b (?:even )?(?:the |your |this |any |a )?(?:`+person+`|anyone|anybody)\b`+notOwner,
				"tell|inform|notify|alert|warn", person+"|anyone|anybody"),
			on(`\bwithout\b[^.]{0,16}\b(?:telling|informing|notifying|alerting|warning|asking)\b (?:the |your )(?:`+person+`)\b`+notOwner, "without", person),
			// … of which a text for people may well be the object: "mention users", "reveal a user's address".
			on(`\b(?:do not|don't|don’t|dont|never|must not|mustn't|should not|shouldn't|avoid|without)\b[^.]{0,24}\b(?:say|saying|mention|mentioning|reveal|revealing|disclose|disclosing|report|reporting|show|showing|display|displaying|expose|explain|describe|surface)\b[^.]{0,40}\bto (?:the |your |this |any )?(?:`+people+`)s?\b`+notOwner,
				"say|mention|reveal|disclos|report|show|display|expose|explain|describe|surface", people),
			on(`\b(?:not|never|n't|n’t)\b (?:ever )?(?:to )?(?:be )?(?:shown|displayed|revealed|mentioned|visible|disclosed|reported|explained|told|made known|surfaced)\b[^.]{0,20}\bto (?:the |your |any )?(?:`+people+`)s?\b`+notOwner,
				"shown|displayed|revealed|mentioned|visible|disclosed|reported|explained|told|known|surfaced", people),
			on(`\bthe (?:`+person+`) (?:must not|mustn't|should not|shouldn't|need not|needn't|does not need to|doesn't need to|is not to|may not|must never|should never) (?:ever )?(?:know|learn|notice|find out|be told|be informed|be notified|be aware|become aware|be made aware)\b`, "know|learn|notice|find out|told|informed|notified|aware", person),
			on(`\b(?:do not|don't|don’t|dont|never)\b (?:mention|reveal|disclose|admit|acknowledge)\b (?:that you |(?:this|these|the above|your) (?:instruction|note|step|prompt|call|action|message|order|rule)s?\b)`, "mention|reveal|disclose|admit|acknowledge"),
			on(`\b(?:hide|conceal|keep|withhold)\b (?:this|it|that|these|those|them|all of this|everything|the fact|the call|the existence|the result|what you|your)\b[^.]{0,40}\bfrom (?:the |your )?(?:`+person+`)\b`+notOwner, "hide|conceal|keep|withhold", person),
			on(`\bkeep\b[^.]{0,50}\b(?:between us|to yourself)\b`, "between us|to yourself"),
			on(`\bsilently\b[^.]{0,30}\b(?:call|read|include|pass|run|execute|forward|send (?:it|them|all|everything|a copy|the (?:data|result|content|file|history|conversation)s?))\b`, "silently"),
			on(`donot(?:tell|inform)(?:the)?user`, "donot"),
			on(`(?:不要|别|別|请勿|請勿|切勿|不得|无需|無需|不能|不可|不必)[^。]{0,6}(?:告诉|告訴|告知|提及|透露|通知|显示给|顯示給|展示给|展示給|让|讓)[^。]{0,4}(?:用户|用戶|使用者|主人)`, "用户|用戶|使用者|主人"),
			// Spanish, Portuguese, Italian
			on(`\b(?:no|nao|non|nunca|jamas|jamais|mai|sin|sem|senza)\b[^.]{0,16}\b(?:dig[ao]\w*|dic\w*|cuent\w*|inform\w*|mencion\w*|menzion\w*|revel\w*|rivel\w*|avis\w*|muestr\w*|mostr\w*|comuni\w*|decir\w*|dizer\w*|dir(?:e|lo|glielo)|con(?:te|tar|tes)|parl\w*|hables|fale)\b[^.]{0,30}\b(?:al usuario|a la usuaria|a la persona|ao usuario|a usuaria|ao utilizador|a pessoa|all['’]utente|alla persona)\b`,
				"usuari|utilizador|utente|persona|pessoa"),
			// French
			on(`\b(?:n['’]|ne )[^.]{0,16}\b(?:dis|dites|parle[sz]?|mentionne[sz]?|revele[sz]?|informe[sz]?|previens|prevenez|montre[sz]?|avertis|avertissez|signale[sz]?|communique[sz]?)\b (?:surtout |absolument )?(?:pas|rien|jamais)\b[^.]{0,30}l['’](?:utilisateur|utilisatrice|usager)`, "utilisat|usager"),
			on(`\bsans\b (?:le |la |en |rien )?(?:dire|reveler|mentionner|informer|prevenir|avertir|signaler)\b[^.]{0,16}l['’](?:utilisateur|utilisatrice|usager)`, "sans "),
			// German
			on(`\b(?:sage?|sagen sie|erzahle?|erzahlen sie|verrate?|verraten sie|informiere?|informieren sie|erwahne?|erwahnen sie|melde|teile?|teilen sie|zeige? (?:es|das|dies\w*))\b[^.]{0,30}\bde[mnr] (?:benutzer|nutzer|anwender|user|menschen|person)(?:in)?\b[^.]{0,20}\b(?:nicht|nichts|niemals|nie)\b`, "benutzer|nutzer|anwender|user|menschen|person"),
			on(`\b(?:nicht|nichts|niemals|nie|ohne)\b[^.]{0,20}\bde[mnr] (?:benutzer|nutzer|anwender|user|menschen)(?:in)?\b[^.]{0,20}\b(?:sagen|erzahlen|verraten|mitteilen|mitzuteilen|zu sagen|zu informieren|informieren|erwahnen|zu fragen)\b`, "benutzer|nutzer|anwender|user|menschen"),
			on(`\b(?:sage?|erzahle?|verrate?|erwahne?|teile?|informiere?)\b[^.]{0,20}\b(?:nicht|nichts|niemals|nie)\b[^.]{0,16}\b(?:de[mnr]|gegenuber de[mr]) (?:benutzer|nutzer|anwender|user|menschen)(?:in)?\b`, "benutzer|nutzer|anwender|user|menschen"),
			// Russian
			on(`(?:^|[^\p{L}])(?:не|никогда не|ничего не)[^\p{L}]{1,3}(?:говори|сообщай|рассказывай|упоминай|показывай|раскрывай|информируй|сказывай|скажи|сообщи)\p{L}*[^.]{0,30}пользовател\p{L}*`, "пользовател"),
			on(`пользовател\p{L}{1,3}[^.]{0,16}не (?:говори|сообщай|рассказывай|упоминай|показывай|раскрывай|информируй)\p{L}*`, "пользовател"),
			on(`(?:^|[^\p{L}])без ведома пользователя`, "без ведома"),
			// Japanese, Korean
			on(`(?:ユーザー|ユーザ|利用者|使用者)[^。]{0,8}[にへ][^。]{0,12}(?:伝え|言わ|知らせ|教え|話さ|見せ|報告し|明かさ|伝わら)(?:ないで|ないこと|ないように|ず|てはいけ|てはなら|るな|ちゃ)`, "ユーザ|利用者|使用者"),
			on(`(?:사용자|유저|이용자)[^.]{0,8}(?:에게|한테|께)[^.]{0,12}(?:말하|알리|알려 ?주|전하|언급하|보여 ?주|공개하|밝히|이야기하|보고하)지 ?(?:마|말|않)`, "사용자|유저|이용자"),
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
			// The tools are others: what this tool itself needs first is its own matter.
			on(`\bbefore (?:using|calling|invoking|running|you (?:use|call|invoke)|any)\b (?:any |an |the |all |every )*(?:other|another|others|else|tools?|function|action|command)s?\b[^.]{0,80}\b(?:must|first|always|call|read|need|should|have to)\b`, "before "),
			on(`\b(?:must|always|first|should)\b[^.]{0,40}\b(?:call|use|invoke|run|read|execute)\b[^.]{0,60}\bbefore (?:using|calling|invoking|running|any)\b (?:any |an |the |all |every )*(?:other|another|others|else|tools?|function|action)\b`, "before "),
			on(`\b(?:call|use|invoke|run)\b (?:this|it|me)\b[^.]{0,30}\bbefore (?:(?:using|calling|invoking|running) )?(?:any|all|every|each)(?:thing)? (?:of the |the )?(?:others?|else)\b`, "before "),
			on(`(?:调用|使用|呼叫)(?:任何|其他|其它)[^。]{0,8}(?:工具|函数|函數)[^。]{0,6}(?:之前|前)[^。]{0,10}(?:必须|必須|先|务必|務必|请|請)`, "工具|函数|函數"),
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
}
