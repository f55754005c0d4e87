// Package form reads the forms that servers put to people in the middle of a call,
// refuses those that ask for secrets or are not flat, and checks what was filled in
// (2025-11-25, client/elicitation: form mode). It shows nothing to anybody.
package form

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/unicode/norm"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/schemas"
	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

// Form is the schema of a form's answer: an object of flat fields
// (2025-11-25, client/elicitation: requested schema).
type Form struct {
	Type       string           `json:"type"`
	Properties map[string]field `json:"properties"`
	Required   []string         `json:"required"`
	schema     *jsoncheck.Schema
}

// Bounds of a form.
const (
	maxForm   = 64 << 10 // bytes of its schema
	maxFields = 64
)

// field is one field, as far as it is read here.
type field struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Format      string            `json:"format"`
	Enum        []json.RawMessage `json:"enum"`
	OneOf       []json.RawMessage `json:"oneOf"`
	Items       *struct {
		Type  string            `json:"type"`
		Enum  []json.RawMessage `json:"enum"`
		AnyOf []json.RawMessage `json:"anyOf"`
	} `json:"items"`
	Properties json.RawMessage `json:"properties"`
}

// choice reports whether a field's value is one of the server's own words.
func (f field) choice() bool { return len(f.Enum) > 0 || len(f.OneOf) > 0 || f.Type == "array" }

// Read reads a form and refuses one with fields that are not flat, or that
// ask for what must not go through a form.
func Read(message string, raw json.RawMessage) (*Form, error) {
	refuse := func(format string, args ...any) (*Form, error) {
		return nil, fault.New(fault.InvalidArguments, "the form is refused: %s", fmt.Sprintf(format, args...))
	}
	if len(raw) > maxForm {
		return refuse("its schema has %d bytes; the limit is %d", len(raw), maxForm)
	}
	var f Form
	if err := json.Unmarshal(raw, &f); err != nil {
		return refuse("its schema cannot be read: %v", err)
	}
	if f.Type != "object" || len(f.Properties) > maxFields {
		return refuse("its schema is no object of at most %d fields", maxFields)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Properties)) {
		p := f.Properties[name]
		switch p.Type {
		case "string", "number", "integer", "boolean":
		case "array":
			if p.Items == nil || p.Items.Type != "string" && len(p.Items.AnyOf) == 0 || len(p.Items.Enum)+len(p.Items.AnyOf) == 0 {
				return refuse("the field %q is no choice among given texts", redact.Show(name))
			}
		default:
			return refuse("the field %q is no text, number, yes or no, or choice", redact.Show(name))
		}
		if len(p.Properties) > 0 {
			return refuse("the field %q has fields of its own", redact.Show(name))
		}
		if word := secretWord(message, name, p); word != "" {
			return refuse("the field %q asks for a secret (%s); a server may ask for one only on a page of its own (mode url)", redact.Show(name), word)
		}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		f.schema, err = jsoncheck.Compile(doc, jsoncheck.Options{})
	}
	if err != nil {
		return refuse("its schema cannot be used: %v", err)
	}
	return &f, nil
}

// Check says what is wrong with an answer to the form.
func (f *Form) Check(content json.RawMessage) error {
	value, err := jsonvalue.Decode(content)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return fault.New(fault.InvalidArguments, "an answer that accepts a form has a JSON object as its content")
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		p, known := f.Properties[name]
		if !known {
			problems = append(problems, fmt.Sprintf("the form has no field %q", redact.Show(name)))
		} else if text, ok := object[name].(string); ok && !hasFormat(text, p.Format) {
			problems = append(problems, fmt.Sprintf("/%s: %q is no %s", redact.Show(name), redact.Show(text), p.Format))
		}
	}
	if p := schemas.Problems(f.schema, value, len(content)); p != "" {
		problems = append(problems, p)
	}
	if len(problems) == 0 {
		return nil
	}
	e := fault.New(fault.InvalidArguments, "the answer does not fit the form: %s", strings.Join(problems, "; "))
	e.Candidates = slices.Sorted(maps.Keys(f.Properties))
	return e
}

// hasFormat checks the formats that fields of a form may have; of others nothing
// is known.
func hasFormat(text, format string) bool {
	switch format {
	case "email":
		a, err := mail.ParseAddress(text)
		return err == nil && a.Address == text
	case "uri":
		u, err := url.Parse(text)
		return err == nil && u.IsAbs()
	case "date":
		_, err := time.Parse(time.DateOnly, text)
		return err == nil
	case "date-time":
		_, err := time.Parse(time.RFC3339, text)
		return err == nil
	}
	return true
}

// Words and phrases for what a form must not ask for: passwords, keys, tokens and
// what pays (2025-11-25, client/elicitation: "MUST NOT use form mode
// elicitation to request sensitive information"). Words stand alone in a field's
// name or title; phrases stand anywhere, in the question itself too.
var (
	secretWords = strings.Fields("password passwd passwort passphrase pwd pw secret secrets token apikey credential credentials pin otp totp cvv cvc cvv2 ssn iban seed mnemonic 2fa mfa jwt bearer")
	// figures may be asked for as numbers, too.
	secretFigures = strings.Fields("pin otp totp cvv cvc cvv2 ssn")
	secretPhrases = []string{
		"password", "passphrase", "passcode", "pass code", "api key", "api token", "access key", "access token", "auth token", "secret key", "private key", "refresh token", "bearer token",
		"client secret", "card number", "credit card", "debit card", "security code", "one time code", "one time password", "verification code", "recovery code", "recovery phrase", "seed phrase",
		"social security", "ssh key", "login code", "account number",
		"密码", "口令", "密钥", "令牌", "验证码", "卡号", "私钥", "助记词", "密碼", "驗證碼", "卡號", "パスワード", "暗証番号", "비밀번호",
		"passwort", "kennwort", "geheimzahl", "mot de passe", "contraseña", "senha", "пароль",
	}
	figurePhrases = []string{"card number", "credit card", "debit card", "security code", "one time code", "verification code", "social security", "account number", "卡号", "验证码", "密码", "暗証番号", "geheimzahl"}
)

// secretWord is the word by which a field asks for a secret, or "". A choice among
// the server's own words and a yes or no cannot give one away; a number only one
// that is a figure.
func secretWord(message, name string, f field) string {
	words, phrases := secretWords, secretPhrases
	switch {
	case f.Type == "boolean" || f.choice():
		return ""
	case f.Type == "number" || f.Type == "integer":
		words, phrases = secretFigures, figurePhrases
	}
	if f.Format == "password" {
		return "format password"
	}
	for _, text := range []string{name, f.Title} {
		for _, w := range strings.Fields(spaced(text)) {
			if slices.Contains(words, w) {
				return w
			}
		}
	}
	for _, text := range []string{name, f.Title, f.Description, message} {
		flat := spaced(text)
		for _, p := range phrases {
			if strings.Contains(flat, p) {
				return p
			}
		}
	}
	return ""
}

// spaced is a text in lower case whose words have one blank between them, however
// they were joined: apiKey, api_key and API-Key are "api key".
func spaced(text string) string {
	text, _ = redact.Strip(text)
	var b strings.Builder
	var before rune
	for _, r := range norm.NFKC.String(text) {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteByte(' ')
		}
		before = r
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
