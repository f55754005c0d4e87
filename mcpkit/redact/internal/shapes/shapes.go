// Package shapes knows what secrets look like: the tokens that vendors document,
// the values of names such as "password", and the marker that takes the place of a
// secret. It looks at one place of a text at a time; package redact finds the places.
package shapes

import (
	"slices"
	"strings"
	"unicode"
)

// Rule knows the shape of one kind of secret. A text can hold such a secret only
// where it holds one of the Literals. Find is given the index at which a literal
// begins and the index after it, and returns the range to remove, or 0, 0.
type Rule struct {
	Name     string
	Literals []string
	Find     func(s string, at, after int) (start, end int)
}

// Names of rules that are not found by a literal.
const (
	Secret   = "secret"   // a configured value
	Password = "password" // the value of a key that is named like a secret
)

// Rules are the shapes, in the order in which they are tried.
var Rules = []Rule{
	{"aws-access-key", []string{"AKIA", "ASIA"}, token(upperAlnum, 16, 16, 0)},
	{"github-token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, token(alnum, 36, 255, 0)},
	{"github-token", []string{"github_pat_"}, token(word, 22, 255, 0)},
	{"gitlab-token", []string{"glpat-"}, token(dashed, 20, 255, 0)},
	{"anthropic-key", []string{"sk-ant-"}, token(dashed, 20, 300, 0)},
	{"openai-key", []string{"sk-proj-", "sk-svcacct-", "sk-admin-"}, token(dashed, 20, 300, 0)},
	{"api-key", []string{"sk-"}, token(dashed, 20, 300, 16)},
	{"slack-token", []string{"xoxb-", "xoxp-", "xoxa-", "xoxo-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xapp-"}, token(dashed, 12, 300, 0)},
	{"google-key", []string{"AIza"}, token(dashed, 35, 35, 0)},
	{"google-token", []string{"ya29."}, token(dashed, 20, 2048, 0)},
	{"stripe-key", []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"}, token(alnum, 16, 255, 0)},
	{"npm-token", []string{"npm_"}, token(alnum, 36, 36, 0)},
	{"huggingface-token", []string{"hf_"}, token(alnum, 30, 64, 0)},
	{"telegram-token", []string{":AA"}, telegram},
	{"sendgrid-key", []string{"SG."}, parts(dashed, 22, 43)},
	{"airtable-token", []string{"pat"}, parts(alnum, 14, 64)},
	{"webhook", []string{"hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"}, webhook},
	{"digitalocean-token", []string{"dop_v1_", "doo_v1_", "dor_v1_"}, token(alnum, 64, 64, 0)},
	{"notion-token", []string{"ntn_"}, token(alnum, 40, 64, 0)},
	{"linear-key", []string{"lin_api_", "lin_oauth_"}, token(alnum, 32, 64, 0)},
	{"figma-token", []string{"figd_", "figu_", "figo_"}, token(dashed, 36, 64, 0)},
	{"api-key", []string{"gsk_", "xai-", "pplx-", "nvapi-", "r8_", "sbp_", "glsa_", "rubygems_", "dckr_pat_", "sntrys_", "sntryu_", "pscale_tkn_", "pscale_pw_", "tskey-", "PMAK-"}, token(dashed, 24, 300, 0)},
	{"vault-token", []string{"hvs.", "hvb.", "hvr."}, token(dashed, 24, 500, 0)},
	{"shopify-token", []string{"shpat_", "shpca_", "shppa_", "shpss_"}, token(alnum, 32, 32, 0)},
	{"pypi-token", []string{"pypi-AgE"}, token(dashed, 40, 1000, 0)},
	{"databricks-token", []string{"dapi"}, token(digit|lower|dash, 32, 34, 24)},
	{"doppler-token", []string{"dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim."}, token(dashed|base64, 40, 80, 0)},
	{"atlassian-token", []string{"ATATT3", "ATCTT3", "ATSTT3"}, token(dashed|base64, 50, 400, 0)},
	{"gitlab-token", []string{"gldt-", "glptt-", "glrt-", "glcbt-", "glsoat-"}, token(dashed, 20, 255, 0)},
	{"cookie", []string{"Cookie: ", "cookie: "}, cookie},
	{"jwt", []string{"eyJ"}, jwt},
	{"bearer", []string{"Bearer ", "bearer ", "BEARER "}, bearer},
	{"basic-auth", []string{"Basic ", "basic "}, basic},
	{"private-key", []string{"-----BEGIN "}, privateKey},
	{"url-password", []string{"://"}, urlPassword},
	{Password, nil, Assignment}, // tried at every = and :
}

// names are what may stand in a marker. An init function gathers them, because Rules
// itself refers to markers.
var names = []string{Secret}

func init() {
	for _, r := range Rules {
		names = append(names, r.Name)
	}
}

const markerHead = "[redacted:"

// Marker stands where a secret was.
func Marker(rule string) string { return markerHead + rule + "]" }

// MarkerAt is the length of the marker that s begins with, or 0.
func MarkerAt(s string) int {
	rest, ok := strings.CutPrefix(s, markerHead)
	if !ok {
		return 0
	}
	end := strings.IndexByte(rest, ']')
	if end < 0 || !slices.Contains(names, rest[:end]) {
		return 0
	}
	return len(s) - len(rest) + end + 1
}

// OfMarkers reports whether s is part of a marker. Such a word, "password" for
// one, cannot be removed from the text that says that it was removed.
func OfMarkers(s string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(Marker(name), s) })
}

