package issuer

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/auth/discovery"
)

// ParseAnswer reads what a person has pasted: the address that the browser ended
// at, its query, or a bare code.
func ParseAnswer(text string) (url.Values, error) {
	text = strings.TrimSpace(text)
	if _, query, ok := strings.Cut(text, "?"); ok {
		text = query
	} else if !strings.Contains(text, "=") || !strings.Contains(text, "code=") && !strings.Contains(text, "error=") {
		if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, errors.New("this is neither the address that the browser ended at nor a code")
		}
		return url.Values{"code": {text}}, nil
	}
	text, _, _ = strings.Cut(text, "#")
	q, err := url.ParseQuery(text)
	if err != nil || q.Get("code") == "" && q.Get("error") == "" {
		return nil, errors.New("there is neither a code nor an error in this address")
	}
	return q, nil
}

// Code is the code of a redirect's answer, after it has been checked that the
// answer is from the issuer that the login went to (RFC 9207 section 2.4: its iss is
// compared as it is, before anything else is believed). An issuer's refusal is an
// [*Error].
func Code(found *discovery.Found, answer url.Values) (string, error) {
	iss, named := answer.Get("iss"), answer.Has("iss")
	switch advertised := found.Meta.AuthorizationResponseIssParameterSupported; {
	case advertised && !named:
		return "", fmt.Errorf("the answer does not say that it is from %s (iss is missing)", found.Issuer)
	case named && iss != found.Issuer:
		return "", fmt.Errorf("the answer is from %q, and the login went to %s (iss differs)", Clean(iss), found.Issuer)
	}
	if code := answer.Get("error"); code != "" {
		return "", &Error{Issuer: found.Issuer, Code: Clean(code), Description: Clean(answer.Get("error_description"))}
	}
	code := answer.Get("code")
	if code == "" {
		return "", errors.New("there is no code in the answer")
	}
	return code, nil
}
