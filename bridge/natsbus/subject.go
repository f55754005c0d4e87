package natsbus

import (
	"strings"

	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// rejectedToken is what follows the prefix in the subject of rejected events.
const rejectedToken = "rejected"

// token is what follows the prefix in the subject of a type, whose words are
// made of letters, digits, - and _ ([amp.ValidType]).
func token(typ string) string {
	if typ == rejectedToken {
		return "_" + typ
	}
	return typ
}

// recordName is the end of a subject and a message id.
func recordName(typ, id string) string { return token(typ) + " " + id }

// address splits the name of a record into the end of its subject and its message id.
func address(r *segment.Record) (subject, id string) {
	subject, id, _ = strings.Cut(r.Name, " ")
	return subject, id
}
