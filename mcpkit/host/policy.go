package host

import (
	"context"
	"encoding/json"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// Request is what a Policy decides on.
type Request struct {
	CallID    string
	Tool      *catalog.Tool
	Arguments json.RawMessage
	Entrance  string
}

// Verdict is a Policy's answer.
type Verdict struct {
	Allow  bool
	Ask    bool   // a person has to be asked: Policy.Await tells what came of it
	Risk   string // what the call was taken for
	Actor  string // who decided: default, config, or a person's name
	Reason string // which rule decided, for the record and the refusal
}

// Policy decides whether a call may be made.
type Policy interface {
	// Decide answers at once and does no I/O that can block for long.
	Decide(r Request) Verdict
	// Await waits for a person's answer to a request that Decide said to ask
	// about, until ctx ends.
	Await(ctx context.Context, r Request) (Verdict, error)
}

// AllowAll is the Policy of a platform whose operator trusts every server.
type AllowAll struct{}

// Decide allows the call.
func (AllowAll) Decide(Request) Verdict { return Verdict{Allow: true, Actor: "default"} }

// Await allows the call.
func (AllowAll) Await(context.Context, Request) (Verdict, error) {
	return Verdict{Allow: true, Actor: "default"}, nil
}
