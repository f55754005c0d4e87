package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/auth/discovery"
	"github.com/aurorabot-dev/platform/mcpkit/auth/issuer"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Authorize puts the token into a request to the server; one to anywhere else is
// left as it is. Without a token the request goes as it is too: the server's
// challenge says what it wants.
func (c *Client) Authorize(ctx context.Context, r *http.Request) error {
	if !c.ours(r.URL) {
		return nil
	}
	switch c.cfg.Type {
	case None:
		return nil
	case Bearer:
		setBearer(r, c.cfg.Token)
		return nil
	}
	stamp := c.kept.Stamp()
	rec, err := c.kept.Current(false)
	if err != nil {
		return unavailable(err)
	}
	unsaved := c.kept.Unsaved() != nil
	if unsaved || rec != nil && !rec.Fresh(time.Now()) && c.renewable(rec) {
		next, err := c.renew(ctx, "")
		if n, needed := errors.AsType[*NeededError](c.mendable(err)); needed {
			return c.help(n, stamp)
		}
		if err != nil && (unsaved || !time.Now().Before(rec.Expiry)) {
			return unavailable(err)
		}
		if err == nil {
			rec = next // else the old one is good for some seconds yet
		}
	}
	if rec != nil && rec.Access != "" && !rec.Refused {
		setBearer(r, rec.Access)
	}
	return nil
}

func setBearer(r *http.Request, token string) {
	r.Header.Set("Authorization", "Bearer "+token) // RFC 6750 section 2.1
}