// Frequency ranks bytes by how often texts hold them, from 0 for the rarest to 3.
func Frequency(c byte) int {
	switch {
	case strings.IndexByte(" etaoinsrhldcum", c) >= 0:
		return 3
	case class[c]&(lower|digit) != 0 || strings.IndexByte("\"./,", c) >= 0 || c >= 0x80:
		return 2
	case class[c]&upperCase != 0:
		return 1
	}
	return 0
}

// Classes of bytes.
const (
	digit = 1 << iota
	lower
	upperCase
	underscore
	dash
	base64    // + / = . ~
	authority // ends the authority of a URL, as blanks and controls do
	lastNamed // ends the name of a secret: password, secret, token, key, passphrase, auth

	upperAlnum = digit | upperCase
	alnum      = digit | lower | upperCase
	word       = alnum | underscore
	dashed     = word | dash
	credential = dashed | base64
)

var class = func() (t [256]uint8) {
	for c := range 256 {
		switch {
		case c >= '0' && c <= '9':
			t[c] = digit
		case c >= 'a' && c <= 'z':
			t[c] = lower
		case c >= 'A' && c <= 'Z':
			t[c] = upperCase
		case c == '_':
			t[c] = underscore
		case c == '-':
			t[c] = dash
		case strings.IndexByte("+/=.~", byte(c)) >= 0:
			t[c] = base64
		}
		if c <= ' ' || strings.IndexByte("/?#\"'<>`", byte(c)) >= 0 {
			t[c] |= authority
		}
		if strings.IndexByte("dtnyehDTNYEH", byte(c)) >= 0 {
			t[c] |= lastNamed
		}
	}
	return t
}()

// run is the end of the bytes of a class that begin at i.
func run(s string, i int, of uint8) int {
	for i < len(s) && class[s[i]]&of != 0 {
		i++
	}
	return i
}

// startsWord reports whether a token may begin at i: not inside a word.
func startsWord(s string, i int) bool { return i == 0 || class[s[i-1]]&word == 0 }

// token finds a literal followed by least to most bytes of a class, as a word of
// its own. Where plain is above 0 the rest must also hold a digit and that many
// letters and digits in a row: "sk-" begins ordinary words too.
func token(of uint8, least, most, plain int) func(string, int, int) (int, int) {
	return func(s string, at, after int) (int, int) {
		if !startsWord(s, at) {
			return 0, 0
		}
		end := run(s[:min(len(s), after+most+1)], after, of)
		if n := end - after; n < least || n > most {
			return 0, 0
		}
		if plain > 0 {
			longest, digits := 0, false
			for i := after; i < end; i++ {
				n := run(s, i, alnum) - i
				longest, i = max(longest, n), i+n
			}
			for i := after; i < end && !digits; i++ {
				digits = class[s[i]]&digit != 0
			}
			if longest < plain || !digits {
				return 0, 0
			}
		}
		return at, end
	}
}

