package bridge

import _ "embed"

// Schema is the JSON Schema (2020-12) of the envelopes that a Brain gets: the
// envelope's own, and for each type of the platform's what its payload.data
// holds. Members may be added to data; none changes its meaning. An example of
// each type is in testdata/events.
//
//go:embed events.schema.json
var Schema []byte
