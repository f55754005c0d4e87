package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Pick is the id that a person means among ids of things of a kind: the id itself, the
// only one that begins with what is given, or where nothing is given the only one there
// is. What begins none of them is returned as it is given: whoever is asked for it says
// that there is no such thing.
func Pick(kind, given string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == given {
			return id, nil
		}
		if len(id) >= len(given) && strings.EqualFold(id[:len(given)], given) {
			found = append(found, id)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && given != "":
		return given, nil
	case len(found) == 0:
		return "", fmt.Errorf("no %s is open", kind)
	}
	const shown = 5
	slices.Sort(found)
	more := ""
	if n := len(found) - shown; n > 0 {
		found, more = found[:shown], fmt.Sprintf(", … (%d more)", n)
	}
	err := fmt.Errorf("several %ss have an id that begins with %q", kind, given)
	if given == "" {
		err = fmt.Errorf("several %ss are open", kind)
	}
	return "", Usage(Hint(err, "say which: "+strings.Join(found, ", ")+more))
}
