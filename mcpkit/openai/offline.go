package openai

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// offlineInput is what ConvertJSON and DecodeJSON read.
type offlineInput struct {
	Tools []struct {
		Server      string          `json:"server"`
		Tool        string          `json:"tool"`
		Alias       string          `json:"alias"` // of the server; optional
		Title       string          `json:"title"` // optional
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	} `json:"tools"`
	Reserved  []string `json:"reserved"`
	Name      string   `json:"name"`
	Arguments *string  `json:"arguments"`
}

func readOffline(profile string, in []byte) (*Export, *offlineInput, error) {
	var input offlineInput
	if err := json.Unmarshal(in, &input); err != nil {
		return nil, nil, fmt.Errorf("reading the input: %w", err)
	}
	var tools []*catalog.Tool
	for _, t := range input.Tools {
		id := catalog.ID{Server: t.Server, Tool: t.Tool}
		tools = append(tools, &catalog.Tool{Name: id.Canonical(), Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
			Alias: t.Alias, Source: catalog.Source{Kind: "mcp", Server: t.Server, OriginalName: t.Tool}})
	}
	x, err := New(tools, Options{Profile: profile, Reserved: input.Reserved})
	return x, &input, err
}

// ConvertJSON shows what a profile makes of tools, without any server:
//
//	in   {"tools":[{"server","tool","description","inputSchema"}, …], "reserved":[NAME, …]}
//	out  {"tools":[{"server","tool","name","description","parameters","strict"}, …],
//	      "report":[{"server","tool","pointer","code","before","after","lossy"}, …]}
//
// The error is about the input as a whole or the profile.
func ConvertJSON(profile string, in []byte) ([]byte, error) {
	x, _, err := readOffline(profile, in)
	if err != nil {
		return nil, err
	}
	tools, report := make([]any, 0, len(x.items)), make([]any, 0, len(x.Report))
	for _, it := range x.items {
		id := it.tool.ID()
		tools = append(tools, jsonvalue.NewObject("server", id.Server, "tool", id.Tool, "name", it.name,
			"description", it.description, "parameters", it.result.Parameters, "strict", it.result.Strict))
	}
	for _, e := range x.Report {
		report = append(report, jsonvalue.NewObject("server", e.Server, "tool", e.Tool, "pointer", e.Pointer, "code", e.Code,
			"before", orNull(e.Before), "after", orNull(e.After), "lossy", e.Lossy))
	}
	return jsonvalue.Append(nil, jsonvalue.NewObject("tools", tools, "report", report)), nil
}

func orNull(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return raw
}

// DecodeJSON shows what becomes of a call, without any server:
//
//	in   {"tools":[…], "reserved":[…], "name":NAME THE MODEL CALLED, "arguments":STRING AS THE MODEL SENT IT}
//	out  {"server","tool","arguments":{…},"repairs":[…]}
//	     or {"error":{"error_code","message","candidates"?}}, and ok is false
//
// The error is about the input as a whole or the profile.
func DecodeJSON(profile string, in []byte) (out []byte, ok bool, err error) {
	x, input, err := readOffline(profile, in)
	if err != nil {
		return nil, false, err
	}
	if input.Arguments == nil {
		return nil, false, errors.New(`reading the input: "arguments" must be the string that the model sent`)
	}
	call, err := x.Decode(input.Name, *input.Arguments)
	if err != nil {
		e := fault.From(err)
		o := jsonvalue.NewObject("error_code", e.Code, "message", e.Message)
		if len(e.Candidates) > 0 {
			o.Set("candidates", list(e.Candidates))
		}
		return jsonvalue.Append(nil, jsonvalue.NewObject("error", o)), false, nil
	}
	return jsonvalue.Append(nil, jsonvalue.NewObject("server", call.ID.Server, "tool", call.ID.Tool,
		"arguments", call.Arguments, "repairs", list(call.Repairs))), true, nil
}

func list(l []string) []any {
	out := make([]any, len(l))
	for i, s := range l {
		out[i] = s
	}
	return out
}
