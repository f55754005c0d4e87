package authtest

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// token is the token endpoint.
func (as *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if as.b.TokenError != "" || as.b.TokenStatus != 0 {
		// Such servers have been seen to repeat what they were sent.
		refuse(w, max(as.b.TokenStatus, http.StatusBadRequest), as.b.TokenError, "refused: "+r.Form.Get("code")+r.Form.Get("refresh_token"))
		return
	}
	id, ok := as.authenticate(r)
	if !ok {
		refuse(w, http.StatusUnauthorized, "invalid_client", "who is this?")
		return
	}
	if r.Form.Get("resource") == "" {
		refuse(w, http.StatusBadRequest, "invalid_target", "for which resource?")
		return
	}
	g := &grant{client: id, resource: r.Form.Get("resource"), scopes: strings.Fields(r.Form.Get("scope"))}
	refreshable := false
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		code := as.codes[r.Form.Get("code")]
		delete(as.codes, r.Form.Get("code")) // good once
		if code == nil || code.client != id || code.redirect != r.Form.Get("redirect_uri") || time.Now().After(code.expires) ||
			code.challenge != challengeOf(r.Form.Get("code_verifier")) || code.resource != g.resource {
			refuse(w, http.StatusBadRequest, "invalid_grant", "the code is not good")
			return
		}
		g.scopes, refreshable = code.scopes, true
	case "refresh_token":
		old := as.refresh[r.Form.Get("refresh_token")]
		if old == nil || old.client != id || old.resource != g.resource {
			refuse(w, http.StatusBadRequest, "invalid_grant", "the refresh token is not good")
			return
		}
		g.scopes = old.scopes
		if refreshable = !as.b.NoRotation; refreshable {
			delete(as.refresh, r.Form.Get("refresh_token"))
		}
	case "client_credentials":
		if c := as.clients[id]; c.Secret == "" && c.Key == nil {
			refuse(w, http.StatusBadRequest, "unauthorized_client", "only for clients that can prove who they are")
			return
		}
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		if c := as.clients[id]; c.Assertion == "" || r.Form.Get("assertion") != c.Assertion {
			refuse(w, http.StatusBadRequest, "invalid_grant", "not "+r.Form.Get("assertion"))
			return
		}
	default:
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "")
		return
	}
	as.issue(w, g, refreshable && !as.b.NoRefresh)
}

func (as *Issuer) issue(w http.ResponseWriter, g *grant, refreshable bool) {
	if as.b.Grant != nil {
		g.scopes = as.b.Grant
	}
	ttl := as.b.TTL
	if ttl == 0 {
		ttl = time.Hour
	}
	g.expires = time.Now().Add(ttl)
	token := ""
	if as.b.JWT {
		claims := map[string]any{"iss": as.URL, "aud": g.resource, "sub": "person", "exp": g.expires.Unix(), "jti": rand.Text(), "scope": strings.Join(g.scopes, " ")}
		if as.b.Audience != nil {
			claims["aud"] = as.b.Audience
		}
		if as.b.TokenIssuer != "" {
			claims["iss"] = as.b.TokenIssuer
		}
		token = as.sign(claims)
		as.issued = append(as.issued, token)
	} else {
		token = as.secret("access")
	}
	as.access[token] = g
	out := map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(ttl.Seconds()), "scope": strings.Join(g.scopes, " "),
	}
	if refreshable {
		fresh := as.secret("refresh")
		as.refresh[fresh] = g
		out["refresh_token"] = fresh
	}
	override(out, as.b.Answer)
	answer(w, http.StatusOK, out)
}

// authenticate is who asks, by a method that the metadata offers.
func (as *Issuer) authenticate(r *http.Request) (id string, ok bool) {
	method := "none"
	id = r.PostForm.Get("client_id")
	secret := r.PostForm.Get("client_secret")
	if user, password, basic := r.BasicAuth(); basic {
		method = "client_secret_basic"
		id, _ = url.QueryUnescape(user)
		secret, _ = url.QueryUnescape(password)
	} else if r.PostForm.Has("client_assertion") {
		method = "private_key_jwt"
	} else if secret != "" {
		method = "client_secret_post"
	}
	c := as.clients[id]
	if c == nil && strings.HasPrefix(id, "https://") {
		return id, method == "none"
	}
	if c == nil || !slices.Contains(as.methods(), method) {
		return "", false
	}
	switch method {
	case "private_key_jwt":
		return id, c.Key != nil && as.checkAssertion(r.PostForm.Get("client_assertion"), id, c.Key)
	case "none":
		return id, c.Secret == "" && c.Key == nil
	}
	return id, c.Secret != "" && secret == c.Secret
}

// checkAssertion is RFC 7523 section 3.
func (as *Issuer) checkAssertion(assertion, id string, key *ecdsa.PublicKey) bool {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || len(sig) != 64 || !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return false
	}
	var claims struct {
		Iss, Sub, Aud, Jti string
		Exp                int64
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(raw, &claims) == nil && claims.Iss == id && claims.Sub == id && claims.Aud == as.URL &&
		claims.Jti != "" && time.Now().Before(time.Unix(claims.Exp, 0))
}

func (as *Issuer) sign(claims map[string]any) string {
	header, _ := json.Marshal(map[string]string{"alg": "ES256", "typ": "at+jwt"})
	body, _ := json.Marshal(claims)
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, as.key, sum[:])
	if err != nil {
		panic(err)
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// revoke is RFC 7009: a token that is not known is no error.
func (as *Issuer) revoke(w http.ResponseWriter, r *http.Request) {
	if _, ok := as.authenticate(r); !ok {
		refuse(w, http.StatusUnauthorized, "invalid_client", "")
		return
	}
	token := r.PostForm.Get("token")
	delete(as.refresh, token)
	if g := as.access[token]; g != nil {
		g.dead = true
	}
	w.WriteHeader(http.StatusOK)
}

// verify is what a token allows, or nil.
func (as *Issuer) verify(token, resource string) *grant {
	as.mu.Lock()
	defer as.mu.Unlock()
	g := as.access[token]
	if g == nil || g.dead || time.Now().After(g.expires) || g.resource != resource {
		return nil
	}
	return g
}
