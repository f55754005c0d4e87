package ask

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"

	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask/form"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Kinds of questions, in signal.Question.
const (
	FormQuestion     = "form"     // a person fills in fields
	URLQuestion      = "url"      // a person does something on a web page
	SamplingQuestion = "sampling" // a model answers
)

// Bounds of what a server may ask at once.
const (
	maxQuestions   = 16
	maxMessage     = 8 << 10 // bytes
	maxQuestionURL = 4 << 10 // bytes
)

// readQuestion reads what a server asks, and refuses what nobody is to be asked. The
// error is a *fault.Error with invalid_arguments: it is the server's.
func readQuestion(id, method string, params json.RawMessage) (signal.Question, error) {
	q := signal.Question{ID: id, Raw: params}
	if method == handshake.MethodSampling {
		q.Kind, q.Params = SamplingQuestion, params
		return q, nil
	}
	var p struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
		URL     string          `json:"url"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return q, fault.New(fault.InvalidArguments, "the question cannot be read: %v", err)
	}
	if len(p.Message) > maxMessage {
		return q, fault.New(fault.InvalidArguments, "the question's message has %d bytes; the limit is %d", len(p.Message), maxMessage)
	}
	q.Message, _ = redact.Strip(p.Message)
	switch {
	case p.Mode == "url" || p.Mode == "" && p.URL != "":
		q.Kind = URLQuestion
		return q, readURL(&q, p.URL)
	case p.Mode == "form" || p.Mode == "":
		q.Kind, q.Schema = FormQuestion, p.Schema
		_, err := form.Read(q.Message, p.Schema)
		return q, err
	}
	return q, fault.New(fault.InvalidArguments, "questions of the mode %.40q are not known", p.Mode)
}

// readURL checks the address that a person would open, and says what its host
// is, so that nobody has to find it in the middle of a long line. Nothing is ever
// opened or fetched here (2025-11-25, client/elicitation: safe URL handling).
func readURL(q *signal.Question, raw string) error {
	refuse := func(why string) error {
		return fault.New(fault.InvalidArguments, "the URL of a question is refused: %s", why)
	}
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxQuestionURL:
		return refuse("it is too long")
	case err != nil || u.Host == "":
		return refuse("it is no address on the web")
	case u.User != nil:
		return refuse("it holds a user's name, which hides whose it is")
	}
	for _, c := range raw {
		if c <= ' ' || c == '\\' || c == 0x7f {
			return refuse("it has characters that no URL has")
		}
	}
	if _, hidden := redact.Strip(raw); hidden > 0 {
		return refuse("it has hidden characters")
	}
	name := u.Hostname()
	addr, ip := netip.ParseAddr(name)
	local := strings.EqualFold(name, "localhost") || ip == nil && addr.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && local) {
		return refuse("it is no https URL")
	}
	var warnings []string
	if ip == nil {
		q.Host = name
		if !local {
			warnings = append(warnings, "the host is an address without a name")
		}
	} else {
		if q.Host, err = idna.Lookup.ToASCII(name); err != nil {
			return refuse("its host name is not valid")
		}
		if shown, _ := idna.Display.ToUnicode(q.Host); shown != q.Host {
			warnings = append(warnings, "the host name "+redact.Show(shown)+" has letters that can look like others; its real name is "+q.Host)
		}
	}
	if local {
		warnings = append(warnings, "the address is on this machine")
	}
	q.URL, q.Warning = raw, strings.Join(warnings, "; ")
	return nil
}
