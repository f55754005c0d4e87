package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
)

// Definition is what a model is told of a tool, as canonical JSON: name, title,
// description, input_schema, output_schema and annotations. What cannot be
// brought into one form stands in it as a string.
func Definition(t *catalog.Tool) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	part := func(name string, raw []byte) {
		if len(raw) == 0 {
			return
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		form, err := jsontext.AppendCanonical(nil, raw)
		if err != nil {
			form = quoted("unreadable: " + string(raw))
		}
		b.WriteString(`"` + name + `":`)
		b.Write(form)
	}
	part("name", quoted(t.Source.OriginalName))
	if t.Title != "" {
		part("title", quoted(t.Title))
	}
	part("description", quoted(t.Description))
	part("input_schema", t.InputSchema)
	part("output_schema", t.OutputSchema)
	part("annotations", t.Annotations)
	b.WriteByte('}')
	return b.Bytes()
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // a string always marshals
	}
	return b
}

// Hash is the SHA-256 of a tool's Definition, in hex.
func Hash(t *catalog.Tool) string { return hashOf(Definition(t)) }

func hashOf(definition []byte) string {
	sum := sha256.Sum256(definition)
	return hex.EncodeToString(sum[:])
}

// Change is one difference between two definitions.
type Change struct {
	Pointer string          `json:"pointer"` // RFC 6901, into the definition
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"`
}

// maxChanges bounds a comparison; one that has more ends with the whole.
const maxChanges = 100

// Compare lists where two definitions differ, in the order of their pointers.
func Compare(before, after json.RawMessage) []Change {
	var out []Change
	compare(&out, "", before, after)
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Pointer, b.Pointer) })
	if len(out) > maxChanges {
		out = append(out[:maxChanges], Change{"", before, after})
	}
	return out
}

func compare(out *[]Change, at string, before, after json.RawMessage) {
	if bytes.Equal(before, after) {
		return
	}
	b, okB := members(before)
	a, okA := members(after)
	if !okA || !okB || len(*out) > maxChanges {
		*out = append(*out, Change{at, before, after})
		return
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		compare(out, at+"/"+escape(name), b[name], a[name])
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, both := b[name]; !both && len(*out) <= maxChanges {
			*out = append(*out, Change{at + "/" + escape(name), nil, a[name]})
		}
	}
}

// members are the members of an object, or the elements of an array by index.
func members(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	if len(raw) == 0 {
		return nil, false
	}
	switch raw[0] {
	case '{':
		var m map[string]json.RawMessage
		return m, json.Unmarshal(raw, &m) == nil
	case '[':
		var list []json.RawMessage
		err := json.Unmarshal(raw, &list)
		m := make(map[string]json.RawMessage, len(list))
		for i, v := range list {
			m[strconv.Itoa(i)] = v
		}
		return m, err == nil
	}
	return nil, false
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
