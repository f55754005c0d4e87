package appkit

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// Resource describes a piece of state that can be read, such as the active
// timers.
type Resource struct {
	URI         string // absolute, such as aurora://clock/timers
	Name        string // short, unique in the app
	Title       string // for people; may be in any language
	Description string
}

// AddResource offers what snapshot returns, as JSON. A snapshot that fails gives
// the reader an error without detail; the log has it. Tell subscribers of a
// change with [App.ResourceChanged].
func (a *App) AddResource(r Resource, snapshot func(ctx context.Context) (any, error)) {
	a.resources[r.URI] = true
	const mimeType = "application/json"
	a.server.AddResource(&mcp.Resource{
		URI:         r.URI,
		Name:        r.Name,
		Title:       r.Title,
		Description: r.Description,
		MIMEType:    mimeType,
	}, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		v, err := snapshot(ctx)
		if err != nil {
			a.Log.Error("resource failed", "uri", r.URI, "error", err)
			return nil, fmt.Errorf("reading %s: %s", r.URI, internalMessage)
		}
		text, err := jsontext.Marshal(v)
		if err != nil {
			a.Log.Error("resource failed", "uri", r.URI, "error", err)
			return nil, fmt.Errorf("reading %s: %s", r.URI, internalMessage)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
			URI: r.URI, MIMEType: mimeType, Text: string(text),
		}}}, nil
	})
}

// ResourceChanged tells those who subscribed to uri that reading it again gives
// something else. It writes to the connection, so call it without locks held.
func (a *App) ResourceChanged(ctx context.Context, uri string) error {
	return a.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
}

// known answers whether there is a resource to subscribe to.
func (a *App) known(uri string) error {
	if !a.resources[uri] {
		return mcp.ResourceNotFoundError(uri)
	}
	return nil
}
