package gateway

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
)

// sealPrefix tells the gateway's own requestStates from those of servers.
const sealPrefix = "aurora1."

// state is what the gateway has to know when a stateless client repeats a request
// with the answers it was asked for (2026-07-28, multi round-trip requests). The
// client carries it and can neither change it nor use it for another request.
type state struct {
	Approval string          `json:"a,omitempty"` // the question of the policy that was put to the client
	Parked   string          `json:"p,omitempty"` // the call that waits for the answer
	Inputs   json.RawMessage `json:"i,omitempty"` // what the client had sent with the request,
	State    json.RawMessage `json:"s,omitempty"` // for its server
	Until    int64           `json:"t"`           // Unix seconds
}

// sealer makes and reads states. Its key lives as long as the process.
type sealer struct{ key []byte }

func newSealer() sealer {
	key := make([]byte, 32)
	rand.Read(key)
	return sealer{key}
}

// seal is s as a JSON string, bound to the client and to what it asked for.
func (k sealer) seal(v *View, about string, s state) json.RawMessage {
	s.Until = time.Now().Add(answerTime).Unix()
	raw, _ := json.Marshal(s) // strings and valid JSON always marshal
	return rpc.Quote(sealPrefix + base64.RawURLEncoding.EncodeToString(append(k.mac(v, about, raw), raw...)))
}

// open reads what seal made. It reports mine for everything that has its form,
// and an error where it is not what was made for that client and request.
func (k sealer) open(v *View, about string, sealed []byte) (s state, mine bool, err *rpc.Error) {
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

func (k sealer) mac(v *View, about string, raw []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	for _, part := range [][]byte{[]byte(v.Client), []byte(v.Only), []byte(about), raw} {
		h.Write(bytes.Join([][]byte{{byte(len(part) >> 24), byte(len(part) >> 16), byte(len(part) >> 8), byte(len(part))}, part}, nil))
	}
	return h.Sum(nil)
}
