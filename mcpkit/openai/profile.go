package openai

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema"
)

// DefaultProfile is the one that an empty name means.
const DefaultProfile = "openai"

// profile is what one provider demands, as data.
type profile struct {
	schema         schema.Rules
	descriptionMax int  // UTF-16 units; 0 for no limit
	descriptionMin int  // 1: an empty one is refused
	toolsMax       int  // 0 for no limit
	letterFirst    bool // a name starts with a letter or underscore
	flat           bool // the Responses form: the function's fields stand beside "type", strict is always said
	blind          bool // the model sees no images
	shortIDs       bool // a call's id is nine letters and digits
}

var (
	anthropicKeys = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	vertexKeys    = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)

	geminiSchema = schema.Rules{
		NoRef: true, NoSchemaURI: true, NoTuples: true, SingleType: true,
		Keywords: names("type", "format", "title", "description", "nullable", "enum", "items", "properties", "required",
			"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum", "anyOf"),
		Formats: names("enum", "date-time", "float", "double", "int32", "int64"),
	}
	strictFormats = names("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)

// profiles are the providers' rules by name.
var profiles = map[string]*profile{
	"openai":           {toolsMax: 128},
	"openai-responses": {toolsMax: 128, flat: true},
	"openai-strict": {toolsMax: 128, schema: schema.Rules{Formats: strictFormats,
		Strict: &schema.Limits{Depth: 10, Properties: 5000, EnumValues: 1000, NameChars: 120_000, LongEnum: 15_000}}},
	"azure": {toolsMax: 128, descriptionMax: 1024},
	"azure-strict": {toolsMax: 128, descriptionMax: 1024, schema: schema.Rules{Formats: strictFormats,
		Strict: &schema.Limits{Depth: 5, Properties: 100, EnumValues: 500, NameChars: 15_000, LongEnum: 7_500}}},
	"anthropic": {schema: schema.Rules{Keys: anthropicKeys}},
	"bedrock":   {descriptionMin: 1},
	"gemini":    {toolsMax: 128, letterFirst: true, schema: geminiSchema},
	"vertex": {toolsMax: 128, letterFirst: true, schema: func() schema.Rules {
		r := geminiSchema
		r.Keys = vertexKeys
		return r
	}()},
	"mistral":  {shortIDs: true},
	"deepseek": {schema: schema.Rules{Pattern: schema.PatternRules{EscapeBrackets: true}}},
	"llamacpp": {schema: schema.Rules{NoRef: true, NoTuples: true, NoBesides: true, Typed: true, WholeBounds: true, MaxRepeat: 256,
		NotFormats: names("uri", "email"),
		Pattern:    schema.PatternRules{EscapeBrackets: true, Anchored: true, NoClassEscapes: true, MaxRepeat: 256}}},
	"grok":      {},
	"kimi":      {schema: schema.Rules{NoSchemaURI: true, OpenMaps: true, Without: names("not")}},
	"typed":     {schema: schema.Rules{Typed: true, NoSchemaURI: true}},
	"fireworks": {schema: schema.Rules{Typed: true, NoSchemaURI: true}},
	"text-only": {blind: true},
}

func names(l ...string) map[string]bool {
	m := make(map[string]bool, len(l))
	for _, n := range l {
		m[n] = true
	}
	return m
}

// Profiles are the names that [Export] knows, sorted.
func Profiles() []string { return slices.Sorted(maps.Keys(profiles)) }

func lookup(name string) (string, *profile, error) {
	if name == "" {
		name = DefaultProfile
	}
	p, ok := profiles[name]
	if !ok {
		return "", nil, fmt.Errorf("unknown profile %q; known are %s", name, strings.Join(Profiles(), ", "))
	}
	return name, p, nil
}
