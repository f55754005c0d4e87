package calls

import (
	"regexp"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

var (
	idForm       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_~:-][A-Za-z0-9._~:-]{0,127}$`) })
	entranceForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })
)

const (
	maxTimeout = 24 * time.Hour
	maxName    = 1024 // bytes of a tool's name, in any form, and of a person's
)

// Check says what is wrong with a request for a call, and completes it with an id
// and an entrance.
func Check(r *control.CallRequest) error {
	switch {
	case r.Name == "":
		return httpjson.Bad("name, the tool to call, is missing")
	case len(r.Name) > maxName:
		return httpjson.Bad("name has at most %d bytes", maxName)
	case r.ID != "" && !idForm().MatchString(r.ID):
		return httpjson.Bad("id has 1 to 128 of A-Z a-z 0-9 . _ ~ : - and begins with no dot")
	case r.TimeoutMS < 0 || r.TimeoutMS > maxTimeout.Milliseconds():
		return httpjson.Bad("timeout_ms is from 0 to %d", maxTimeout.Milliseconds())
	case len(r.ApprovedBy) > maxName:
		return httpjson.Bad("approved_by has at most %d bytes", maxName)
	case r.ApprovedBy != "" && (r.Wait || r.Approval != ""):
		return httpjson.Bad("approved_by is the answer: there is no other to wait for or to use")
	}
	if r.ID == "" {
		r.ID = ulid.Make().String()
	}
	return Entrance(&r.Entrance)
}

// Entrance completes and checks the word for where a request came in.
func Entrance(word *string) error {
	if *word == "" {
		*word = "api"
	}
	if !entranceForm().MatchString(*word) {
		return httpjson.Bad("entrance has 1 to 32 of a-z 0-9 _ - and begins with a letter")
	}
	return nil
}
