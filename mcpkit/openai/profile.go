package openai

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
)

// DefaultProfile is the one that an empty name means.
const DefaultProfile = "openai"

// profile is what one provider demands, as data.
type profile struct {
	schema         rules.Rules
	descriptionMax int  // UTF-16 units; 0 for no limit
	descriptionMin int  // 1: an empty one is refused
	toolsMax       int  // 0 for no limit
	letterFirst    bool // a name starts with a letter or underscore
	flat           bool // the Responses form: the function's fields stand beside "type", strict is always said
	blind          bool // the model sees no images
	oneCall        bool // a strict tool is called alone: parallel_tool_calls is false
	shortIDs       bool // a call's id is nine letters and digits
}

var (
	anthropicKeys = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	kimiDefs      = regexp.MustCompile(`^[a-zA-Z0-9_]+$`) // nothing that a reference would have to escape
	vertexKeys    = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)

	geminiSchema = rules.Rules{
		NoRef: true, NoSchemaURI: true, NoTuples: true, SingleType: true, NoEmptyEnum: true, NoEmpty: true,
		Keywords: rules.Set("type", "format", "title", "description", "nullable", "enum", "items", "properties", "required",
			"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum", "anyOf"),
		Formats: rules.Set("enum", "date-time", "float", "double", "int32", "int64"),
	}
	strictFormats = rules.Set("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)

// profiles are the providers' rules by name.
var profiles = map[string]*profile{
	"openai":           {toolsMax: 128},
	"openai-responses": {toolsMax: 128, flat: true},
	"openai-strict": {toolsMax: 128, schema: rules.Rules{Formats: strictFormats,
		Strict: &rules.Limits{Depth: 10, Properties: 5000, EnumValues: 1000, NameChars: 120_000, LongEnum: 15_000}}},
	"azure": {toolsMax: 128, descriptionMax: 1024},
	"azure-strict": {toolsMax: 128, descriptionMax: 1024, oneCall: true, schema: rules.Rules{
		// Of Microsoft's page on structured outputs: "Unsupported type-specific keywords".
		Without: rules.Set("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
			"patternProperties", "unevaluatedProperties", "propertyNames", "minProperties", "maxProperties",
			"unevaluatedItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems"),
		Strict: &rules.Limits{Depth: 5, Properties: 100, EnumValues: 500, NameChars: 15_000, LongEnum: 7_500}}},
	"anthropic": {schema: rules.Rules{Keys: anthropicKeys}},
	"bedrock":   {descriptionMin: 1, schema: rules.Rules{Keys: anthropicKeys}},
	"gemini":    {toolsMax: 128, letterFirst: true, schema: geminiSchema},
	"vertex": {toolsMax: 128, letterFirst: true, schema: func() rules.Rules {
		r := geminiSchema
		r.Keys = vertexKeys
		return r
	}()},
	"mistral":  {shortIDs: true, blind: true}, // no user message, which could show images, follows a tool message
	"deepseek": {schema: rules.Rules{Pattern: rules.PatternRules{EscapeBrackets: true}}},
	"llamacpp": {schema: rules.Rules{NoRef: true, NoTuples: true, NoBesides: true, Typed: true, WholeBounds: true, MaxRepeat: 256,
		NotFormats: rules.Set("uri", "email"),
		Pattern:    rules.PatternRules{EscapeBrackets: true, Grammar: true, MaxRepeat: 256}}},
	"grok":      {},
	"kimi":      {schema: rules.Rules{NoSchemaURI: true, OpenMaps: true, TypeInUnion: true, PlainEnums: true, DefNames: kimiDefs, Without: rules.Set("not")}},
	"typed":     {schema: rules.Rules{Typed: true, NoSchemaURI: true}},
	"fireworks": {schema: rules.Rules{Typed: true, NoSchemaURI: true}},
	"text-only": {blind: true},
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
