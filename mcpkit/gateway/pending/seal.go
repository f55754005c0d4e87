package pending

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// sealPrefix tells the gateway's own requestStates from those of servers.
const sealPrefix = "aurora1."

// State is what the gateway has to know when a stateless client repeats a request
// with the answers it was asked for (2026-07-28, multi round-trip requests). The
// client carries the state and can neither change it nor use it for another
// request.
type State struct {
	Approval string          `json:"a,omitempty"` // the question of the policy that was put to the client
	Parked   string          `json:"p,omitempty"` // the call that waits for the answer
	Inputs   json.RawMessage `json:"i,omitempty"` // what the client had sent with the request for its server:
	State    json.RawMessage `json:"s,omitempty"` // inputResponses and requestState
	Until    int64           `json:"t"`           // Unix seconds; set by Seal
}

// Sealer makes and reads states. Its key lives as long as the process.
type Sealer struct{ key []byte }

// NewSealer makes a Sealer with a key of its own.
func NewSealer() Sealer {
	key := make([]byte, 32)
	rand.Read(key)
	return Sealer{key}
}

// Seal is s as a JSON string, bound to the client and to the request that about
// stands for. It is good for [rpc.AnswerTime].
func (k Sealer) Seal(v *view.View, about string, s State) json.RawMessage {
	s.Until = time.Now().Add(rpc.AnswerTime).Unix()
	raw, _ := json.Marshal(s) // strings and valid JSON always marshal
	return rpc.Quote(sealPrefix + base64.RawURLEncoding.EncodeToString(append(k.mac(v, about, raw), raw...)))
}

// Open reads a requestState. It reports mine for every one that has the form of a
// sealed state, and an error where that state was not made for this client and this
// request, or is too old.
func (k Sealer) Open(v *view.View, about string, sealed []byte) (s State, mine bool, err *rpc.Error) {
	str, ok := rpc.Text(sealed)
	if !ok {
		return s, false, nil
	}
	body, ok := strings.CutPrefix(str, sealPrefix)
	if !ok {
		return s, false, nil
	}
	bad := &rpc.Error{Code: rpc.CodeInvalidParams, Message: "the requestState is not the one that was given out for this request"}
	raw, e := base64.RawURLEncoding.DecodeString(body)
	if e != nil || len(raw) < sha256.Size {
		return s, true, bad
	}
	mac, raw := raw[:sha256.Size], raw[sha256.Size:]
	if !hmac.Equal(mac, k.mac(v, about, raw)) || json.Unmarshal(raw, &s) != nil {
		return s, true, bad
	}
	if time.Now().Unix() > s.Until {
		return s, true, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "the answer comes too late: make the request again"}
	}
	return s, true, nil
}

// mac signs a state together with its client and request, each led by its length.
func (k Sealer) mac(v *view.View, about string, raw []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	for _, part := range [][]byte{[]byte(v.Client), []byte(v.Only), []byte(about), raw} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}
