package stream

import (
	"strings"

	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

// Rejected is what follows the prefix in the subject of rejected events.
const Rejected = "rejected"

// Token is what follows the prefix in the subject of a type, whose words are
// made of letters, digits, - and _ ([amp.ValidType]).
func Token(typ string) string {
	if typ == Rejected {
		return "_" + typ
	}
	return typ
}

// RecordName is the end of a subject and a message id.
func RecordName(typ, id string) string { return Token(typ) + " " + id }

// Address splits the name of a record into the end of its subject and its message id.
func Address(r *segment.Record) (subject, id string) {
	subject, id, _ = strings.Cut(r.Name, " ")
	return subject, id
}
