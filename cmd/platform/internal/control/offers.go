package control

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
)

// Item is an entry of a server's list as the server wrote it, without secrets.
type Item struct {
	Server string          `json:"server"`
	Item   json.RawMessage `json:"item"` // an MCP Resource, ResourceTemplate or Prompt
}

// ReadRequest asks for one resource.
type ReadRequest struct {
	Server   string `json:"server"` // name or alias
	URI      string `json:"uri"`
	Fresh    bool   `json:"fresh,omitempty"` // ask the server also where an earlier answer is still good
	Entrance string `json:"entrance,omitempty"`
}

// ReadResponse is what was read.
type ReadResponse struct {
	CallID   string          `json:"call_id"`
	Server   string          `json:"server"`
	URI      string          `json:"uri"`
	Size     int64           `json:"size"`   // of the result, bytes
	SHA256   string          `json:"sha256"` // of the result
	Flags    []string        `json:"flags,omitempty"`
	Artifact any             `json:"artifact,omitempty"`
	Result   json.RawMessage `json:"result"` // the MCP ReadResourceResult
}

// Subscription is a resource whose changes are delivered to the inbox.
type Subscription struct {
	Server string `json:"server"`
	URI    string `json:"uri"`
}

// PromptRequest asks for the expansion of one prompt.
type PromptRequest struct {
	Server    string            `json:"server"` // name or alias
	Prompt    string            `json:"prompt"`
	Arguments map[string]string `json:"arguments,omitempty"`
	Entrance  string            `json:"entrance,omitempty"`
}

// CompletionRequest asks for values of an argument of a prompt or of a template.
type CompletionRequest struct {
	Server    string            `json:"server"` // name or alias
	Prompt    string            `json:"prompt,omitempty"`
	Template  string            `json:"template,omitempty"`
	Argument  string            `json:"argument"`
	Value     string            `json:"value,omitempty"`
	Arguments map[string]string `json:"arguments,omitempty"` // those that are set already
}

// LogLevelRequest asks for a server's log messages of a level and above.
type LogLevelRequest struct {
	Level string `json:"level"`
}

// Resources lists resources, of one server or of all.
func (c *Client) Resources(ctx context.Context, server string) ([]Item, error) {
	var r struct{ Resources []Item }
	return r.Resources, c.get(ctx, "/v1/resources?"+url.Values{"server": {server}}.Encode(), &r)
}

// Templates lists resource templates, of one server or of all.
func (c *Client) Templates(ctx context.Context, server string) ([]Item, error) {
	var r struct{ Templates []Item }
	return r.Templates, c.get(ctx, "/v1/resources/templates?"+url.Values{"server": {server}}.Encode(), &r)
}

// ReadResource reads one resource.
func (c *Client) ReadResource(ctx context.Context, r ReadRequest) (*ReadResponse, error) {
	var res ReadResponse
	return &res, c.post(ctx, "/v1/resources/read", r, &res)
}

// UpdatedEvent is the event of a watch: the resource may be another now.
const UpdatedEvent = "updated"

// Watch calls changed after each change of a resource, until it returns an error
// or ctx ends.
func (c *Client) Watch(ctx context.Context, server, uri string, changed func() error) error {
	return c.stream(ctx, "/v1/resources/watch?"+url.Values{"server": {server}, "uri": {uri}}.Encode(), func(line string) error {
		if line == "event: "+UpdatedEvent {
			return changed()
		}
		return nil
	})
}

// Subscribe has changes of a resource delivered to the inbox.
func (c *Client) Subscribe(ctx context.Context, s Subscription) error {
	return c.post(ctx, "/v1/resources/subscribe", s, nil)
}

// Unsubscribe ends that.
func (c *Client) Unsubscribe(ctx context.Context, s Subscription) error {
	return c.post(ctx, "/v1/resources/unsubscribe", s, nil)
}

// Subscriptions lists the resources whose changes are delivered to the inbox.
func (c *Client) Subscriptions(ctx context.Context) ([]Subscription, error) {
	var r struct{ Subscriptions []Subscription }
	return r.Subscriptions, c.get(ctx, "/v1/resources/subscriptions", &r)
}

// Prompts lists prompts, of one server or of all.
func (c *Client) Prompts(ctx context.Context, server string) ([]Item, error) {
	var r struct{ Prompts []Item }
	return r.Prompts, c.get(ctx, "/v1/prompts?"+url.Values{"server": {server}}.Encode(), &r)
}

// GetPrompt expands a prompt.
func (c *Client) GetPrompt(ctx context.Context, r PromptRequest) (*offers.Prompt, error) {
	var p offers.Prompt
	return &p, c.post(ctx, "/v1/prompts/get", r, &p)
}
