package offers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review/injection"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// Read asks for one resource by name. Server and URI are required.
type Read struct {
	// ID ties the events together. Empty means a new one.
	ID string
	// Server is its name or alias.
	Server, URI string
	// Entrance says where the request came in, for the record.
	Entrance string
	// Trace is the caller's, for the server and the record.
	Trace signal.Trace
	// Far, if set, is the client that answers what the server asks before it answers.
	Far *ask.Far
	// Anew asks the server also where an earlier answer is still fresh.
	Anew bool
}

// Resource is what was read.
type Resource struct {
	CallID   string
	Server   string
	URI      string
	Raw      json.RawMessage // the MCP ReadResourceResult, exact but for removed secrets
	Size     int64           // of Raw, bytes
	SHA256   string          // of Raw, in hexadecimal
	Artifact any             // where the whole is kept, if it exceeded MaxResult
	Flags    []string        // what is dangerous in its text; see package review
}

// ReadResource is the one line for a resource: find the server, ask the policy,
// read, redact, cap, record. It leaves resource.requested, and resource.observed
// with size and hash or resource.failed (specification 2025-11-25,
// server/resources). Nothing is read unasked, and nothing of the content is in an
// event. Its errors are *fault.Errors.
func (r *Reader) ReadResource(ctx context.Context, read Read) (*Resource, error) {
	l := r.begin(ctx, read.ID, read.Server, read.Trace)
	seen := signal.Resource{CallID: l.id, URI: read.URI, Entrance: read.Entrance}
	record := func(kind signal.Kind, verb string) { l.emit(kind, read.URI+" "+verb, &seen) }
	fail := func(err error) (*Resource, error) {
		f := fault.From(r.out.Error(err))
		seen.ErrorCode, seen.Reason = f.Code, f.Message
		record(signal.ResourceFailed, "was not read: "+f.Message)
		return nil, f
	}
	session, err := l.find(read.Server)
	record(signal.ResourceRequested, "is read")
	if err == nil {
		err = l.permit()
	}
	if err != nil {
		return fail(err)
	}
	result, err := session.ReadResource(ctx, read.URI, read.Far.With(features.With{Meta: l.trace.Meta(), Anew: read.Anew}))
	if err == nil {
		err = l.take(session, "the resource", result, read.Far)
	}
	if err != nil {
		return fail(err)
	}
	res := &Resource{CallID: l.id, Server: l.server, URI: read.URI}
	res.Raw, res.Flags = r.out.Clean(result.Raw)
	res.Size, res.SHA256 = int64(len(res.Raw)), hash(res.Raw)
	if res.Artifact = r.out.Keep(ctx, res.Raw); res.Artifact != nil {
		seen.Artifact, _ = json.Marshal(res.Artifact)
	}
	text, mime := contents(res.Raw)
	res.Flags = append(injection.Flags(text), res.Flags...)
	seen.MIME, seen.Size, seen.SHA256, seen.Flags = mime, res.Size, res.SHA256, res.Flags
	record(signal.ResourceObserved, "was read")
	return res, nil
}

// maxMIME is how many bytes of a media type are recorded.
const maxMIME = 500

// contents is the text of a ReadResourceResult, as far as it is looked at, and
// the media type of its first part.
func contents(raw []byte) (text, mime string) {
	var b []byte
	jsontext.Elements(jsontext.Get(raw, "contents"), func(part []byte) bool {
		jsontext.Members(part, func(name, value []byte) bool {
			switch string(name) {
			case "text":
				b = jsontext.AppendUnquote(b, value, toolcall.MaxText)
			case "mimeType":
				if mime == "" {
					mime = string(jsontext.AppendUnquote(nil, value, maxMIME))
				}
			}
			return true
		})
		return len(b) <= toolcall.MaxText
	})
	return string(b), mime
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// line is the way of one resource or prompt to its reader, and its record.
type line struct {
	r      *Reader
	ctx    context.Context // the caller's; records outlive its end
	id     string
	server string // as it was named, then its name
	trace  signal.Trace
	max    int64 // bytes that the result may have
}

func (r *Reader) begin(ctx context.Context, id, server string, trace signal.Trace) *line {
	if id == "" {
		id = ulid.Make().String()
	}
	return &line{r: r, ctx: ctx, id: id, server: server, trace: trace.Valid()}
}

// find is the session of the server that a name or alias means.
func (l *line) find(name string) (*session.Session, error) {
	session, err := l.r.o.Client.Ready(name)
	if err != nil {
		return nil, err
	}
	l.server = session.Server()
	return session, nil
}

// permit asks the policy.
func (l *line) permit() error {
	l.max = defaultMaxRead
	if l.r.o.Gate == nil {
		return nil
	}
	r, err := l.r.o.Gate.Read(l.server)
	l.max = r.Max
	return err
}

// defaultMaxRead bounds what is read where no policy does, in bytes.
const defaultMaxRead = 16 << 20

// take checks the size of a result and takes it from the budget.
func (l *line) take(s *session.Session, what string, r *features.Result, far *ask.Far) error {
	if l.r.o.Gate != nil {
		l.r.o.Gate.Spend(l.server, l.id, len(r.Raw))
	}
	if int64(len(r.Raw)) > l.max {
		return fault.New(fault.ResultTooLarge, "%s has %d bytes; the policy's limit is %d", what, len(r.Raw), l.max)
	}
	if !r.NeedsInput() {
		return nil
	}
	if far == nil {
		return fault.New(fault.InputRequired, "server %s asks for input before it gives %s", l.server, what)
	}
	return ask.Vet(s, l.server, r, func(method string, f *fault.Error) { l.emit(ask.Refused(l.server, method, f)) })
}

// emit records one step. The data is copied.
func (l *line) emit(kind signal.Kind, summary string, data any) {
	switch d := data.(type) {
	case *signal.Resource:
		c := *d
		data = &c
	case *signal.Prompt:
		c := *d
		data = &c
	}
	l.r.out.Record(l.ctx, signal.Signal{
		Kind: kind, Server: l.server, Time: time.Now(), CallID: l.id, Summary: summary, Trace: l.trace, Data: data,
	})
}
