package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// ErrNotRunning is what every method of Client returns when no platform answers.
var ErrNotRunning = errors.New("no platform is running here")

// Client speaks to the platform that runs on a data folder.
type Client struct {
	http *http.Client
	path string
}

// Dial returns a client; whether a platform runs shows with the first request.
func Dial(data string) (*Client, error) {
	path, err := endpoint.Find(data)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
	}}}, nil
}

// Close ends connections that wait for the next request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Socket is the path that the client dials.
func (c *Client) Socket() string { return c.path }

// Version asks what runs.
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	return v, c.get(ctx, "/v1/version", &v)
}

// Status asks how the platform is.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.get(ctx, "/v1/status", &s)
}

// Metrics copies the metrics, in the text format of Prometheus, to w.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	res, err := c.send(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(w, res.Body)
	return err
}

// Servers lists the servers by name.
func (c *Client) Servers(ctx context.Context) ([]Server, error) {
	var r struct{ Servers []Server }
	return r.Servers, c.get(ctx, "/v1/servers", &r)
}

// Act starts, stops or restarts a server.
func (c *Client) Act(ctx context.Context, name, action string) error {
	return c.do(ctx, http.MethodPost, "/v1/servers/"+url.PathEscape(name)+"/"+action, nil, nil)
}

// Tools lists tool records; server "" means all.
func (c *Client) Tools(ctx context.Context, server string) ([]Tool, error) {
	var r struct{ Tools []Tool }
	return r.Tools, c.get(ctx, "/v1/tools?"+url.Values{"server": {server}}.Encode(), &r)
}

// Export is the catalogue as a JSON array of function tools.
func (c *Client) Export(ctx context.Context, profile, server string) (json.RawMessage, error) {
	var r json.RawMessage
	q := url.Values{"format": {"openai"}, "profile": {profile}, "server": {server}}
	return r, c.get(ctx, "/v1/tools?"+q.Encode(), &r)
}

// Call makes one tool call.
func (c *Client) Call(ctx context.Context, r CallRequest) (*CallResponse, error) {
	var res CallResponse
	if err := c.post(ctx, "/v1/calls", r, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// Logs calls line for the last n lines of a server's stderr and, if follow, for
// those that come.
func (c *Client) Logs(ctx context.Context, server string, n int, follow bool, line func(string) error) error {
	q := url.Values{"n": {strconv.Itoa(n)}, "follow": {strconv.FormatBool(follow)}}
	return c.stream(ctx, "/v1/servers/"+url.PathEscape(server)+"/logs?"+q.Encode(), line)
}

// stream calls line for each line of an answer as it comes.
func (c *Client) stream(ctx context.Context, path string, line func(string) error) error {
	res, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	sc := bufio.NewScanner(res.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if err := line(sc.Text()); err != nil {
			return err
		}
	}
	return sc.Err()
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

func (c *Client) post(ctx context.Context, path string, v, into any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, path, body, into)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, into any) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the platform's answer: %w", err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// send returns an answer that is no failure; its body is the caller's to close.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://platform"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		if notRunning(err) {
			return nil, ErrNotRunning
		}
		var u *url.Error // whose address is none that a person knows
		if errors.As(err, &u) {
			err = fmt.Errorf("asking the platform: %w", u.Err)
		}
		return nil, err
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	return nil, failure(res)
}

// failure is what the platform answered in the place of what was asked for.
func failure(res *http.Response) error {
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var p Problem
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Code == "" {
		return fmt.Errorf("the platform answered %s: %s", res.Status, strings.TrimSpace(string(raw)))
	}
	return &fault.Error{
		Code: p.Code, Message: p.Message, Retryable: p.Retryable,
		Outcome: fault.Outcome(p.Outcome), Candidates: p.Candidates, Data: p.Data, Replayed: p.Replayed,
	}
}

// notRunning reports whether a dial failed because nobody listens.
func notRunning(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
