package amp

import _ "embed"

// Schema is the JSON Schema (2020-12) of an envelope, for Brains in any
// language. It says what [Parse] says, as far as a schema can.
//
//go:embed envelope.schema.json
var Schema []byte