// parts finds a literal followed by two parts of a class with a dot between, of
// exactly those lengths, as a word of its own.
func parts(of uint8, first, second int) func(string, int, int) (int, int) {
	return func(s string, at, after int) (int, int) {
		if !startsWord(s, at) {
			return 0, 0
		}
		dot := run(s[:min(len(s), after+first+1)], after, of)
		if dot != after+first || dot == len(s) || s[dot] != '.' {
			return 0, 0
		}
		end := run(s[:min(len(s), dot+second+2)], dot+1, of)
		if end != dot+1+second {
			return 0, 0
		}
		return at, end
	}
}

// telegram finds the token of a bot: its id, a colon, and 35 characters that begin
// with AA.
func telegram(s string, at, after int) (int, int) {
	start := at
	for start > 0 && at-start < 12 && class[s[start-1]]&digit != 0 {
		start--
	}
	end := run(s[:min(len(s), after+34)], after, dashed)
	// In a URL the id follows the word "bot".
	if n := at - start; n < 8 || n > 10 || end-after != 33 || !startsWord(s, start) && !strings.HasSuffix(s[:start], "/bot") {
		return 0, 0
	}
	return start, end
}

// webhook finds the part of an address that lets whoever knows it post.
func webhook(s string, _, after int) (int, int) {
	end := after
	for end < len(s) && (class[s[end]]&dashed != 0 || s[end] == '/') {
		end++
	}
	if end-after < 20 || !strings.Contains(s[after:end], "/") {
		return 0, 0
	}
	return after, end
}

// cookie finds the value of the first cookie of a header (RFC 6265 sections 4.1 and
// 4.2); of a Cookie header it finds all values with the names between.
func cookie(s string, at, after int) (int, int) {
	name := run(s, after, dashed)
	if name == after || name == len(s) || s[name] != '=' {
		return 0, 0
	}
	start, end := name+1, name+1
	for end < len(s) && s[end] > ' ' && s[end] < 0x7f && strings.IndexByte("\"',;\\", s[end]) < 0 {
		end++
	}
	if end-start < 8 || placeholder(s[start:end]) {
		return 0, 0
	}
	for at == 0 || s[at-1] != '-' { // not Set-Cookie, whose attributes stay
		next := strings.TrimPrefix(s[end:], "; ")
		value := strings.IndexByte(next, '=')
		if len(next) == len(s[end:]) || value <= 0 || run(next, 0, dashed) != value {
			break
		}
		end = len(s) - len(next) + value + 1
		for end < len(s) && s[end] > ' ' && s[end] < 0x7f && strings.IndexByte("\"',;\\", s[end]) < 0 {
			end++
		}
	}
	return start, end
}

// maxInnerHeader is how long the first part of a jwt is that follows a dash: in a
// long run of dashes and words each could be the beginning of one.
const maxInnerHeader = 512

// jwt finds three base64url parts of which the first two are JSON objects.
func jwt(s string, at, _ int) (int, int) {
	if !startsWord(s, at) {
		return 0, 0
	}
	limit := len(s)
	if at > 0 && s[at-1] == '-' {
		limit = min(limit, at+maxInnerHeader)
	}
	first := run(s[:limit], at, dashed)
	if first-at < 10 || !strings.HasPrefix(s[first:], ".eyJ") {
		return 0, 0
	}
	second := run(s, first+1, dashed)
	if second-first < 8 || second == len(s) || s[second] != '.' {
		return 0, 0
	}
	return at, run(s, second+1, dashed)
}

