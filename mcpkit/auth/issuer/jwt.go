package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// assertLife is how long an assertion is good: one request.
const assertLife = time.Minute

// assert is a client's JWT about itself to an issuer (RFC 7523 section 3).
func assert(key crypto.Signer, client, issuer string, now time.Time) (string, error) {
	return signJWT(key, map[string]any{
		"iss": client, "sub": client, "aud": issuer, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertLife).Unix(),
	})
}

// signJWT signs claims with the algorithm that goes with the key (RFC 7518, RFC
// 8037).
func signJWT(key crypto.Signer, claims map[string]any) (string, error) {
	alg, hash, size, err := algorithm(key.Public())
	if err != nil {
		return "", err
	}
	header, err := json.Marshal(map[string]string{"alg": alg, "typ": "JWT"})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(body)
	digest := []byte(text)
	switch hash {
	case crypto.SHA256:
		sum := sha256.Sum256(digest)
		digest = sum[:]
	case crypto.SHA384:
		sum := sha512.Sum384(digest)
		digest = sum[:]
	}
	sig, err := key.Sign(rand.Reader, digest, hash)
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	if size > 0 { // RFC 7518 section 3.4: the two numbers, not ASN.1
		var rs struct{ R, S *big.Int }
		if _, err := asn1.Unmarshal(sig, &rs); err != nil {
			return "", fmt.Errorf("signing: %w", err)
		}
		sig = make([]byte, 2*size)
		rs.R.FillBytes(sig[:size])
		rs.S.FillBytes(sig[size:])
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// algorithm is the JWS algorithm of a key, its hash, and for ECDSA the size of a
// number in bytes.
func algorithm(public crypto.PublicKey) (alg string, hash crypto.Hash, size int, err error) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() >= 2048 {
			return "RS256", crypto.SHA256, 0, nil
		}
	case *ecdsa.PublicKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return "ES256", crypto.SHA256, 32, nil
		case 384:
			return "ES384", crypto.SHA384, 48, nil
		}
	case ed25519.PublicKey:
		return "EdDSA", crypto.Hash(0), 0, nil
	}
	return "", 0, 0, errors.New("a key is RSA of 2048 bits or more, P-256, P-384 or Ed25519")
}

// ParseKey reads a private key in PEM: PKCS #8, or the older forms of RSA and EC.
func ParseKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("there is no PEM block with a private key")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a %s: it is damaged, sealed or of another kind", strings.ToLower(Clean(block.Type)))
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	_, _, _, err = algorithm(signer.Public())
	return signer, err
}

// claims are those of an access token that its bearer checks (RFC 9068). The
// signature is not checked: the token came from its issuer over TLS.
type claims struct {
	typ      string
	Issuer   string   `json:"iss"`
	Audience audience `json:"aud"`
	Expires  float64  `json:"exp"`
}

// audience is one value or a list (RFC 7519 section 4.1.3).
type audience []string

func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

func (c *claims) accessToken() bool {
	t := strings.ToLower(c.typ)
	return t == "at+jwt" || t == "application/at+jwt"
}

func (c *claims) expiry() time.Time {
	if c.Expires <= 0 || c.Expires > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}

// readClaims reads a token that is a signed JWT; nil where it is anything else.
func readClaims(token string) *claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	var header struct {
		Alg string `json:"alg"`
		Typ string `json:"typ"`
	}
	c := &claims{}
	for i, into := range []any{&header, c} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(raw, into) != nil {
			return nil
		}
	}
	if header.Alg == "" {
		return nil
	}
	c.typ = header.Typ
	return c
}
