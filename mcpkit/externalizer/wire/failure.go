package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"
)

// Cause is a kind of failure that callers treat in a way of its own.
type Cause int

// The causes.
const (
	Failed   Cause = iota // the endpoint refused, or could not be reached
	TooLong               // the conversation and its tools are too long for the model
	Filtered              // the provider's content filter stopped it
)

// Failure is what an error of the client library means.
type Failure struct {
	Cause   Cause
	Err     error // for people; without the key
	Passing bool  // asking again may help
}

// Explain reads an error of the client library. model is named in the text; key is
// taken out of it, should anything have put it there.
func Explain(err error, model, key string) Failure {
	var api *openai.APIError
	var req *openai.RequestError
	var status int
	var code, text string
	switch {
	case errors.As(err, &req): // it may hold what could be read of an APIError
		status, text = req.HTTPStatusCode, string(req.Body)
	case errors.As(err, &api):
		status, code, text = api.HTTPStatusCode, fmt.Sprint(api.Code)+" "+api.Type, api.Message
		if n, ok := api.Code.(int); ok && status == 0 && http.StatusText(n) != "" { // the status that it came too late for
			status = n
		}
	default:
		return Failure{Err: fmt.Errorf("asking the model: %w", clean(err, key)), Passing: isNetwork(err)}
	}
	text = hide(OneLine(text, 500), key)
	said := strings.ToLower(code + " " + text)
	lead := "the endpoint broke off its answer"
	if status != 0 {
		lead = fmt.Sprintf("the endpoint answered %d %s", status, http.StatusText(status))
	}
	f := Failure{Err: fmt.Errorf("%s: %s", lead, text)}
	switch {
	case anyOf(said, "context_length", "context length", "context window", "maximum context", "prompt is too long", "too many tokens") ||
		status == http.StatusRequestEntityTooLarge:
		f.Cause, f.Err = TooLong, fmt.Errorf("the conversation and its tools are too long for the model %s: %s", model, text)
	case strings.Contains(said, "content_filter"):
		f.Cause = Filtered
	case strings.Contains(said, "insufficient_quota"): // a 429 that waiting does not cure
	case strings.Contains(said, "tool_use_failed"): // Groq's 400 for a call that the model wrote badly; it writes another one
		f.Passing = true
	case status == 0:
		f.Passing = anyOf(said, "rate_limit", "overloaded", "server_error", "unavailable", "timeout")
	default:
		f.Passing = status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500 && status != http.StatusNotImplemented
	}
	return f
}

// clean is err with the key taken out of its text.
func clean(err error, key string) error {
	if hidden := hide(err.Error(), key); hidden != err.Error() {
		return errors.New(hidden)
	}
	return err
}

func hide(s, key string) string {
	if key == "" {
		return s
	}
	return strings.ReplaceAll(s, key, "[key]")
}

// isNetwork tells a connection that failed from one that will never do, and
// from an answer that is none.
func isNetwork(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.Is(err, errRedirect) || errors.Is(err, errPage) || errors.As(err, &certificate) {
		return false
	}
	var failed *url.Error
	var lost net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &failed) || errors.As(err, &lost)
}

func anyOf(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// OneLine is s on one line, in at most most bytes.
func OneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