// bearer finds the credentials of an Authorization header (RFC 6750 section 2.1).
func bearer(s string, _, after int) (int, int) {
	end := run(s, after, credential)
	end -= len(s[after:end]) - len(strings.TrimRight(s[after:end], ".")) // of the sentence
	if end-after < 16 || !strings.ContainsAny(s[after:end], "0123456789") {
		return 0, 0
	}
	return after, end
}

// basic is bearer for user and password (RFC 7617), only in a header.
func basic(s string, at, after int) (int, int) {
	if !strings.Contains(strings.ToLower(s[max(0, at-20):at]), "authorization") {
		return 0, 0
	}
	if end := run(s, after, credential); end-after >= 6 {
		return after, end
	}
	return 0, 0
}

// privateKey finds a PEM block (RFC 7468) to its end, or to the end of the text.
func privateKey(s string, at, after int) (int, int) {
	label, _, ok := strings.Cut(s[after:min(len(s), after+60)], "-----")
	if !ok || !strings.HasSuffix(label, "PRIVATE KEY") && !strings.HasSuffix(label, "PRIVATE KEY BLOCK") {
		return 0, 0
	}
	body := s[after+len(label)+5:]
	closing := "-----END " + label + "-----"
	if i := strings.Index(body, closing); i >= 0 {
		return at, after + len(label) + 5 + i + len(closing)
	}
	return at, len(s)
}

// urlPassword finds the password of scheme://user:password@host.
func urlPassword(s string, at, after int) (int, int) {
	if at == 0 || class[s[at-1]]&alnum == 0 {
		return 0, 0
	}
	limit := min(len(s), after+512)
	end := after
	for end < limit && class[s[end]]&authority == 0 {
		end++
	}
	host := strings.LastIndexByte(s[after:end], '@')
	if host < 0 {
		return 0, 0
	}
	colon := strings.IndexByte(s[after:after+host], ':')
	if colon < 0 {
		return 0, 0
	}
	start, end := after+colon+1, after+host
	if pass := s[start:end]; pass == "" || placeholder(pass) {
		return 0, 0
	}
	return start, end
}

// Assignment finds the value in password=value, "token": "value" and the like.
func Assignment(s string, at, after int) (int, int) {
	// Before the sign: blanks, a quote, the name.
	i := at
	for i > 0 && (s[i-1] == ' ' || s[i-1] == ':') && at-i < 2 {
		i--
	}
	if i > 0 && (s[i-1] == '"' || s[i-1] == '\'' || s[i-1] == '`') {
		i--
	}
	if !endsLikeSecret(s[:i]) {
		return 0, 0
	}
	from := i
	for from > 0 && i-from < 64 && (class[s[from-1]]&dashed != 0 || s[from-1] == '.') {
		from--
	}
	name := s[from:i]
	if !SecretName(name) {
		return 0, 0
	}
	// After it: an arrow, blanks, a quote, the value.
	if s[at] == '=' && after < len(s) && (s[after] == '>' || s[after] == '=') {
		after++
	}
	for blanks := 0; after < len(s) && s[after] == ' ' && blanks < 3; blanks++ {
		after++
	}
	if after == len(s) {
		return 0, 0
	}
	if q := s[after]; q == '"' || q == '\'' || q == '`' {
		after++
		n := strings.IndexByte(s[after:min(len(s), after+4096)], q)
		if n < 0 {
			return 0, 0
		}
		value := s[after : after+n]
		spaced := strings.ContainsAny(value, " \t")
		if strings.ContainsAny(value, "\r\n") || spaced && !strings.Contains(strings.ToLower(name), "pass") || !Plausible(value, true) {
			return 0, 0
		}
		return after, after + n
	}
	certain := s[at] == '=' && !strings.ContainsFunc(name, unicode.IsLower) // PASSWORD=, as in an environment
	end := bare(s[:min(len(s), after+enough)], after)
	if end == after+enough { // whoever reads on to its end takes it
		if !Plausible(s[after:end], certain) {
			return 0, 0
		}
		return after, bare(s, end)
	}
	if end < len(s) && (s[end] == '(' || s[end] == '[') && end > after { // a call or an index, in code
		return 0, 0
	}
	value := s[after:end]
	if trimmed := strings.TrimRight(value, ".:"); s[at] == ':' {
		value, end = trimmed, after+len(trimmed)
	}
	if !Plausible(value, certain) {
		return 0, 0
	}
	return after, end
}

