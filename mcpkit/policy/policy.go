// Package policy decides whether a tool call may be made. It is the
// PermissionEngine of the protocol's documents: trust per server, risk per tool,
// rate limits, flow of data, approvals by people, the ledger of what was done,
// and the review of what servers say of their tools.
//
// [Gate] is all of it in one; the parts are packages of their own:
//
//	rules     the policy file
//	decision  what the rules say of a call
//	review    scan and pins of tools' definitions
//	approval  questions to people and their answers
//	ledger    what was sent, and what came of it
//
// A call goes through four steps. The first is cheap where nobody has to be
// asked; the others do nothing for a call that does not need them:
//
//	v, err := gate.Decide(ctx, req)              // allow, ask or deny
//	if v.Action == rules.Ask {
//		v, err = gate.Await(ctx, req, v)         // a person's answer, or a fault with a handle
//	}
//	run, err := gate.Begin(ctx, req, v)          // durable before anything is sent
//	result, err := send(req)
//	run.Complete(ctx, ledger.Result{Raw: result})  // or run.Fail(ctx, err)
//
// The package knows no transports, emits no signals and trusts no server: its
// annotations change nothing.
package policy

import (
	"github.com/aurorabot-dev/platform/mcpkit/policy/decision"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// What a decision is about and what it says; see package decision.
type (
	Request     = decision.Request
	Verdict     = decision.Verdict
	Explanation = decision.Explanation
	Read        = decision.Read
)

// Schema is the JSON Schema of the policy file (draft 2020-12).
func Schema() []byte { return rules.Schema() }
