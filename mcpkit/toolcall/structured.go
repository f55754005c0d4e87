package toolcall

import (
	"encoding/json"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
)

// Told reports whether one of a result's texts says what its structured content
// says, as the specification advises servers to do (2025-11-25, server/tools:
// structured content), so that it need not be shown beside them. A structured content
// that is too deep to be compared is not told.
func Told(structured json.RawMessage, texts []string) bool {
	v, err := jsonvalue.Parse(structured, jsonvalue.Limits{})
	if err != nil {
		return false
	}
	same := []any{v}
	if o, ok := v.(*jsonvalue.Object); ok && o.Len() == 1 && o.Has("result") {
		wrapped, _ := o.Get("result") // how some servers structure a bare value
		same = append(same, wrapped)
	}
	for _, t := range texts {
		w, err := jsonvalue.Parse([]byte(t), jsonvalue.Limits{})
		for _, s := range same {
			if err == nil && jsonvalue.Equal(s, w) || s == any(t) {
				return true
			}
		}
	}
	return false
}
