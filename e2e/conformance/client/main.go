// The conformance client is what the official conformance suite drives to judge
// the package client over HTTP: the suite names a scenario in the environment and
// adds the URL of its own server to the command line.
//
//	MCP_CONFORMANCE_SCENARIO=tools_call bin/conformance-client http://localhost:1234/mcp
//
// It does what the scenario's description asks a client for and no more; whether
// that was right is for the suite to say. An exit code other than 0 says that
// something which should work did not.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/features"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
)

// settings is what a scenario tells its client in MCP_CONFORMANCE_CONTEXT.
type settings struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	PrivateKey   string `json:"private_key_pem"`
	Assertion    string `json:"valid_jwt"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

// clientMetadata is the address under which the suite expects the client's
// metadata document.
const clientMetadata = "https://conformance-test.local/client-metadata.json"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: conformance-client URL, with MCP_CONFORMANCE_SCENARIO set")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := run(ctx, os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, scenario, server string) (err error) {
	var set settings
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &set); err != nil {
			return fmt.Errorf("reading the scenario's context: %w", err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := httpwire.Options{Name: "conformance", URL: server, Logger: log}
	if strings.HasPrefix(scenario, "auth/") {
		dir, err := os.MkdirTemp("", "conformance-tokens-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		machine := strings.HasPrefix(scenario, "auth/client-credentials") || scenario == "auth/wif-jwt-bearer"
		if o.Authorizer, err = authorizer(server, dir, machine, set, log); err != nil {
			return err
		}
	}
	w, err := httpwire.New(o)
	if err != nil {
		return err
	}
	m, err := client.New(client.Options{Logger: log, Name: "aurora-platform-conformance", ProbeTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	s, err := m.Connect(ctx, session.Conn{Server: "conformance", Wire: w, Config: session.Config{
		Elicit: strings.Contains(scenario, "elicitation") || strings.Contains(scenario, "sep-2322"),
	}})
	if err != nil {
		return err
	}
	if degraded := s.Info().Degraded; degraded != "" {
		return errors.New(degraded)
	}
	return play(ctx, scenario, m, s, set)
}

// authorizer is the platform's own OAuth client: a machine's, or that of a person.
// The suite's authorization server asks nobody: its page is a redirection.
func authorizer(server, dir string, machine bool, set settings, log *slog.Logger) (httpwire.Authorizer, error) {
	store, err := tokens.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	cfg := auth.Config{Server: "conformance", URL: server, ClientID: set.ClientID, ClientSecret: set.ClientSecret}
	if machine {
		cfg.Type = auth.ClientCredentials
	} else {
		cfg.ClientMetadataURL = clientMetadata
	}
	if set.PrivateKey != "" && machine {
		if cfg.Key, err = auth.ParseKey([]byte(set.PrivateKey)); err != nil {
			return nil, fmt.Errorf("reading the private key: %w", err)
		}
	}
	if set.Assertion != "" && machine {
		cfg.Assertion = func() (string, error) { return set.Assertion, nil }
	}
	return auth.New(cfg, auth.Options{
		Store: store, Logger: log, RedirectURI: "http://localhost:3000/callback", Browse: browse,
	})
}

// browse is a person's browser that is sent on at once.
func browse(ctx context.Context, page string) (url.Values, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		return nil, fmt.Errorf("the authorization page answers with status %d: %w", resp.StatusCode, err)
	}
	return to.Query(), nil
}

// play does what a scenario asks for once the session is open and its tools are
// read.
func play(ctx context.Context, scenario string, m *client.Manager, s *session.Session, set settings) error {
	call := func(name, arguments string) error {
		return callTool(ctx, s, name, json.RawMessage(arguments))
	}
	switch {
	case scenario == "tools_call":
		return call("add_numbers", `{"a":5,"b":3}`)
	case scenario == "elicitation-sep1034-client-defaults":
		return call("test_client_elicitation_defaults", "{}")
	case scenario == "sse-retry":
		return call("test_reconnection", "{}")
	case scenario == "json-schema-2020-12-preservation":
		for _, t := range m.Tools().Tools {
			if t.Source.OriginalName == "json_schema_2020_12_tool" {
				return call("json_schema_echo", `{"schema":`+string(t.InputSchema)+`}`)
			}
		}
		return errors.New("the tool is not listed")
	case scenario == "sep-2322-client-request-state":
		for _, t := range m.Tools().Tools {
			if err := call(t.Source.OriginalName, "{}"); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", t.Source.OriginalName, err) // some results are wrong on purpose
			}
		}
	case scenario == "http-custom-headers":
		for _, c := range set.ToolCalls {
			if err := call(c.Name, string(c.Arguments)); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
			}
		}
	case scenario == "http-invalid-tool-headers":
		for _, t := range m.Tools().Tools {
			if err := call(t.Source.OriginalName, `{"region":"us-west1"}`); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", t.Source.OriginalName, err)
			}
		}
	case scenario == "http-standard-headers":
		return useAll(ctx, m, s)
	case strings.HasPrefix(scenario, "auth/"):
		return call("test-tool", "{}")
	}
	return nil
}

// useAll uses the first of each thing that the server has.
func useAll(ctx context.Context, m *client.Manager, s *session.Session) error {
	if list := m.Tools().Tools; len(list) > 0 {
		if err := callTool(ctx, s, list[0].Source.OriginalName, nil); err != nil {
			return err
		}
	}
	var first struct{ URI, Name string }
	if list, err := s.ListResources(ctx); err == nil && len(list) > 0 {
		if err := json.Unmarshal(list[0], &first); err != nil {
			return err
		}
		if _, err := s.ReadResource(ctx, first.URI, features.With{}); err != nil {
			return err
		}
	}
	if list, err := s.ListPrompts(ctx); err == nil && len(list) > 0 {
		if err := json.Unmarshal(list[0], &first); err != nil {
			return err
		}
		if _, err := s.GetPrompt(ctx, first.Name, nil, features.With{}); err != nil {
			return err
		}
	}
	return nil
}

// maxRounds bounds how often a call may ask for input.
const maxRounds = 8

// callTool calls a tool and answers what it asks, in either era.
func callTool(ctx context.Context, s *session.Session, name string, arguments json.RawMessage) error {
	r := features.CallRequest{Tool: name, Arguments: arguments, Asker: "conformance", Ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		return answer(method, params)
	}}
	for range maxRounds {
		res, err := s.Call(ctx, r)
		if err != nil || !res.NeedsInput() {
			return err
		}
		var asked map[string]struct {
			Method string
			Params json.RawMessage
		}
		if raw := res.Member("inputRequests"); raw != nil {
			if err := json.Unmarshal(raw, &asked); err != nil {
				return fmt.Errorf("what %s asks cannot be read: %w", name, err)
			}
		}
		answers := map[string]json.RawMessage{}
		for key, q := range asked {
			if answers[key], err = answer(q.Method, q.Params); err != nil {
				return err
			}
		}
		if r.InputResponses, err = json.Marshal(answers); err != nil {
			return err
		}
		r.RequestState = res.Member("requestState")
	}
	return fmt.Errorf("%s still asks after %d rounds", name, maxRounds)
}

// answer agrees to a form, with the defaults that it names (2025-11-25,
// client/elicitation, SEP-1034) and a yes to what has none.
func answer(method string, params json.RawMessage) (json.RawMessage, error) {
	if method != handshake.MethodElicit {
		return nil, fmt.Errorf("%s is not answered", method)
	}
	var form struct {
		RequestedSchema struct {
			Properties map[string]struct {
				Type    string
				Default json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(params, &form); err != nil {
		return nil, err
	}
	content := map[string]json.RawMessage{}
	for name, p := range form.RequestedSchema.Properties {
		yes := ""
		if p.Type == "boolean" {
			yes = "true"
		}
		if value := cmp.Or(string(p.Default), yes); value != "" {
			content[name] = json.RawMessage(value)
		}
	}
	return json.Marshal(map[string]any{"action": "accept", "content": content})
}
