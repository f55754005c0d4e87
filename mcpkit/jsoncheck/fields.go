package jsoncheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Fields decodes the members of the object raw that into names, each into what its
// name points to. A name is taken as it is written, and of one that occurs twice the
// last value counts alone: encoding/json takes other spellings of a name for the
// field too, and mixes two objects, so it may read what others did not.
//
//	err := jsoncheck.Fields(raw, map[string]any{"type": &b.Type, "text": &b.Text})
func Fields(raw []byte, into map[string]any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(into)) {
		value, ok := members[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, into[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
