package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func addResources(s *mcp.Server) {
	text := func(mime, text string) mcp.ResourceHandler {
		return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: mime, Text: text}}}, nil
		}
	}
	s.AddResource(&mcp.Resource{URI: "test://static-text", Name: "static-text", Description: "Text", MIMEType: "text/plain"},
		text("text/plain", "This is the content of the static text resource."))
	s.AddResource(&mcp.Resource{URI: "test://watched-resource", Name: "watched-resource", Description: "Can be subscribed to", MIMEType: "text/plain"},
		text("text/plain", "Watched resource content"))
	s.AddResource(&mcp.Resource{URI: "test://static-binary", Name: "static-binary", Description: "An image", MIMEType: "image/png"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "image/png", Blob: png}}}, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", Description: "Data by id", MIMEType: "application/json"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
				URI: r.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id),
			}}}, nil
		})
}

func addPrompts(s *mcp.Server) {
	said := func(content ...mcp.Content) *mcp.GetPromptResult {
		r := &mcp.GetPromptResult{}
		for _, c := range content {
			r.Messages = append(r.Messages, &mcp.PromptMessage{Role: "user", Content: c})
		}
		return r
	}
	add := func(name string, f func(args map[string]string) *mcp.GetPromptResult, arguments ...string) {
		p := &mcp.Prompt{Name: name, Description: "Expands to fixed messages"}
		for _, a := range arguments {
			p.Arguments = append(p.Arguments, &mcp.PromptArgument{Name: a, Description: "an argument", Required: true})
		}
		s.AddPrompt(p, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return f(r.Params.Arguments), nil
		})
	}
	add("test_simple_prompt", func(map[string]string) *mcp.GetPromptResult {
		return said(&mcp.TextContent{Text: "This is a simple prompt for testing."})
	})
	add("test_prompt_with_arguments", func(a map[string]string) *mcp.GetPromptResult {
		return said(&mcp.TextContent{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"])})
	}, "arg1", "arg2")
	add("test_prompt_with_embedded_resource", func(a map[string]string) *mcp.GetPromptResult {
		return said(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: a["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}},
			&mcp.TextContent{Text: "Please process the embedded resource above."})
	}, "resourceUri")
	add("test_prompt_with_image", func(map[string]string) *mcp.GetPromptResult {
		return said(&mcp.ImageContent{Data: png, MIMEType: "image/png"}, &mcp.TextContent{Text: "Please analyze the image above."})
	})
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for context first"},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if answer := r.Params.InputResponses["user_context"]; fits(&mcp.ElicitParams{}, answer) {
				return said(&mcp.TextContent{Text: "Context: " + field(answer, "context")}), nil
			}
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": form("Please provide context", "context", "string")}}, nil
		})
}
