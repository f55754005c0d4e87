package server

import (
	"net/http"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

func (a *api) servers(w http.ResponseWriter, r *http.Request) {
	httpjson.Reply(w, map[string]any{"servers": a.b.Servers()})
}

// act answers POST /v1/servers/{name}/{action}.
func (a *api) act(w http.ResponseWriter, r *http.Request) {
	name, action := r.PathValue("name"), r.PathValue("action")
	switch action {
	case "start", "stop", "restart":
	default:
		httpjson.Fail(w, httpjson.Refuse(http.StatusNotFound, control.NotFound, "a server can be started, stopped or restarted, not %q", action))
		return
	}
	if err := a.b.Act(r.Context(), name, action); err != nil {
		httpjson.Fail(w, err)
		return
	}
	httpjson.Reply(w, map[string]any{"ok": true, "server": name, "action": action})
}

// logs answers GET /v1/servers/{name}/logs.
func (a *api) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n, err := httpjson.Number(q, "n", 100, a.limits.lines)
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	follow, err := httpjson.Flag(q, "follow")
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	ctx := r.Context()
	if follow = follow && r.Method != http.MethodHead; follow {
		streaming, end, err := a.streams.Begin(ctx)
		if err != nil {
			httpjson.Fail(w, err)
			return
		}
		defer end()
		ctx = streaming
	}
	out, begun := http.NewResponseController(w), false
	err = a.b.Logs(ctx, r.PathValue("name"), n, follow, func(lines []string) error {
		if !begun {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			begun = true
		}
		text := strings.Join(lines, "\n")
		if len(lines) > 0 {
			text += "\n"
		}
		if _, err := w.Write([]byte(text)); err != nil || !follow {
			return err
		}
		return out.Flush()
	})
	switch {
	case err == nil || ctx.Err() != nil:
	case !begun:
		httpjson.Fail(w, err)
	default:
		a.log.Debug("a log was not read to its end", "server", r.PathValue("name"), "error", err)
		panic(http.ErrAbortHandler) // a part must not pass for the whole
	}
}
