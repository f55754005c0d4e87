package host

import (
	"encoding/json"

	"github.com/aurorabot-dev/platform/mcpkit/client"
)

// Far is the client at the far end of a request, where it answers a server's
// questions itself: a result that asks for input is handed to it as it is, and it
// makes the request again with the answers (2026-07-28, multi round-trip requests).
type Far struct {
	// Capabilities is what it can answer, as it said so: a ClientCapabilities object.
	Capabilities json.RawMessage
	// InputResponses and RequestState answer an earlier result of the same request.
	InputResponses, RequestState json.RawMessage
}

// with adds what comes from the far end to what a request carries.
func (f *Far) with(w client.With) client.With {
	if f != nil {
		w.Capabilities, w.InputResponses, w.RequestState = f.Capabilities, f.InputResponses, f.RequestState
	}
	return w
}
