package stream

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say which NATS and which stream; see the options of package natsbus. All
// are set but the files, Domain, and what is left as the stream has it: Replicas,
// MaxAge and MaxBytes.
type Options struct {
	URLs              []string
	Creds             string // a file, as the next three
	CA                string
	CertFile, KeyFile string
	Domain            string

	Name            string // of the stream
	Prefix          string // of all subjects
	Replicas        int
	Storage         jetstream.StorageType
	MaxAge          time.Duration
	MaxBytes        int64
	DuplicateWindow time.Duration

	AckTimeout time.Duration // for one answer of the server
	Retry      time.Duration // pause between attempts to connect
	Logger     *slog.Logger
}

const dialTimeout = 2 * time.Second

// natsOptions are how to connect: for ever, and without keeping anything for a
// server that is away, as the journal does that.
func (o *Options) natsOptions() []nats.Option {
	list := []nats.Option{
		nats.Name("aurora platform " + o.Prefix),
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.NoCallbacksAfterClientClose(),
		nats.ReconnectWait(o.Retry), nats.ReconnectJitter(o.Retry/2, o.Retry), nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2),
	}
	if o.Creds != "" {
		list = append(list, nats.UserCredentials(o.Creds))
	}
	if o.CA != "" || o.CertFile != "" {
		list = append(list, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if o.CA != "" {
		list = append(list, nats.RootCAs(o.CA))
	}
	if o.CertFile != "" {
		list = append(list, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	return list
}

// refused reports whether err says that the server does not accept who connects.
func refused(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired},
		func(e error) bool { return errors.Is(err, e) })
}

// explain adds to the error of a connection what a person can do about it.
func (o *Options) explain(err error) error {
	var servers, users []string
	for _, list := range o.URLs {
		for raw := range strings.SplitSeq(list, ",") {
			u, e := url.Parse(strings.TrimSpace(raw))
			if e != nil {
				continue
			}
			servers = append(servers, u.Host)
			if name := u.User.Username(); name != "" {
				if _, password := u.User.Password(); password {
					users = append(users, fmt.Sprintf("user %q with its password", name))
				} else {
					users = append(users, "a token")
				}
			}
		}
	}
	at := strings.Join(servers, ", ")
	switch {
	case !refused(err):
		return err
	case o.Creds != "":
		return fmt.Errorf("%w: the server at %s does not accept the credentials in %s: have them made anew; the file is read again with each attempt", err, at, o.Creds)
	case len(users) > 0:
		return fmt.Errorf("%w: the server at %s does not accept %s of its URL", err, at, strings.Join(users, ", "))
	}
	return fmt.Errorf("%w: the server at %s wants credentials: a creds file, or a URL such as nats://USER:PASSWORD@HOST or nats://TOKEN@HOST", err, at)
}

// HoldsCredentials reports whether a file holds a user's JWT and seed.
func HoldsCredentials(path string) bool {
	raw, err := os.ReadFile(path)
	return err == nil && bytes.Contains(raw, []byte("BEGIN NATS USER JWT")) && bytes.Contains(raw, []byte("BEGIN USER NKEY SEED"))
}
