package main

import (
	"io"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
)

func TestEveryVerbThatPrintsDataHasJSON(t *testing.T) {
	without := []string{
		"platform run", "platform gateway", // which talk until they end
		"platform tools convert", "platform tools decode", "platform schema", // whose output is JSON,
		"platform history export",                                                                              // JSON or CSV,
		"platform metrics",                                                                                     // or has a form of its own
		"platform servers start", "platform servers stop", "platform servers restart", "platform calls answer", // which print nothing
	}
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		path := cmd.CommandPath()
		if cmd.RunE == nil || cmd.HasSubCommands() && cmd.Flags().Lookup("json") == nil && path != "platform gateway" {
			return // a group shows its help
		}
		seen++
		if has := cmd.Flags().Lookup("json") != nil; has == slices.Contains(without, path) {
			t.Errorf("%s: --json %v", path, has)
		}
	}
	walk(root(cli.New(nil, io.Discard, io.Discard)))
	if seen < 40 {
		t.Errorf("only %d verbs were seen", seen)
	}
}