// enough is how many bytes of a value without quotes say whether it is a secret: a
// text may be one long value, and hold the name of another one every few bytes.
const enough = 256

// bare is the end of the value without quotes that goes on at i.
func bare(s string, i int) int {
	for i < len(s) && s[i] > ' ' && s[i] < 0x7f && strings.IndexByte("\"',;&<>()[]{}|`\\", s[i]) < 0 {
		i++
	}
	return i
}

// SecretName reports whether the value of something with this name is a secret:
// password, apiKey, GITHUB_TOKEN, but not nextPageToken.
func SecretName(name string) bool {
	if len(name) < 3 || len(name) > 64 || !endsLikeSecret(name) {
		return false
	}
	var buf [64]byte
	b := buf[:0]
	for _, c := range []byte(name) {
		switch k := class[c]; {
		case k&upperCase != 0:
			b = append(b, c+'a'-'A')
		case k&(lower|digit) != 0:
			b = append(b, c)
		}
	}
	n := string(b)
	if n == "" {
		return false
	}
	var ends []string
	switch n[len(n)-1] {
	case 'd':
		ends = []string{"password", "passwd"}
		if n != "pwd" && n != "oldpwd" { // the working directory of every environment
			ends = append(ends, "pwd")
		}
	case 'e':
		ends = []string{"passphrase"}
	case 't':
		ends = []string{"secret"}
	case 'y':
		ends = []string{"apikey", "accesskey", "accountkey", "authkey", "secretkey", "privatekey"}
	case 'h':
		ends = []string{"basicauth"}
	}
	if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(n, end) }) {
		return true
	}
	kind, ok := strings.CutSuffix(n, "token")
	if !ok {
		return false
	}
	// Tokens that are places in a list or in a text, and must be passed on.
	for _, end := range []string{"page", "next", "previous", "prev", "continuation", "sync", "pagination", "progress", "resume", "resumption", "cancel", "cancellation", "max", "min", "start", "stop", "end", "eos", "bos", "pad", "sep", "mask", "change", "skip", "cursor", "scroll", "upload", "delta", "seek", "marker", "offset", "bookmark", "watch", "checkpoint", "position", "after", "before", "forward", "backward", "starting", "continue", "list", "query", "iterator", "more", "idempotency"} {
		if strings.HasSuffix(kind, end) {
			return false
		}
	}
	return true
}

// endsLikeSecret reports quickly that name cannot be one of SecretName's.
func endsLikeSecret(name string) bool {
	n := len(name)
	if n < 2 || class[name[n-1]]&lastNamed == 0 {
		return false
	}
	if class[name[n-2]]&alnum == 0 { // which SecretName passes over
		return true
	}
	switch [2]byte{name[n-2] | 0x20, name[n-1] | 0x20} {
	case [2]byte{'r', 'd'}, [2]byte{'w', 'd'}, [2]byte{'s', 'e'}, [2]byte{'e', 't'}, [2]byte{'e', 'y'}, [2]byte{'e', 'n'}, [2]byte{'t', 'h'}:
		return true
	}
	return false
}

// Plausible reports whether value may be a secret. Certain means that its
// surroundings leave no doubt that it is a value and not a word or code.
func Plausible(value string, certain bool) bool {
	if len(value) < 6 || placeholder(value) {
		return false
	}
	if certain {
		return true
	}
	return strings.ContainsAny(value, "0123456789") && strings.ContainsAny(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// placeholder reports whether a value stands for a secret that is not there.
func placeholder(v string) bool {
	return MarkerAt(v) > 0 || strings.HasPrefix(v, "${") || strings.HasPrefix(v, "{{") || v[0] == '<' || strings.Trim(v, "*.xX") == ""
}
