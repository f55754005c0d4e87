package request

import (
	"context"
	"net/http"
)

// Authorizer shows a server who asks. It is safe for concurrent use. Its errors
// become faults with the code needs_auth, unless they wrap a *fault.Error, which
// then counts as it is.
type Authorizer interface {
	// Authorize adds to a request what the server wants to see, as a rule the
	// header Authorization, just before it is sent. It is called for every
	// request of the wire, also for those that open streams or end the session.
	// After an error nothing is sent.
	Authorize(ctx context.Context, r *http.Request) error
	// Challenge gets an answer with status 401 or 403. It may read the body and
	// does not close it. With retry the request, which has had no effect, is
	// authorized anew and sent once more, three times in all at most; without, it
	// fails for err, or for lack of authorization where err is nil.
	Challenge(ctx context.Context, r *http.Response) (retry bool, err error)
}

// maxChallenges is how often one request may be sent again after a challenge.
const maxChallenges = 3

// Bearer is the Authorizer of one token that never changes (RFC 6750, section
// 2.1). An empty token adds nothing.
func Bearer(token string) Authorizer { return bearer(token) }

type bearer string

func (b bearer) Authorize(_ context.Context, r *http.Request) error {
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return nil
}

// Challenge has no other token to offer.
func (bearer) Challenge(context.Context, *http.Response) (bool, error) { return false, nil }
