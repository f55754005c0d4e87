package openai_test

import (
	"encoding/json"
	"fmt"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/openai"
)

func ExampleNew() {
	tool := &catalog.Tool{
		Name:        "github.create_issue",
		Description: "Opens an issue.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"labels":{"type":"array"}},"required":["title"]}`),
		Source:      catalog.Source{Kind: "mcp", Server: "github", OriginalName: "create_issue"},
	}
	x, err := openai.New([]*catalog.Tool{tool}, openai.Options{Profile: "openai"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(x.JSON()))
	for _, e := range x.Report {
		fmt.Println(e.Pointer, e.Code)
	}

	call, err := x.Decode("mcp__github__create_issue", `{"title":"Rain","labels":"[\"weather\"]"}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(call.ID, string(call.Arguments), call.Repairs)

	_, err = x.Decode("mcp__github__create_issue", `{"labels":[]}`)
	fmt.Println(err)
	// Output:
	// [{"type":"function","function":{"name":"mcp__github__create_issue","description":"Opens an issue.","parameters":{"type":"object","properties":{"title":{"type":"string"},"labels":{"type":"array","items":{}}},"required":["title"]}}}]
	// /properties/labels/items items_missing
	// {github create_issue} {"title":"Rain","labels":["weather"]} [/labels was sent as a string that holds JSON]
	// invalid_arguments: arguments for mcp__github__create_issue do not fit: the arguments: required and missing: "title"
}