func bearerOf(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

// unavailable is a failure that may pass without anybody's doing.
func unavailable(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	return fault.New(fault.ServerNotReady, "authorization is not available: %v", err).Retry()
}

// renewable reports whether a new token can be had for rec without a person.
func (c *Client) renewable(rec *tokens.Record) bool {
	return c.cfg.Type == ClientCredentials || rec != nil && !rec.Refused && rec.Refresh != ""
}

// Challenge takes an answer of 401 or 403 and reports whether the request, which
// had no effect, should be authorized and sent again. It gives up after what it
// has newly got was refused as well. Without an error the answer says it all: it
// is a refusal that no token changes.
func (c *Client) Challenge(ctx context.Context, res *http.Response) (retry bool, err error) {
	ch := discovery.ParseChallenge(res.Header)
	sent, stamp := bearerOf(res.Request), c.kept.Stamp()
	switch {
	case !c.ours(res.Request.URL):
		return false, c.needed(false, "its requests lead to another server, which gets no token of this one")
	case c.cfg.Type == None, res.StatusCode == http.StatusForbidden && ch.Error != "insufficient_scope":
		return false, nil // the answer says all there is to say
	case c.cfg.Type == Bearer:
		return false, c.needed(false, "it does not accept the configured token")
	case res.StatusCode == http.StatusForbidden:
		err = c.stepUp(ctx, sent, ch)
	default:
		err = c.unauthorized(ctx, sent, ch)
	}
	if err == nil {
		return true, nil
	}
	if n, ok := errors.AsType[*NeededError](c.mendable(err)); ok {
		return false, c.help(n, stamp)
	}
	return false, unavailable(err)
}

// unauthorized gets a token after an answer of 401; nil means that there is
// another than the one that was sent.
func (c *Client) unauthorized(ctx context.Context, sent string, ch discovery.Challenge) error {
	rec, err := c.kept.Current(true)
	if err != nil {
		return err
	}
	if rec.Fresh(time.Now()) && rec.Access != sent {
		return nil // it came while the request was under way
	}
	c.mu.Lock()
	again := sent != "" && sent == c.renewed
	c.mu.Unlock()
	again = again && rec != nil && time.Since(rec.Obtained) < time.Minute
	switch {
	case again: // asking once more gets one more of the same
	case c.cfg.Type == ClientCredentials:
		return c.machine(ctx, sent, ch, nil)
	case c.renewable(rec):
		_, err := c.renew(ctx, sent)
		if n, ok := errors.AsType[*NeededError](err); !ok || !n.Login || c.opts.Browse == nil {
			return err
		}
	}
	if c.cfg.Type == OAuth && c.opts.Browse != nil && !again {
		return c.browse(ctx, ch, nil)
	}
	if sent == "" {
		return c.nobody(rec)
	}
	return c.refuse(ctx, sent)
}

// nobody says that there is no token and why.
func (c *Client) nobody(rec *tokens.Record) error {
	switch {
	case rec != nil && rec.Refused:
		return c.needed(true, "it did not accept the token that its issuer has issued")
	case rec != nil && rec.Ended != "":
		return c.needed(true, "%s", rec.Ended)
	}
	return c.needed(true, "nobody has logged in")
}

// refuse notes that the server does not accept a token that has not expired.
func (c *Client) refuse(ctx context.Context, sent string) error {
	unlock, err := c.kept.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := c.kept.Current(true)
	if err != nil {
		return err
	}
	if rec != nil && rec.Access == sent {
		next := *rec
		next.Refused = true
		if err := c.kept.Put(&next); err != nil {
			return err
		}
	}
	return c.needed(c.cfg.Type == OAuth, "it does not accept the token that its issuer has issued")
}

// stepUp gets more scopes after an answer of 403 with insufficient_scope
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#step-up-authorization-flow).
// Each scope is asked for once.
func (c *Client) stepUp(ctx context.Context, sent string, ch discovery.Challenge) error {
	rec, err := c.kept.Current(true)
	if err != nil {
		return err
	}
	if rec.Fresh(time.Now()) && rec.Access != sent {
		return nil
	}
	c.mu.Lock()
	asked := len(ch.Scopes) == 0 || tokens.Contain(c.asked, ch.Scopes)
	if !asked && (c.cfg.Type == ClientCredentials || c.opts.Browse != nil) {
		c.asked = tokens.Union(c.asked, ch.Scopes)
	}
	c.mu.Unlock()
	switch {
	case rec != nil && rec.Grants(ch.Scopes), asked:
		return fault.New(fault.Denied, "server %s wants more than its issuer grants (scope %s)", c.cfg.Server, strings.Join(ch.Scopes, " "))
	case c.cfg.Type == ClientCredentials:
		return c.machine(ctx, sent, ch, ch.Scopes)
	case c.opts.Browse != nil:
		return c.browse(ctx, ch, ch.Scopes)
	}
	unlock, err := c.kept.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if rec, err = c.kept.Current(true); err == nil && rec != nil && !tokens.Contain(rec.Wanted, ch.Scopes) {
		next := *rec
		next.Wanted = tokens.Union(rec.Wanted, ch.Scopes)
		err = c.kept.Put(&next)
	}
	if err != nil {
		return err
	}
	n := c.needed(true, "the request needs the scope %s", strings.Join(ch.Scopes, " "))
	n.Scopes = ch.Scopes
	return n
}

// renewPause is how long a failed renewal answers for those that wait behind it.
const renewPause = 2 * time.Second

// renew gets a new access token for the record, unless somebody else has done so
// meanwhile. Stale is a token that the server has refused, or empty.
func (c *Client) renew(ctx context.Context, stale string) (*tokens.Record, error) {
	unlock, err := c.kept.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if unsaved := c.kept.Unsaved(); unsaved != nil {
		if err := c.kept.Put(unsaved); err != nil {
			return nil, err
		}
	}
	rec, err := c.kept.Current(true)
	switch {
	case err != nil:
		return nil, err
	case rec.Fresh(time.Now()) && rec.Access != stale:
		return rec, nil
	case !c.renewable(rec) || rec == nil:
		return nil, c.nobody(rec)
	case time.Since(c.failedAt) < renewPause:
		return nil, c.failed
	}
	form := issuer.Grant("refresh_token", rec.Key.Resource)
	form.Set("refresh_token", rec.Refresh)
	if c.cfg.Type == ClientCredentials {
		if form, err = c.oauth.MachineGrant(rec.Key.Resource, rec.Scopes); err != nil {
			return nil, err
		}
	}
	next := *rec
	if err := c.oauth.Ask(ctx, &next, form); err != nil {
		if ctx.Err() == nil {
			c.failed, c.failedAt = err, time.Now()
		}
		return nil, c.lost(rec, err)
	}
	if next.Refresh == "" {
		next.Refresh = rec.Refresh // RFC 6749 section 6: the old one stays good
	}
	if err := c.kept.Put(&next); err != nil {
		return nil, err
	}
	if stale != "" {
		c.mu.Lock()
		c.renewed = next.Access
		c.mu.Unlock()
	}
	c.log.Debug("access token renewed", "issuer", next.Key.Issuer, "expires", next.Expiry)
	return &next, nil
}

// lost is what a failed renewal comes to: where the issuer has ended the grant or
// forgotten the client, the tokens are gone and a person must log in.
func (c *Client) lost(rec *tokens.Record, err error) error {
	oe, ok := errors.AsType[*issuer.Error](err)
	if !ok || oe.Temporary() {
		return err
	}
	next := *rec
	next.Access, next.Refresh, next.Expiry, next.Ended = "", "", time.Time{}, oe.Error()
	if oe.Code == "invalid_client" || oe.Code == "unauthorized_client" {
		next.Client = tokens.Client{}
	}
	if perr := c.kept.Put(&next); perr != nil {
		return errors.Join(err, perr)
	}
	c.log.Warn("authorization has ended", "issuer", rec.Key.Issuer, "error", oe)
	return c.needed(c.cfg.Type == OAuth, "%v", oe)
}

// machine gets a token for a client that speaks for itself.
func (c *Client) machine(ctx context.Context, sent string, ch discovery.Challenge, more []string) error {
	unlock, err := c.kept.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := c.kept.Current(true)
	if err != nil {
		return err
	}
	if rec.Fresh(time.Now()) && rec.Access != sent {
		return nil
	}
	found, err := c.discover(ctx, ch)
	if err != nil {
		return err
	}
	client, err := c.oauth.Register(ctx, found, "", nil)
	if err != nil {
		return err
	}
	next := issuer.Record(c.cfg.Server, found, client)
	form, err := c.oauth.MachineGrant(found.Resource, issuer.Scopes(found, ch, c.cfg.Scopes, rec, more))
	if err != nil {
		return err
	}
	if err := c.oauth.Ask(ctx, next, form); err != nil {
		if oe, ok := errors.AsType[*issuer.Error](err); ok && !oe.Temporary() {
			return c.needed(false, "%v", oe)
		}
		return err
	}
	if err := c.kept.Put(next); err != nil {
		return err
	}
	c.mu.Lock()
	c.renewed = next.Access
	c.mu.Unlock()
	c.log.Info("authorized as a client of its own", "issuer", found.Issuer, "scopes", next.Scopes)
	return nil
}

// discover finds out who protects the server. A secret goes only to the issuer
// that it was given for: the configured one, or the first.
func (c *Client) discover(ctx context.Context, ch discovery.Challenge) (*discovery.Found, error) {
	found, err := c.fetch.Discover(ctx, ch)
	if err != nil {
		return nil, err
	}
	if c.cfg.Issuer == "" && (c.cfg.ClientSecret != "" || c.cfg.Key != nil || c.cfg.Assertion != nil) {
		all, err := c.opts.Store.Find(c.cfg.Server)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			if r.Client.ID == c.cfg.ClientID && r.Key.Issuer != found.Issuer {
				return nil, c.needed(false, "it has moved from the issuer %s to %s, which does not get the configured secret unless issuer names it", r.Key.Issuer, found.Issuer)
			}
		}
	}
	return found, nil
}
