package issuer

import (
	"fmt"
	"net/url"

	"github.com/aurorabot-dev/platform/mcpkit/auth/discovery"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
)

// MachineGrant begins the form with which a client that speaks for itself asks for
// a token: with its credentials (RFC 6749 section 4.4), or with its assertion (RFC
// 7523 section 2.1), which is read anew for each form.
func (c *Client) MachineGrant(resource string, scopes []string) (url.Values, error) {
	form := Grant("client_credentials", resource)
	if c.Assertion != nil {
		assertion, err := c.Assertion()
		if err != nil {
			return nil, fmt.Errorf("reading the assertion: %w", err)
		}
		c.Secret(assertion)
		form.Set("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
		form.Set("assertion", assertion)
	}
	SetScope(form, scopes)
	return form, nil
}

// Scopes are those to ask an issuer for: the configured ones, else those of the
// challenge, else those that the resource names
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#scope-selection-strategy);
// besides them those that this issuer has granted before by rec, which may be nil,
// and more.
func Scopes(found *discovery.Found, ch discovery.Challenge, configured []string, rec *tokens.Record, more []string) []string {
	scopes := configured
	if len(scopes) == 0 {
		scopes = ch.Scopes
	}
	if len(scopes) == 0 {
		scopes = found.Scopes
	}
	if rec != nil && rec.Key.Issuer == found.Issuer {
		scopes = tokens.Union(rec.Scopes, scopes, rec.Wanted)
	}
	return tokens.Union(scopes, more)
}
