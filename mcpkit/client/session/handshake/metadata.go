package handshake

import (
	"encoding/json"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
)

// Requests of a server that a client can answer, if it offers to.
const (
	MethodRoots    = "roots/list"
	MethodSampling = "sampling/createMessage"
	MethodElicit   = "elicitation/create"
)

// Features are what a server may ask of a client.
type Features struct{ Roots, Sampling, Elicitation bool }

// Has reports whether the features include answers to a method, such as
// MethodElicit.
func (f Features) Has(method string) bool {
	switch method {
	case MethodRoots:
		return f.Roots
	case MethodSampling:
		return f.Sampling
	case MethodElicit:
		return f.Elicitation
	}
	return false
}

// elicitation is the capability of answers to forms and to URLs.
func elicitation() *mcp.ElicitationCapabilities {
	return &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
}

// initialize is the features as the SDK takes them.
func (f Features) initialize() *mcp.ClientCapabilities {
	c := &mcp.ClientCapabilities{}
	if f.Roots {
		c.RootsV2 = &mcp.RootCapabilities{}
	}
	if f.Sampling {
		c.Sampling = &mcp.SamplingCapabilities{}
	}
	if f.Elicitation {
		c.Elicitation = elicitation()
	}
	return c
}

// capabilities is the features as a member of _meta holds them.
func (f Features) capabilities() any {
	var c struct { // the SDK's own type marshals roots wrongly
		Roots       *mcp.RootCapabilities        `json:"roots,omitempty"`
		Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
		Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
	}
	if f.Roots {
		c.Roots = &mcp.RootCapabilities{}
	}
	if f.Sampling {
		c.Sampling = &mcp.SamplingCapabilities{}
	}
	if f.Elicitation {
		c.Elicitation = elicitation()
	}
	return c
}

// within is the member of _meta for the capabilities of a client further away, as
// far as the features include them.
func (f Features) within(far json.RawMessage) []byte {
	b := append([]byte(nil), `"`+mcp.MetaKeyClientCapabilities+`":{`...)
	begun := len(b)
	jsontext.Members(far, func(name, value []byte) bool {
		switch string(name) {
		case "roots":
			if !f.Roots {
				return true
			}
		case "sampling":
			if !f.Sampling {
				return true
			}
		case "elicitation":
			if !f.Elicitation {
				return true
			}
		default: // nothing that is not understood is promised
			return true
		}
		if len(b) > begun {
			b = append(b, ',')
		}
		b = append(append(append(append(append(b, '"'), name...), '"'), ':'), rpc.OneLine(value)...)
		return true
	})
	return append(b, '}')
}

// Metadata is what each request says of the client under the stateless protocol
// (2026-07-28): the version, the client's name and its capabilities. Under older
// versions requests say nothing of the kind. It is safe for concurrent use.
type Metadata struct {
	version  string
	self     mcp.Implementation
	features Features
	relay    Features
	members  atomic.Pointer[[]byte]
}

func newMetadata(version string, o Options) *Metadata {
	m := &Metadata{version: version, self: o.Self, features: o.Features, relay: o.Relay}
	if version >= Stateless {
		m.SetLogLevel("")
	}
	return m
}

// SetLogLevel has all later requests ask for log messages of a level and above;
// none where it is empty. It is for the stateless protocol alone.
func (m *Metadata) SetLogLevel(level string) {
	meta := map[string]any{
		mcp.MetaKeyProtocolVersion:    m.version,
		mcp.MetaKeyClientInfo:         &m.self,
		mcp.MetaKeyClientCapabilities: m.features.capabilities(),
	}
	if level != "" {
		meta[mcp.MetaKeyLogLevel] = level
	}
	b, _ := json.Marshal(meta) // strings and plain structs always marshal
	b = b[1 : len(b)-1]
	m.members.Store(&b)
}

// Members is the members of _meta, without braces; nil under versions before the
// stateless one.
func (m *Metadata) Members() []byte {
	if b := m.members.Load(); b != nil {
		return *b
	}
	return nil
}

// MembersFor is Members for a request that is made for a client further away, whose
// capabilities far holds. They stand in for those of this client, as far as
// [Options].Relay lets them; nil changes nothing.
func (m *Metadata) MembersFor(far json.RawMessage) []byte {
	own := m.Members()
	if own == nil || far == nil {
		return own
	}
	rest, _ := rpc.Members(append(append([]byte{'{'}, own...), '}'), func(name []byte) bool {
		return string(name) == mcp.MetaKeyClientCapabilities
	})
	return append(append(rest, ','), m.relay.within(far)...)
}
