package natsbus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// delivers fails unless a bus with these options gets an event through.
func delivers(t *testing.T, opt Options) {
	t.Helper()
	b := open(t, opt)
	publish(t, b, event("a", "one", 1))
	mustClose(t, b)
	if b.Counters().Delivered != 1 {
		t.Errorf("counters %+v", b.Counters())
	}
}

// says waits until the state of a bus holds all of these words, and none of a secret.
func says(t *testing.T, b *Bus, secret string, words ...string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("it said last: %s", last)
		}
	}()
	eventually(t, "the state says why", func() bool {
		if err := b.State().Err; err != nil {
			last = err.Error()
		}
		for _, word := range words {
			if !strings.Contains(last, word) {
				return false
			}
		}
		return true
	})
	if secret != "" && strings.Contains(last, secret) {
		t.Errorf("the secret is told: %s", last)
	}
}

func TestANameAndPasswordOrATokenOfTheURLAreUsedAndAWrongOneIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		set                  func(*server.Options)
		right, wrong, secret string
		words                []string
	}{
		"password": {func(o *server.Options) { o.Username, o.Password = "aurora", "right" }, "aurora:right@", "aurora:mistaken@", "mistaken", []string{`user "aurora"`}},
		"token":    {func(o *server.Options) { o.Authorization = "right" }, "right@", "mistaken@", "mistaken", []string{"a token"}},
		"none":     {func(o *server.Options) { o.Authorization = "right" }, "right@", "", "", []string{"wants credentials", "USER:PASSWORD@HOST"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newBroker(t)
			c.set(&server.opt)
			server.start()
			with := func(user string) Options {
				opt := server.options(t)
				opt.URLs = []string{strings.Replace(server.url(), "://", "://"+user, 1)}
				return opt
			}
			delivers(t, with(c.right))
			opt := with(c.wrong)
			opt.CloseTimeout = time.Millisecond
			says(t, open(t, opt), c.secret, append(c.words, "Authorization Violation", strings.TrimPrefix(server.url(), "nats://"))...)
		})
	}
}

// operated is a server whose users have credentials of an account.
func operated(t *testing.T) (b *broker, creds func(path string, expires time.Time)) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair := func(kind nkeys.PrefixByte) (nkeys.KeyPair, string) {
		key, err := nkeys.CreatePair(kind)
		must(err)
		public, err := key.PublicKey()
		must(err)
		return key, public
	}
	operator, operatorID := pair(nkeys.PrefixByteOperator)
	b = newBroker(t)
	resolver := &server.MemAccResolver{}
	account := func(limits jwt.JetStreamLimits) (nkeys.KeyPair, string) {
		key, id := pair(nkeys.PrefixByteAccount)
		claims := jwt.NewAccountClaims(id)
		claims.Limits.JetStreamLimits = limits
		token, err := claims.Encode(operator)
		must(err)
		must(resolver.Store(id, token))
		return key, id
	}
	_, b.opt.SystemAccount = account(jwt.JetStreamLimits{})
	users, _ := account(jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1})
	claims := jwt.NewOperatorClaims(operatorID)
	claims.SystemAccount = b.opt.SystemAccount
	b.opt.TrustedOperators, b.opt.AccountResolver = []*jwt.OperatorClaims{claims}, resolver
	b.start()
	return b, func(path string, expires time.Time) {
		t.Helper()
		user, id := pair(nkeys.PrefixByteUser)
		claims := jwt.NewUserClaims(id)
		if !expires.IsZero() {
			claims.Expires = expires.Unix()
		}
		token, err := claims.Encode(users)
		must(err)
		seed, err := user.Seed()
		must(err)
		file, err := jwt.FormatUserConfig(token, seed)
		must(err)
		must(durable.WriteFile(path, file))
	}
}

func TestCredentialsThatRanOutAreReadAgainFromTheirFile(t *testing.T) {
	server, creds := operated(t)
	opt := server.options(t)
	opt.Creds = filepath.Join(t.TempDir(), "platform.creds")
	creds(opt.Creds, time.Now().Add(3*time.Second))
	b := open(t, opt)
	publish(t, b, event("a", "one", 1))
	eventually(t, "delivered", func() bool { return b.Counters().Delivered == 1 })
	says(t, b, "SU", opt.Creds, "does not accept", "read again")
	publish(t, b, event("a", "two", 2)) // kept in the journal
	creds(opt.Creds, time.Time{})
	eventually(t, "delivered with new credentials", func() bool { return b.Counters().Delivered == 2 && b.State().Err == nil })
	mustClose(t, b)
}

func TestCredentialsThatAreNotAcceptedAreSaidWithTheirFile(t *testing.T) {
	server, creds := operated(t)
	_, others := operated(t)
	opt := server.options(t)
	opt.Creds = filepath.Join(t.TempDir(), "platform.creds")
	others(opt.Creds, time.Time{})
	b := open(t, opt)
	says(t, b, "SU", opt.Creds, "Authorization Violation", strings.TrimPrefix(server.url(), "nats://"))
	creds(opt.Creds, time.Time{})
	publish(t, b, event("a", "one", 1))
	eventually(t, "delivered", func() bool { return b.Counters().Delivered == 1 && b.State().Err == nil })
	mustClose(t, b)
}

func TestAFileThatHoldsNoCredentialsIsRefusedAtTheStart(t *testing.T) {
	opt := newBroker(t).options(t)
	opt.Creds = filepath.Join(t.TempDir(), "platform.creds")
	if err := os.WriteFile(opt.Creds, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Open(t.Context(), opt); err == nil {
		b.Close()
		t.Error("it was taken")
	} else if !strings.Contains(err.Error(), opt.Creds+" holds no user's JWT and seed") {
		t.Error(err)
	}
}
