package backend

import (
	"context"
	"errors"
	"slices"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
)

// Approvals lists questions to people.
func (b *Backend) Approvals(ctx context.Context, states ...approval.State) ([]approval.Approval, error) {
	return b.o.Gate.Approvals.List(ctx, states...)
}

// Approval is one question.
func (b *Backend) Approval(ctx context.Context, id string) (approval.Approval, error) {
	a, err := b.o.Gate.Approvals.Show(ctx, id)
	return a, approvalFault(err)
}

// Approve answers a question with yes.
func (b *Backend) Approve(ctx context.Context, id string, scope approval.Scope, actor string) (approval.Approval, error) {
	a, err := b.o.Gate.Approvals.Approve(ctx, id, scope, actor)
	return a, approvalFault(err)
}

// Deny answers a question with no.
func (b *Backend) Deny(ctx context.Context, id, actor, reason string) (approval.Approval, error) {
	a, err := b.o.Gate.Approvals.Deny(ctx, id, actor, reason)
	return a, approvalFault(err)
}

// Revoke takes an answer back, or closes a question.
func (b *Backend) Revoke(ctx context.Context, id, actor string) (approval.Approval, error) {
	a, err := b.o.Gate.Approvals.Revoke(ctx, id, actor)
	return a, approvalFault(err)
}

func approvalFault(err error) error {
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return fault.New(control.ApprovalNotFound, "%v", err)
	case errors.Is(err, approval.ErrDecided):
		return fault.New(control.ApprovalDecided, "%v", err)
	}
	return err
}

// Explain says what would become of a call of a tool, and why.
func (b *Backend) Explain(name string) (policy.Explanation, error) {
	tool, err := b.o.Host.Table().Resolve(name)
	if err != nil {
		return policy.Explanation{}, err
	}
	return b.o.Gate.Engine.Explain(tool), nil
}

// Review is the review of the catalogue as it stands, or of a server's part.
func (b *Backend) Review(server string) (*review.Report, error) {
	b.o.Host.Table() // reviews what is new
	report := b.o.Gate.Pins.Report()
	if server == "" {
		return report, nil
	}
	server, err := b.o.Servers.Find(server)
	if err != nil {
		return nil, err
	}
	report.Servers = slices.DeleteFunc(report.Servers, func(s review.ServerReport) bool { return s.Server != server })
	return report, nil
}

// Diff is how a server's tools differ from what was approved.
func (b *Backend) Diff(server string) ([]review.ToolDiff, error) {
	b.o.Host.Table()
	server, err := b.o.Servers.Find(server)
	if err != nil {
		return nil, err
	}
	return b.o.Gate.Pins.Diff(server), nil
}

// Pin approves a server's tools, or one of them, as they were reviewed.
func (b *Backend) Pin(ctx context.Context, a review.Approval) error {
	b.o.Host.Table()
	server, err := b.o.Servers.Find(a.Server)
	if err != nil {
		return err
	}
	a.Server = server
	return b.o.Gate.Pins.Approve(ctx, a)
}
