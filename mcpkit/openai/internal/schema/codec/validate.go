package codec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/jsoncheck"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
)

// compile makes a checker of a document in 2020-12; nil when it has none. A
// pattern that Go cannot read lets everything through: the server will check it
// itself.
func compile(root *base.Node) *jsoncheck.Schema {
	doc := jsonvalue.Plain(root).(map[string]any)
	delete(doc, "$schema")
	s, err := jsoncheck.Compile(doc, jsoncheck.Options{LenientPatterns: true})
	if err != nil {
		return nil
	}
	return s
}

// explain says what is wrong with arguments in words that name the fields, as
// the model knows them.
func (k *Codec) explain(ve *jsonschema.ValidationError) string {
	const most = 5
	var leaves []*jsonschema.ValidationError
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			leaves = append(leaves, e)
		}
		for _, c := range e.Causes {
			collect(c)
		}
	}
	collect(ve)
	p := message.NewPrinter(language.English)
	var said []string
	for _, e := range leaves {
		where := "the arguments"
		if len(e.InstanceLocation) > 0 {
			where = ""
			for _, seg := range e.InstanceLocation {
				where += "/" + base.Escape(k.modelKey(seg))
			}
		}
		what := e.ErrorKind.LocalizedString(p)
		switch e := e.ErrorKind.(type) {
		case *kind.Required:
			what = "required and missing: " + k.quoted(e.Missing)
		case *kind.AdditionalProperties:
			what = "not known: " + k.quoted(e.Properties)
		case *kind.FalseSchema:
			what = "not allowed"
		}
		if s := where + ": " + what; !slices.Contains(said, s) {
			said = append(said, s)
		}
	}
	slices.Sort(said)
	more := ""
	if len(said) > most {
		more = fmt.Sprintf("; and %d more", len(said)-most)
		said = said[:most]
	}
	return strings.Join(said, "; ") + more
}

func (k *Codec) modelKey(server string) string {
	if m, ok := k.names[server]; ok {
		return m
	}
	return server
}

func (k *Codec) quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", k.modelKey(n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
