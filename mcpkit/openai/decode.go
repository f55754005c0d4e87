package openai

import (
	"encoding/json"

	"github.com/aurorabot-dev/platform/internal/jsontext/jsonvalue"
	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/openai/internal/arguments"
)

// Call is a model's call in the server's terms.
type Call struct {
	ID        catalog.ID
	Arguments json.RawMessage // an object, keys and digits as the model sent them
	Repairs   []string        // what had to be put right, one sentence each
}

// Decode turns the name and the arguments that a model sent into a call. It puts
// right what can mean one thing only and says so in Repairs; the rest is a
// *fault.Error for the model: ToolNotFound or AmbiguousCall with candidates, or
// InvalidArguments. Arguments that do not parse never become an empty object;
// only their absence does.
func (x *Export) Decode(name, sent string) (*Call, error) {
	it, repaired, ferr := x.resolve(name)
	if ferr != nil {
		return nil, ferr
	}
	call := &Call{ID: it.tool.ID()}
	if repaired != "" {
		call.Repairs = append(call.Repairs, repaired)
	}
	args, repairs, err := arguments.Read(sent)
	if err != nil {
		return nil, fault.New(fault.InvalidArguments, "arguments for %s: %s", it.name, err)
	}
	call.Repairs = append(call.Repairs, repairs...)
	args, repairs, err = it.result.Codec.Decode(args)
	if err != nil {
		return nil, fault.New(fault.InvalidArguments, "arguments for %s do not fit: %s", it.name, err)
	}
	call.Repairs = append(call.Repairs, repairs...)
	call.Arguments = jsonvalue.Append(nil, args)
	return call, nil
}
