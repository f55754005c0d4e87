package appkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/internal/args"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// CodeInternal is the error_code of a failure that the app did not foresee: a
// panic, or an error that is not made with Fail. Its detail is in the log only.
const CodeInternal = "INTERNAL"

const internalMessage = "the app failed in a way it did not foresee; its log has the detail"

var errInternal = fault.New(CodeInternal, internalMessage)

// Tool describes a tool. The hints are what the app says of itself; a host need
// not believe them.
type Tool struct {
	Name        string // verb_object in ASCII, without the package
	Title       string // for people; may be in any language
	Description string // for the model: what the tool does and when to use it

	ReadOnly    bool // changes nothing
	Destructive bool // may delete or overwrite
	Idempotent  bool // a second call with the same arguments changes nothing more
	OpenWorld   bool // reaches beyond this machine
}

// Texter is what a result may implement to say itself in one sentence for a
// person. Other results are shown as JSON.
type Texter interface{ Text() string }

// Fail makes the failure that a tool returns for what can be foreseen. The code
// is in upper snake case and led by the app's name (WEATHER_CITY_NOT_FOUND); the
// message is one sentence for a person or a model. Where the same call may
// succeed later, say so: Fail(…).Retry().
func Fail(code, format string, args ...any) *fault.Error {
	return fault.New(code, format, args...)
}

// AddTool offers run as the tool <package>.<tool.Name>. In is a struct; its
// schema comes from the fields' types, json tags (omitempty makes a field
// optional), jsonschema tags (the description) and these tags, named after the
// JSON Schema keywords: minimum, maximum, minLength, maxLength, pattern, format,
// enum (values parted by commas), default, minItems, maxItems. Out may be any
// type that marshals to JSON.
//
// What the caller gets:
//   - Arguments that do not fit the schema: JSON-RPC error -32602, whose data
//     lists every misfit as {"field":…,"expected":…}; run is not called.
//   - A result: structuredContent {"ok":true,"data":Out} and a text, see Texter.
//   - An error that is or wraps one made with Fail: isError and
//     {"ok":false,"error_code":…,"message":…,"retryable":…}.
//   - Any other error, and a panic: the same with CodeInternal; the log has the detail.
//
// AddTool panics if the tool cannot be described (no name or description, the
// same name twice, a type without a schema, a bad tag): a defect of the app that
// its first test finds.
func AddTool[In, Out any](a *App, tool Tool, run func(ctx context.Context, in In) (Out, error)) {
	name := a.manifest.fullName(tool.Name)
	in, err := args.For[In]()
	if err != nil {
		panic(fmt.Sprintf("appkit: tool %s: input: %v", name, err))
	}
	data, err := args.Schema[Out]()
	if err != nil {
		panic(fmt.Sprintf("appkit: tool %s: output: %v", name, err))
	}
	if tool.Name == "" || tool.Description == "" {
		panic(fmt.Sprintf("appkit: tool %q needs a name and a description", name))
	}
	if a.tools[name] {
		panic(fmt.Sprintf("appkit: tool %s is there twice", name))
	}
	a.tools[name] = true

	a.server.AddTool(&mcp.Tool{
		Name:         name,
		Title:        tool.Title,
		Description:  tool.Description,
		InputSchema:  in.Schema,
		OutputSchema: envelopeSchema(data),
		Annotations: &mcp.ToolAnnotations{
			Title:           tool.Title,
			ReadOnlyHint:    tool.ReadOnly,
			IdempotentHint:  tool.Idempotent,
			DestructiveHint: &tool.Destructive,
			OpenWorldHint:   &tool.OpenWorld,
		},
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var query In
		if err := in.Decode(req.Params.Arguments, &query); err != nil {
			return nil, invalidParams(err)
		}
		out, err := run(ctx, query)
		if err == nil {
			var res *mcp.CallToolResult
			if res, err = success(out); err == nil {
				return res, nil
			}
		}
		var known *fault.Error
		if errors.As(err, &known) && known != nil {
			a.Log.Debug("tool failed", "tool", name, "code", known.Code, "error", err)
			return failure(known), nil
		}
		if ctx.Err() != nil { // the caller is gone: nobody reads the answer
			a.Log.Debug("tool cancelled", "tool", name, "error", err)
		} else {
			a.Log.Error("tool failed", "tool", name, "error", err)
		}
		return failure(errInternal), nil
	})
}

func success(out any) (*mcp.CallToolResult, error) {
	body, err := jsontext.Marshal(struct {
		OK   bool `json:"ok"`
		Data any  `json:"data"`
	}{true, out})
	if err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	text := string(body)
	if t, ok := out.(Texter); ok {
		text = t.Text()
	}
	return &mcp.CallToolResult{
		StructuredContent: json.RawMessage(body),
		Content:           []mcp.Content{&mcp.TextContent{Text: text}},
	}, nil
}

func failure(e *fault.Error) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		IsError:           true,
		StructuredContent: e,
		Content:           []mcp.Content{&mcp.TextContent{Text: e.Message}},
	}
}

// envelopeSchema is the schema of every result: data in a success, or a failure.
func envelopeSchema(data *jsonschema.Schema) *jsonschema.Schema {
	constant := func(v any) *jsonschema.Schema { return &jsonschema.Schema{Const: &v} }
	return &jsonschema.Schema{
		Type:       "object",
		Properties: map[string]*jsonschema.Schema{"ok": {Type: "boolean"}},
		Required:   []string{"ok"},
		OneOf: []*jsonschema.Schema{{
			Properties: map[string]*jsonschema.Schema{"ok": constant(true), "data": data},
			Required:   []string{"ok", "data"},
		}, {
			Properties: map[string]*jsonschema.Schema{
				"ok":         constant(false),
				"error_code": {Type: "string"},
				"message":    {Type: "string"},
				"retryable":  {Type: "boolean"},
			},
			Required: []string{"ok", "error_code", "message", "retryable"},
		}},
	}
}

// invalidParams is the JSON-RPC error for arguments that do not fit.
func invalidParams(err error) error {
	data, merr := jsontext.Marshal(err) // a list of misfits
	if merr != nil {
		data = nil // the message says the same
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error(), Data: data}
}
