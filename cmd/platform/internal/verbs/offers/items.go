// Package offers is the verbs about what servers offer: tools, with their forms for
// models, resources and prompts.
package offers

import (
	"encoding/json"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
)

// itemText is what is shown of an item.
type itemText struct {
	URI         string `json:"uri"`
	Template    string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIME        string `json:"mimeType"`
	Arguments   []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"arguments"`
}

func showItems(c *cli.Env, list []control.Item, none, head string, key func(itemText) string) error {
	if len(list) == 0 {
		c.Out.Printf("%s\n", none)
		return nil
	}
	var rows [][]console.Cell
	for _, x := range list {
		var t itemText
		if err := json.Unmarshal(x.Item, &t); err != nil {
			continue // its server wrote something else there; --json shows it
		}
		about := t.Description
		if about == "" {
			about = t.Title
		}
		rows = append(rows, []console.Cell{{Text: x.Server}, {Text: key(t), Style: console.Bold}, {Text: t.Name}, {Text: about}})
	}
	c.Out.Table([]string{"SERVER", head, "NAME", "DESCRIPTION"}, rows)
	return nil
}
