// Package schema turns the input schema of a tool, as a server sent it, into
// one that a model API accepts, and keeps what is needed to bring the model's
// arguments back.
//
// The passes, in order: targets of references are hoisted to $defs, and older
// drafts and slips become 2020-12 (package draft); a root union becomes one
// object, required lists are repaired, then come the changes that the API's
// [rules.Rules] demand (package shape). The result is checked against the same
// rules. A schema that cannot be brought into form becomes an open object, and
// the report says why.
//
//	r := schema.Convert(json.RawMessage(`{"type":"object","properties":null}`), &rules.Rules{})
//	string(r.Parameters) // {"type":"object","properties":{}}
//
// The package fetches nothing and knows nothing of tools' names, messages or
// transports.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/base"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/codec"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/draft"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/rules"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/schema/shape"
)

// MaxOutput is how many bytes a schema may have as the model gets it.
const MaxOutput = 256 << 10

// Result is a converted schema. It is not to be changed: callers may share it.
type Result struct {
	Parameters json.RawMessage // always an object schema in the rules' form
	Strict     bool            // it keeps the rules of strict mode
	Notes      []string        // sentences for the tool's description
	Changes    []base.Change
	Codec      *codec.Codec
}

// Convert never fails: what cannot be converted becomes an open object.
func Convert(input json.RawMessage, r *rules.Rules) *Result {
	tree := base.New()
	parameters, err := convert(tree, input, r)
	if err == nil {
		return &Result{parameters, r.Strict != nil, tree.Notes, tree.Changes, newCodec(input, r)}
	}
	if r.Strict != nil {
		loose := *r
		loose.Strict = nil
		result := Convert(input, &loose)
		result.Changes = append(result.Changes, base.Change{Code: "strict_fallback", Before: base.Shown("strict"), After: base.Shown(err.Error()), Lossy: true})
		return result
	}
	open := base.Opened()
	code := "invalid_schema"
	if f, ok := errors.AsType[*base.Failure](err); ok {
		code = f.Code
	}
	tree.Report("", code, err.Error(), open.Root, true)
	return &Result{Parameters: jsonvalue.Append(nil, open.Root), Changes: tree.Changes, Codec: newCodec(input, r)}
}

// convert runs the passes in order and writes what they made.
func convert(tree *base.Tree, input json.RawMessage, r *rules.Rules) (out json.RawMessage, err error) {
	defer contain(&err)
	if err := modernize(tree, input, r.NoSchemaURI); err != nil {
		return nil, err
	}
	if err := shape.Apply(tree, r); err != nil {
		return nil, err
	}
	if err := rules.Check(tree, r); err != nil {
		return nil, err
	}
	if out = jsonvalue.Append(nil, tree.Root); len(out) > MaxOutput {
		return nil, &base.Failure{Code: "too_large", Message: fmt.Sprintf("the converted schema has %d bytes", len(out))}
	}
	return out, nil
}

// modernize brings the input to valid 2020-12: what every profile starts from
// and what arguments are checked against.
func modernize(tree *base.Tree, input json.RawMessage, dropURI bool) (err error) {
	defer contain(&err)
	if err := tree.Load(input); err != nil {
		return err
	}
	return draft.Modernize(tree, dropURI)
}

// contain turns a panic into a failed conversion: servers choose what comes in
// here, and a defect found by one of them must not take the others' tools away.
func contain(err *error) {
	if r := recover(); r != nil {
		*err = &base.Failure{Code: "converter_defect", Message: fmt.Sprint("a defect of the converter: ", r)}
	}
}

// newCodec is the codec of a conversion, which is made again when arguments
// first need it: equal input gives an equal tree, and a kept tree of every tool
// would cost more than all schemas together.
func newCodec(input json.RawMessage, r *rules.Rules) *codec.Codec {
	return codec.New(func() (shown, sent *base.Tree) {
		shown = base.New()
		if _, err := convert(shown, input, r); err != nil {
			shown = base.Opened()
		}
		sent = base.New()
		if modernize(sent, input, false) != nil {
			sent = nil
		}
		return shown, sent
	})
}
