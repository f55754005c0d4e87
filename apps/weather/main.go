// Command aurora-weather is the weather app: current weather and forecasts from
// Open-Meteo, for cities named in any language.
//
// This file adapts the service to MCP and is all of it that knows MCP;
// service.go answers the questions, openmeteo.go asks the provider, cache.go
// remembers what it said. Settings, all optional, come from the file that
// AURORA_APP_CONFIG names; see config.example.yaml.
package main

import (
	_ "embed"

	"github.com/aurorabot-dev/platform/mcpkit/appkit"
)

//go:embed manifest.yaml
var manifest []byte

func main() { appkit.Main(manifest, setup) }

func setup(app *appkit.App) error {
	cfg := DefaultConfig()
	if err := app.Config(&cfg); err != nil {
		return err
	}
	svc, err := NewService(cfg)
	if err != nil {
		return err
	}
	appkit.AddTool(app, appkit.Tool{
		Name:        "get_weather",
		Title:       "查询天气",
		Description: "Get the current weather and a forecast of up to seven days for a city.",
		ReadOnly:    true,
		Idempotent:  true,
		OpenWorld:   true,
	}, svc.GetWeather)
	appkit.AddTool(app, appkit.Tool{
		Name:        "find_city",
		Title:       "查找城市",
		Description: "List the places that a city name may mean. Use it when get_weather found another place than the one meant.",
		ReadOnly:    true,
		Idempotent:  true,
		OpenWorld:   true,
	}, svc.FindCity)
	return nil
}
