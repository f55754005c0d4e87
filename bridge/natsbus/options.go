package natsbus

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/natsbus/internal/stream"
)

// Options say which NATS and which stream. Zero values are the defaults named;
// Replicas, MaxAge and MaxBytes left zero leave an existing stream as it is.
type Options struct {
	URLs    []string        // of any servers of a cluster; nats://127.0.0.1:4222
	Journal journal.Options // of this bus alone; Logger and Retry are set from these options where empty

	Creds             string // file of a user's JWT and seed, read anew with each connection; a name and password or a token are in URLs
	CA                string // file of the authorities that the server's certificate is checked against
	CertFile, KeyFile string // of the client's certificate
	Domain            string // JetStream domain; none

	Stream string // AURORA; created when missing
	// Prefix begins all subjects; aurora. Of several platforms that share a
	// stream each has its own, such as aurora.kitchen, so that the end of what
	// it sent is found by one question. A shared prefix does no harm, but after
	// a crash or an outage the messages of the others since then are read.
	Prefix   string
	Replicas int                   // copies in a cluster; 1
	Storage  jetstream.StorageType // of a stream that is made; file
	MaxAge   time.Duration         // of messages; 30 days
	MaxBytes int64                 // of the stream: full, it takes no more, and the backlog grows; no limit

	// DuplicateWindow is how long the server itself knows message ids; 10
	// minutes. It is no limit to how long an outage may last.
	DuplicateWindow time.Duration

	Batch        int           // messages per batch, at most 1000; 256
	MaxMessage   int           // bytes of an envelope; 1 MiB less 8 KiB, what a server takes by default
	MaxLag       int           // records that may wait for NATS before Publish blocks; 1,000,000
	AckTimeout   time.Duration // for one answer of the server; 10 s
	Retry        time.Duration // pause between attempts while degraded; 250 ms
	CloseTimeout time.Duration // how long Close waits for NATS; 10 s
	Logger       *slog.Logger  // discards when nil

	// Fault, if set, is called before each step and may fail or end it, as
	// that of [journal.Options], which it is also given to.
	Fault func(step string) error
}

const batchBytes = 4 << 20 // of the bodies of one batch; the one that exceeds it is the last

// complete fills in the defaults and reports all that is wrong.
func (o *Options) complete() error {
	if len(o.URLs) == 0 {
		o.URLs = []string{nats.DefaultURL}
	}
	set(&o.Stream, "AURORA")
	set(&o.Prefix, "aurora")
	set(&o.DuplicateWindow, 10*time.Minute)
	set(&o.Batch, 256)
	set(&o.MaxMessage, 1<<20-8<<10)
	set(&o.MaxLag, 1_000_000)
	set(&o.AckTimeout, 10*time.Second)
	set(&o.Retry, 250*time.Millisecond)
	set(&o.CloseTimeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Journal.Logger == nil {
		o.Journal.Logger = o.Logger
	}
	set(&o.Journal.Retry, o.Retry)
	if o.Fault == nil {
		o.Fault = func(string) error { return nil }
	}
	if o.Journal.Fault == nil {
		o.Journal.Fault = o.Fault
	}

	var faults *multierror.Error
	fault := func(format string, args ...any) { faults = multierror.Append(faults, fmt.Errorf(format, args...)) }
	for _, token := range strings.Split(o.Prefix, ".") {
		if token == "" || token[0] == '$' || strings.ContainsAny(token, " \t\r\n*>") {
			fault("prefix %q: want words joined by single dots, without spaces, * and >", o.Prefix)
			break
		}
	}
	if strings.ContainsAny(o.Stream, " \t\r\n.*>/\\") {
		fault("stream %q: a name has no spaces, dots, slashes, * and >", o.Stream)
	}
	if o.Batch < 1 || o.Batch > 1000 {
		fault("batch %d: want 1 to 1000", o.Batch)
	}
	if o.Replicas < 0 || o.Replicas > 5 {
		fault("replicas %d: want 1 to 5", o.Replicas)
	}
	if o.MaxMessage < 4<<10 {
		fault("max message %d: want 4096 bytes or more", o.MaxMessage)
	}
	for name, v := range map[string]int64{"max age": int64(o.MaxAge), "max bytes": o.MaxBytes, "max lag": int64(o.MaxLag), "duplicate window": int64(o.DuplicateWindow),
		"ack timeout": int64(o.AckTimeout), "retry": int64(o.Retry), "close timeout": int64(o.CloseTimeout)} {
		if v < 0 {
			fault("%s %d: want no negative number", name, v)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		fault("a client certificate needs both its files, of certificate and key")
	}
	for _, path := range []string{o.Creds, o.CA, o.CertFile, o.KeyFile} {
		if path != "" {
			if _, err := os.Stat(path); err != nil {
				fault("%w", err)
			}
		}
	}
	if _, err := os.Stat(o.Creds); err == nil && !stream.HoldsCredentials(o.Creds) {
		fault("%s holds no user's JWT and seed, as \"nsc generate creds\" writes them", o.Creds)
	}
	return faults.ErrorOrNil()
}

// stream are the options of the connection and the stream.
func (o *Options) stream() stream.Options {
	return stream.Options{
		URLs: o.URLs, Creds: o.Creds, CA: o.CA, CertFile: o.CertFile, KeyFile: o.KeyFile, Domain: o.Domain,
		Name: o.Stream, Prefix: o.Prefix, Replicas: o.Replicas, Storage: o.Storage, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes,
		DuplicateWindow: o.DuplicateWindow, AckTimeout: o.AckTimeout, Retry: o.Retry, Logger: o.Logger,
	}
}

func set[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}
