// Package streamable serves a gateway over Streamable HTTP: both eras of the
// protocol on one address, told apart by the MCP-Protocol-Version header.
//
//	h := streamable.New(streamable.Options{Gateway: g, Open: &view.View{Approve: true}})
//	defer h.Close()
//	http.ListenAndServe("127.0.0.1:8808", h)
//
// The platform is at /mcp, and one server under its own names at /mcp/SERVER; a slash
// at the end changes nothing.
//
// Whoever comes with a token stays for as long as the token is good: sessions and
// streams of one that is taken back, or whose view changes, end within seconds.
//
// A request is answered with JSON where nothing is to be said before the answer and
// the answer comes soon, else with a stream of events, which has a sign of life in each
// time of silence. Streams are not resumed: who loses one has lost
// what was on it. A session (2025-03-26 to 2025-11-25) belongs to the token that
// opened it, ends by DELETE or when it is idle, and its calls outlive the
// connections they came on; a request of 2026-07-28 ends with its connection.
//
// Pages in browsers are kept out: the Host of a request must be this machine's
// own, or one that the options name, and an Origin must be the same place.
package streamable

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/answer"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// Path is where the platform is.
const Path = "/mcp"

// Options say how a Handler works. Gateway is required, and Open or Tokens of the rules.
type Options struct {
	Gateway *gateway.Gateway
	Logger  *slog.Logger // nil discards
	access.Rules
	Limits Limits
}

// Limits bound what clients cost. Zero is the default.
type Limits struct {
	Body     int64         // bytes of a request; 16 MiB
	Sessions int           // 1000
	Idle     time.Duration // of a session without request and stream, before it ends; 30 min
	Stall    time.Duration // for a body to come, and for an event to be taken; 30 s
	Alive    time.Duration // of silence on a stream before a sign of life; 15 s
}

func (l Limits) withDefaults() Limits {
	return Limits{
		cmp.Or(l.Body, 16<<20), cmp.Or(l.Sessions, 1000), cmp.Or(l.Idle, 30*time.Minute),
		cmp.Or(l.Stall, 30*time.Second), cmp.Or(l.Alive, 15*time.Second),
	}
}

// Handler serves clients. It is an http.Handler, safe for concurrent use.
type Handler struct {
	o    Options
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // requests

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
	grants   map[*grant]bool // who came with a token
}

// New makes a Handler.
func New(o Options) *Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.withDefaults()
	h := &Handler{o: o, sessions: map[string]*session{}, grants: map[*grant]bool{}}
	h.ctx, h.stop = context.WithCancel(context.Background()) // ends in Close
	if o.Tokens != nil {
		h.work.Go(h.watchTokens)
	}
	return h
}

// Close ends all sessions and streams, and waits for the requests that are being
// answered. Later ones are refused.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	open := h.sessions
	h.sessions = map[string]*session{}
	h.mu.Unlock()
	h.stop()
	for _, s := range open {
		s.end()
	}
	h.work.Wait()
}

// answer begins the answer to a request.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, cancel context.CancelFunc) *answer.Stream {
	return answer.New(w, r, answer.Limits{Stall: h.o.Limits.Stall, Alive: h.o.Limits.Alive}, cancel)
}

// begin counts a request in, unless the handler is closed.
func (h *Handler) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.work.Add(1)
	}
	return !h.closed
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begin() {
		http.Error(w, "the gateway is closing", http.StatusServiceUnavailable)
		return
	}
	defer h.work.Done()
	if h.o.CORS(w, r) {
		return
	}
	view, token, refusal := h.o.Admit(w, r)
	if refusal != nil {
		http.Error(w, refusal.Why, refusal.Status)
		return
	}
	who := holder{token, view}
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch server, ok := strings.CutPrefix(path, Path+"/"); {
	case ok:
		if view = h.o.Gateway.Only(r.Context(), view, server); view == nil {
			http.Error(w, "there is no server "+strconv.Quote(server), http.StatusNotFound)
			return
		}
	case path != Path:
		http.NotFound(w, r)
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, view, who)
	case http.MethodGet:
		h.get(w, r, view)
	case http.MethodDelete:
		h.delete(w, r, view)
	default:
		w.Header().Set("Allow", "POST, GET, DELETE")
		http.Error(w, "use POST, GET or DELETE", http.StatusMethodNotAllowed)
	}
}

