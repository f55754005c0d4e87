package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

const (
	maxToolName = 1 << 10 // bytes; names are exported in 64 whatever they are
	maxToolSize = 1 << 20 // bytes of one tool's JSON
)

// Decode reads a tool as a server lists it. Only a name is asked of it, and a size
// within bounds; reason says what is missing where t is nil. Schemas are kept as sent.
// The caller fills in the source's kind and server, the alias and the Name.
func Decode(raw json.RawMessage) (t *Tool, reason string) {
	if len(raw) > maxToolSize {
		return nil, fmt.Sprintf("it has %d bytes", len(raw))
	}
	t = &Tool{Raw: raw}
	present := func(v []byte) json.RawMessage {
		if string(v) == "null" {
			return nil
		}
		return v
	}
	if !jsontext.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "name":
			t.Source.OriginalName = ""
			json.Unmarshal(value, &t.Source.OriginalName) // what is no string is no name
		case "title":
			json.Unmarshal(value, &t.Title) // what is no string says nothing
		case "description":
			json.Unmarshal(value, &t.Description)
		case "inputSchema":
			t.InputSchema = value
		case "outputSchema":
			t.OutputSchema = present(value)
		case "annotations":
			t.Annotations = present(value)
		}
		return true
	}) {
		return nil, "it is no object"
	}
	switch n := len(t.Source.OriginalName); {
	case n == 0:
		return nil, "it has no name"
	case n > maxToolName:
		return nil, fmt.Sprintf("its name has %d bytes", n)
	}
	return t, ""
}
