package manifests

import (
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"os"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/hostfile"
)

// foundHost is a file of another host that is on this machine.
type foundHost struct {
	hostfile.Place
	Servers []string `json:"servers"`
}

// listHosts shows which files other hosts have here.
func listHosts(c *cli.Env) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	// Without a home there are only the project's files.
	home, _ := os.UserHomeDir()
	config, _ := os.UserConfigDir()
	found := []foundHost{}
	for _, place := range hostfile.Places(dir, home, config) {
		if _, err := os.Stat(place.Path); err != nil {
			continue
		}
		f := foundHost{Place: place, Servers: []string{}}
		for _, s := range hostfile.Read([]string{place.Path}, hostfile.Options{Dir: dir}).Servers {
			f.Servers = append(f.Servers, s.Name)
		}
		if len(f.Servers) > 0 {
			found = append(found, f)
		}
	}
	if c.JSON {
		return c.PrintJSON(map[string]any{"hosts": found})
	}
	if len(found) == 0 {
		c.Out.Printf("no other host has servers here; name a file: platform import FILE\n")
		return nil
	}
	rows := make([][]console.Cell, len(found))
	for i, f := range found {
		rows[i] = []console.Cell{{Text: f.Host}, {Text: f.Level}, {Text: f.Path}, {Text: strings.Join(f.Servers, ", ")}}
	}
	c.Out.Table([]string{"HOST", "LEVEL", "FILE", "SERVERS"}, rows)
	return nil
}
