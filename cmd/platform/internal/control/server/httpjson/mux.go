package httpjson

import (
	"net/http"
	"path"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
)

// Mux is a ServeMux whose own refusals, of paths and methods that it does not
// know, are problems too.
type Mux struct{ http.ServeMux }

func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, pattern := m.Handler(r)
	if path.Clean(r.URL.Path) != r.URL.Path { // the ServeMux would redirect
		pattern, h = "", http.NotFoundHandler()
	}
	if pattern != "" {
		m.ServeMux.ServeHTTP(w, r)
		return
	}
	no := refusal{header: make(http.Header)}
	h.ServeHTTP(&no, r)
	if no.status == http.StatusMethodNotAllowed {
		allow := no.header.Get("Allow")
		w.Header().Set("Allow", allow)
		Fail(w, Refuse(no.status, control.MethodNotAllowed, "%s takes %s, not %s", r.URL.Path, allow, r.Method))
		return
	}
	Fail(w, Refuse(http.StatusNotFound, control.NotFound, "there is no %s", r.URL.Path))
}

// refusal keeps the status and header of an answer.
type refusal struct {
	header http.Header
	status int
}

func (n *refusal) Header() http.Header         { return n.header }
func (n *refusal) WriteHeader(status int)      { n.status = status }
func (n *refusal) Write(b []byte) (int, error) { return len(b), nil }
