package ask

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Far is the client at the far end of a request, where it answers a server's
// questions itself: a result that asks for input is handed to it as it is, unless
// it asks what nobody is to be asked, and it makes the request again with the answers
// (2026-07-28, multi round-trip requests).
type Far struct {
	// Capabilities is what it can answer, as it said so: a ClientCapabilities object.
	Capabilities json.RawMessage
	// InputResponses and RequestState answer an earlier result of the same request.
	InputResponses, RequestState json.RawMessage
}

// With adds what comes from the far end to what a request carries. f may be nil.
func (f *Far) With(w features.With) features.With {
	if f != nil {
		w.Capabilities, w.InputResponses, w.RequestState = f.Capabilities, f.InputResponses, f.RequestState
	}
	return w
}

// Vet refuses a result that asks the client at the far end for what its server may
// not ask for, for a secret in a form, or to visit an address that deceives: what the
// platform refuses to ask its own people, it refuses to hand on. refused is called
// with each question that is shown to nobody.
func Vet(s *session.Session, subject string, r *features.Result, refused func(method string, f *fault.Error)) error {
	asked, err := inputRequests(subject, r)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		a := asked[id]
		if !s.Relays(a.Method) {
			return withoutLeave(subject, a.Method)
		}
		if a.Method == handshake.MethodRoots {
			continue
		}
		if _, err := readQuestion(id, a.Method, a.Params); err != nil {
			refused(a.Method, fault.From(err))
			return refusedInput(subject, err)
		}
	}
	return nil
}
