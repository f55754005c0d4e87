package externalizer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer"
	"github.com/aurorabot-dev/platform/mcpkit/externalizer/modeltest"
	"github.com/aurorabot-dev/platform/mcpkit/host"
)

// weather stands in for a gate: a program with a host uses externalizer.Gate(h).
type weather struct{}

var getWeather = &catalog.Tool{
	Name: "im.polaris.weather.get_weather", Description: "Weather of a city", Alias: "weather",
	InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
	Source:      catalog.Source{Kind: "mcp", Server: "im.polaris.weather", OriginalName: "im.polaris.weather.get_weather"},
}

func (weather) Tools(context.Context) ([]*catalog.Tool, error) {
	return []*catalog.Tool{getWeather}, nil
}

func (weather) Call(_ context.Context, tool catalog.ID, c host.Call) (*host.Result, error) {
	return &host.Result{CallID: c.ID, Tool: tool, Raw: json.RawMessage(`{"content":[{"type":"text","text":"rain, 9 °C"}]}`)}, nil
}

func Example() {
	// A scripted endpoint in place of a model.
	script := &modeltest.Script{Report: func(s string) { fmt.Println("broken rule:", s) }, Turns: []modeltest.Turn{
		{Calls: []modeltest.Call{{ID: "call_1", Name: "mcp__weather__get_weather", Arguments: `{"city":"Berlin"}`}}},
		{Text: "Take an umbrella: it rains in Berlin, at 9 °C."},
	}}
	endpoint := httptest.NewServer(script)
	defer endpoint.Close()

	loop, err := externalizer.New(externalizer.Options{
		Caller: weather{}, BaseURL: endpoint.URL + "/v1", Model: "any", Stream: true,
		OnEvent: func(e externalizer.Event) {
			if e.Kind == externalizer.CallFinished {
				fmt.Printf("%s(%s)\n", e.Call.Name, e.Call.Arguments)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := loop.Ask(context.Background(), "Do I need an umbrella in Berlin?")
	if err != nil {
		fmt.Println(res.Stop, err)
		return
	}
	fmt.Println(res.Answer)
	// Output:
	// mcp__weather__get_weather({"city":"Berlin"})
	// Take an umbrella: it rains in Berlin, at 9 °C.
}
