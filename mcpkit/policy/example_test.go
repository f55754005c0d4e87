package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/ledger"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
)

// A call through all four doors: the rules, a person, the ledger, the server.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "policy")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := policy.OpenStore(ctx, filepath.Join(dir, "policy.db"), policy.StoreOptions{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	gate := policy.NewGate(store, nil, nil)

	tool := &catalog.Tool{
		Name: "im.polaris.diary.delete_entry", Description: "Delete the diary's entry of a day for good.",
		Source: catalog.Source{Server: "im.polaris.diary", OriginalName: "delete_entry"},
	}
	if _, err := gate.Review(ctx, catalog.NewTable("mcp", []*catalog.Tool{tool})); err != nil {
		panic(err)
	}

	call := func(req policy.Request, send func() (json.RawMessage, error)) (json.RawMessage, error) {
		v, err := gate.Decide(ctx, req)
		if err != nil {
			return nil, err
		}
		fmt.Println("permission:", v.Action)
		if v, err = gate.Await(ctx, req, v); err != nil {
			return nil, err
		}
		run, err := gate.Begin(ctx, req, v)
		if err != nil {
			return nil, err
		}
		if run.Replay != nil {
			return run.Replay.Result, nil
		}
		answer, err := send()
		if err != nil {
			return nil, run.Fail(ctx, err)
		}
		return answer, run.Complete(ctx, ledger.Result{Raw: answer})
	}
	send := func() (json.RawMessage, error) {
		fmt.Println("sent")
		return json.RawMessage(`{"date":"2026-11-29"}`), nil
	}
	req := policy.Request{
		CallID: "01KB", Tool: tool, Arguments: json.RawMessage(`{"date":"2026-11-29"}`), IdempotencyKey: "tidy-up-1",
	}

	_, err = call(req, send)
	fmt.Println("refused:", fault.From(err).Code)

	open, err := gate.Approvals.List(ctx, approval.Pending)
	if err != nil {
		panic(err)
	}
	fmt.Println("asked about:", open[0].Tool, string(open[0].Arguments))
	if _, err := gate.Approvals.Approve(ctx, open[0].ID, approval.Once, "anna"); err != nil {
		panic(err)
	}

	for range 2 {
		answer, err := call(req, send)
		fmt.Println(string(answer), err)
	}
	fmt.Println("without a person:", gate.Engine.Explain(tool).Action == rules.Allow)
	// Output:
	// permission: ask
	// refused: approval_required
	// asked about: delete_entry {"date":"2026-11-29"}
	// permission: allow
	// sent
	// {"date":"2026-11-29"} <nil>
	// permission: allow
	// {"date":"2026-11-29"} <nil>
	// without a person: false
}
