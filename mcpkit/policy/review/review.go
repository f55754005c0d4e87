// Package review watches what servers say of their tools. It scans names,
// descriptions and schemas at every level for poison, and it pins each tool that
// was approved by the hash of its definition, so that a tool which becomes
// another one is noticed before it runs.
//
//	pins, err := review.Open(ctx, db, review.Options{})
//	report, err := pins.Review(ctx, snapshot.Tools, firstContact)
//	state := pins.State(tool.ID(), review.Hash(tool))
//	err = pins.Approve(ctx, review.Approval{Server: "com.example.crm", Actor: "anna"})
//
// What a text says to a model is judged by package injection.
//
// A scan is deterministic and offline: the same catalogue gives the same
// findings. It finds what is written plainly or badly disguised; it does not
// understand language, and a tool without findings is not thereby harmless.
//
// States are read from memory. Approvals are durable before they hold.
package review
