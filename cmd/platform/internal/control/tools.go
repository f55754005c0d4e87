package control

import (
	"net/http"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// tools answers GET /v1/tools.
func (a *api) tools(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	server := q.Get("server")
	if err := a.known(server); err != nil {
		fail(w, err)
		return
	}
	switch format := q.Get("format"); format {
	case "", "records":
		reply(w, map[string]any{"tools": a.b.Tools(server)})
	case "openai":
		body, err := a.b.Export(q.Get("profile"), server)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	default:
		fail(w, bad("format is records or openai, not %q", format))
	}
}

// known says so when no server has a name or alias; "" stands for all.
func (a *api) known(server string) error {
	if server == "" {
		return nil
	}
	all := a.b.Servers()
	if slices.ContainsFunc(all, func(s Server) bool { return s.Name == server || s.Alias == server }) {
		return nil
	}
	return NoServer(server, all)
}

// NoServer is the failure of a name that no server has. Its candidates are those,
// at most three, that it was probably meant to be.
func NoServer(name string, servers []Server) *fault.Error {
	f := fault.New(ServerNotFound, "there is no server %.100q", name)
	fold := strings.ToLower(name)
	for _, s := range servers {
		full := strings.ToLower(s.Name)
		words := []string{full, full[strings.LastIndexByte(full, '.')+1:], strings.ToLower(s.Alias)}
		if len(f.Candidates) < 3 && (len(name) > 1 && strings.Contains(full, fold) || strict.Nearest(fold, words) != "") {
			f.Candidates = append(f.Candidates, s.Name)
		}
	}
	return f
}
