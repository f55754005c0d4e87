package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// ReadResource reads a resource that somebody asked for by name and leaves
// resource.requested and, if it succeeds, resource.observed with the size and
// hash of what was read. The answer is the raw ReadResourceResult without
// secrets (specification 2025-11-25, server/resources). Its errors are
// *fault.Errors. Nothing is read unasked.
func (h *Host) ReadResource(ctx context.Context, server, uri string) (json.RawMessage, error) {
	seen := &signal.Resource{CallID: ulid.Make().String(), URI: uri}
	h.observe(ctx, signal.ResourceRequested, server, uri+" is read", *seen)
	session, err := h.o.Client.Ready(server)
	if err != nil {
		return nil, fault.From(err)
	}
	raw, err := session.ReadResource(ctx, uri)
	if err != nil {
		return nil, fault.From(err)
	}
	clean, _ := h.o.Redact(raw)
	sum := sha256.Sum256(clean)
	seen.Size, seen.SHA256 = int64(len(clean)), hex.EncodeToString(sum[:])
	h.observe(ctx, signal.ResourceObserved, server, uri+" was read", *seen)
	return clean, nil
}

// observe records one step of reading a resource.
func (h *Host) observe(ctx context.Context, kind signal.Kind, server, summary string, r signal.Resource) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := h.o.Sink.Observe(ctx, signal.Signal{Kind: kind, Server: server, Time: time.Now(), CallID: r.CallID, Summary: summary, Data: &r})
	if err != nil {
		h.o.Logger.Error("a step of reading a resource was not recorded", "server", server, "step", kind, "error", err)
	}
}