// Headers of the protocol, in canonical form.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

const sessionless = "2026-07-28"

// post takes one message (2025-11-25, basic/transports: sending messages).
func (h *Handler) post(w http.ResponseWriter, r *http.Request, view *view.View, who holder) {
	if !isJSON(r.Header.Get("Content-Type")) {
		http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, status, err := h.body(w, r)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	version := r.Header.Get(headerVersion)
	if len(body) > 0 && body[0] == '[' {
		h.batch(w, r, view, body)
		return
	}
	m, bad := rpc.Parse(body)
	if bad == nil && version != "" {
		if !slices.Contains(rpc.Versions, version) {
			bad = rpc.UnsupportedVersion(version).For(m)
		}
	}
	switch {
	case bad != nil:
		answer.WriteJSON(w, http.StatusBadRequest, bad.Reply())
	case version >= sessionless || m.Stateless():
		h.stateless(w, r, view, who, m, version)
	default:
		h.session(w, r, view, who, m)
	}
}

// isJSON reports whether a Content-Type is JSON, with parameters or without.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == "application/json"
}

// promised is how many bytes there is room for before they come.
const promised = 256 << 10

// body reads the message.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) ([]byte, int, error) {
	if r.ContentLength > h.o.Limits.Body {
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	}
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(h.o.Limits.Stall))
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), promised)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, h.o.Limits.Body))
	if err != nil {
		status, err := unread(err)
		return nil, status, err
	}
	control.SetReadDeadline(time.Time{}) // from here on a read only tells that the client left
	return body.Bytes(), 0, nil
}

// unread is the answer where a body could not be read.
func unread(err error) (status int, why error) {
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return http.StatusRequestEntityTooLarge, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, errors.New("the message did not come in time")
	}
	return http.StatusBadRequest, errors.New("the message did not come whole")
}

var errTooLarge = errors.New("the message is too large")

// stateless answers a request that stands for itself.
func (h *Handler) stateless(w http.ResponseWriter, r *http.Request, view *view.View, who holder, m *rpc.Message, version string) {
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if bad := checkHeaders(r.Header, m, version); bad != nil {
		answer.WriteJSON(w, bad.Status(), bad.For(m).Reply())
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	defer h.during(who, cancel)()
	s := h.answer(w, r, cancel)
	defer s.Close()
	reply, bad := h.o.Gateway.Serve(ctx, view, m, s)
	if bad != nil {
		s.Finish(bad.Reply(), bad.Status())
		return
	}
	s.Finish(reply, http.StatusOK)
}

// checkHeaders compares what headers repeat of a stateless request (2026-07-28,
// basic/transports: headers).
func checkHeaders(header http.Header, m *rpc.Message, version string) *rpc.Error {
	mismatch := func(name, got, want string) *rpc.Error {
		return &rpc.Error{Code: rpc.CodeHeaderMismatch, Message: "the header " + name + " is " + strconv.Quote(got) + ", the message says " + strconv.Quote(want)}
	}
	switch {
	case version == "":
		return &rpc.Error{Code: rpc.CodeHeaderMismatch, Message: "the header " + headerVersion + " is missing"}
	case !m.Stateless():
		return rpc.MissingVersion
	case version != m.Version():
		return mismatch(headerVersion, version, m.Version())
	case header.Get(headerMethod) != m.Name():
		return mismatch(headerMethod, header.Get(headerMethod), m.Name())
	}
	if subject, has := m.Subject(); has {
		if got := decodeHeader(header.Get(headerName)); got != subject {
			return mismatch(headerName, got, subject)
		}
	}
	return nil
}

// decodeHeader is a header's value, which is wrapped where it is not plain ASCII
// (2026-07-28, basic/transports: =?base64?…?=).
func decodeHeader(v string) string {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return v
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		return v
	}
	return string(b)
}
