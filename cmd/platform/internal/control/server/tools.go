package server

import (
	"net/http"
	"slices"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

// tools answers GET /v1/tools.
func (a *api) tools(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	server := q.Get("server")
	if err := a.known(server); err != nil {
		httpjson.Fail(w, err)
		return
	}
	switch format := q.Get("format"); format {
	case "", "records":
		httpjson.Reply(w, map[string]any{"tools": a.b.Tools(server)})
	case "openai":
		body, err := a.b.Export(q.Get("profile"), server)
		if err != nil {
			httpjson.Fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	default:
		httpjson.Fail(w, httpjson.Bad("format is records or openai, not %q", format))
	}
}

// known says so when no server has a name or alias; "" stands for all.
func (a *api) known(server string) error {
	if server == "" {
		return nil
	}
	all := a.b.Servers()
	if slices.ContainsFunc(all, func(s control.Server) bool { return s.Name == server || s.Alias == server }) {
		return nil
	}
	return control.NoServer(server, all)
}
