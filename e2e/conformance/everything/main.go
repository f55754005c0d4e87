// Command everything is an MCP server over standard input and output with the
// tools, resources and prompts that the official conformance suite expects of a
// server under test. It is written with the SDK and knows nothing of the platform.
package main

import (
	"context"
	"encoding/json"
	"log"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "everything", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"paris", "park", "party"}, Total: 3}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addContent(s)
	addConversation(s)
	addInput(s)
	addResources(s)
	addPrompts(s)
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

// One red pixel, and a WAV file without a sample.
var (
	png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82")
	wav = []byte("RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00\x80>\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00")
)

// schema is the input schema of a tool that takes nothing.
const nothing = `{"type":"object"}`

type request = mcp.CallToolRequest

func add(s *mcp.Server, name, description, schema string, f func(context.Context, *request) (*mcp.CallToolResult, error)) {
	s.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}, f)
}

func say(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// addContent adds the tools that answer at once, with every kind of content.
func addContent(s *mcp.Server) {
	resource := func(uri, mime, text string) mcp.Content {
		return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: mime, Text: text}}
	}
	image := &mcp.ImageContent{Data: png, MIMEType: "image/png"}
	for name, content := range map[string][]mcp.Content{
		"test_simple_text":       {&mcp.TextContent{Text: "This is a simple text response for testing."}},
		"test_image_content":     {image},
		"test_audio_content":     {&mcp.AudioContent{Data: wav, MIMEType: "audio/wav"}},
		"test_embedded_resource": {resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")},
		"test_multiple_content_types": {
			&mcp.TextContent{Text: "Multiple content types test:"}, image,
			resource("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`),
		},
		"test_reconnection":          {&mcp.TextContent{Text: "Reconnection test completed successfully."}},
		"test_streaming_elicitation": {&mcp.TextContent{Text: "nothing is asked on this stream"}},
	} {
		add(s, name, "Answers with fixed content", nothing, func(context.Context, *request) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: content}, nil
		})
	}
	add(s, "test_error_handling", "Reports a failure", nothing, func(context.Context, *request) (*mcp.CallToolResult, error) {
		r := say("This tool intentionally returns an error for testing")
		r.IsError = true
		return r, nil
	})
	add(s, "json_schema_2020_12_tool", "Has a schema with every word of draft 2020-12 that must survive", `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {
			"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
			"contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}
		},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": false
	}`, func(_ context.Context, r *request) (*mcp.CallToolResult, error) {
		return say("called with " + string(r.Params.Arguments)), nil
	})
	add(s, "test_missing_capability", "Needs a client that can sample", nothing, func(_ context.Context, r *request) (*mcp.CallToolResult, error) {
		if c := r.ClientCapabilities(); c != nil && c.Sampling != nil {
			return say("the client can sample"), nil
		}
		return nil, &jsonrpc.Error{
			Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client must be able to sample",
			Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
		}
	})
}

// addConversation adds the tools that say something before they answer.
func addConversation(s *mcp.Server) {
	tell := func(name string, words ...string) {
		add(s, name, "Logs while it runs", nothing, func(ctx context.Context, r *request) (*mcp.CallToolResult, error) {
			for i, word := range words {
				if i > 0 {
					time.Sleep(50 * time.Millisecond) // the suite wants to see them come one by one
				}
				r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: word})
			}
			return say(name + " has logged"), nil
		})
	}
	tell("test_tool_with_logging", "Tool execution started", "Tool processing data", "Tool execution completed")
	tell("test_logging_tool", "only for those who asked")
	add(s, "test_tool_with_progress", "Tells of its progress", nothing, func(ctx context.Context, r *request) (*mcp.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		for _, done := range []float64{0, 50, 100} {
			if token != nil {
				r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100})
			}
			time.Sleep(50 * time.Millisecond) // as the suite describes it
		}
		return say("done"), nil
	})
	toggle := func(name string, on, off func()) {
		there := false
		add(s, name, "Changes a list", nothing, func(context.Context, *request) (*mcp.CallToolResult, error) {
			if there = !there; there {
				on()
			} else {
				off()
			}
			return say("changed"), nil
		})
	}
	toggle("test_trigger_tool_change", func() {
		add(s, "test_transient", "Comes and goes", nothing, func(context.Context, *request) (*mcp.CallToolResult, error) { return say("here"), nil })
	}, func() { s.RemoveTools("test_transient") })
	toggle("test_trigger_prompt_change", func() {
		s.AddPrompt(&mcp.Prompt{Name: "test_transient", Description: "Comes and goes"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
	}, func() { s.RemovePrompts("test_transient") })
}
