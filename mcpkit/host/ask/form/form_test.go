package form

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestFormsThatAskForSecretsAreTold(t *testing.T) {
	for _, c := range []struct {
		message, name, field string
		secret               bool
	}{
		{"", "password", `{"type":"string"}`, true},
		{"", "newPassword", `{"type":"string"}`, true},
		{"", "API_KEY", `{"type":"string"}`, true},
		{"", "x", `{"type":"string","title":"Your API-Key"}`, true},
		{"", "x", `{"type":"string","description":"The access token of your account"}`, true},
		{"", "x", `{"type":"string","format":"password"}`, true},
		{"Please type your pass\u200bword", "value", `{"type":"string"}`, true},
		{"", "card_number", `{"type":"integer"}`, true},
		{"", "cvv", `{"type":"integer"}`, true},
		{"", "ｔｏｋｅｎ", `{"type":"string"}`, true},
		{"", "x", `{"type":"string","title":"请输入密码"}`, true},
		{"", "x", `{"type":"string","title":"Mot de passe"}`, true},
		{"", "otp", `{"type":"string"}`, true},
		{"", "name", `{"type":"string"}`, false},
		{"", "max_tokens", `{"type":"integer"}`, false},
		{"", "spinner", `{"type":"string"}`, false},
		{"", "keyword", `{"type":"string"}`, false},
		{"", "opinion", `{"type":"string","title":"Your opinion"}`, false},
		{"Reset the password?", "sure", `{"type":"boolean"}`, false},
		{"Reset the password?", "how", `{"type":"string","enum":["mail","phone"]}`, false},
		{"", "monkey", `{"type":"string"}`, false},
		{"", "tokens", `{"type":"number"}`, false},
	} {
		schema := fmt.Sprintf(`{"type":"object","properties":{%q:%s}}`, c.name, c.field)
		_, err := Read(c.message, json.RawMessage(schema))
		if (err != nil) != c.secret || err != nil && !strings.Contains(err.Error(), "asks for a secret") {
			t.Errorf("%q %s: %v", c.message, schema, err)
		}
	}
}

func TestOnlyFlatFormsAreShown(t *testing.T) {
	for schema, good := range map[string]bool{
		`{"type":"object","properties":{}}`: true,
		`{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"type":"number","minimum":1},"c":{"type":"string","oneOf":[{"const":"x","title":"X"}]}}}`: true,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x","y"]}}}}`:                                                                true,
		`{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}}}`:                                                             true,
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}}}`:                                                                     false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}`:                                                                                 false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`:                                                                                 false,
		`{"type":"object","properties":{"a":{}}}`:                                                                                                                         false,
		`{"type":"object","properties":{"a":{"$ref":"#/x"}}}`:                                                                                                             false,
		`{"type":"array"}`: false,
		`7`:                false,
		``:                 false,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`: false,
	} {
		if _, err := Read("", json.RawMessage(schema)); (err == nil) != good {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func TestFormatsOfAnswersAreChecked(t *testing.T) {
	f, err := Read("", json.RawMessage(`{"type":"object","properties":{"mail":{"type":"string","format":"email"},"day":{"type":"string","format":"date"},"at":{"type":"string","format":"date-time"},"page":{"type":"string","format":"uri"},"n":{"type":"integer","maximum":9}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for content, good := range map[string]bool{
		`{"mail":"ada@example.com","day":"2026-02-28","at":"2026-02-28T10:00:00Z","page":"https://example.com/","n":9}`: true,
		`{"mail":"Ada <ada@example.com>"}`: false, `{"day":"2026-02-30"}`: false, `{"at":"noon"}`: false, `{"page":"example"}`: false, `{"n":10}`: false, `[]`: false,
	} {
		if err := f.Check(json.RawMessage(content)); (err == nil) != good {
			t.Errorf("%s: %v", content, err)
		}
	}
}
