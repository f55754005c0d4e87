package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
)

// gateway answers GET /v1/gateway: the connection becomes a pipe to the platform
// as one MCP server, or to one server under its own names.
func (a *api) gateway(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), control.PipeProtocol) {
		w.Header().Set("Upgrade", control.PipeProtocol)
		w.Header().Set("Connection", "Upgrade")
		httpjson.Fail(w, httpjson.Refuse(http.StatusUpgradeRequired, control.InvalidRequest, "the connection must be upgraded to %s", control.PipeProtocol))
		return
	}
	serve, err := a.b.Gateway(r.Context(), r.URL.Query().Get("server"))
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	ctx, end, err := a.streams.Begin(context.WithoutCancel(r.Context()))
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	defer end()
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })() // what waits can still be written
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+control.PipeProtocol+"\r\n\r\n"); err != nil {
		return
	}
	serve(ctx, buf.Reader, &patient{conn, a.limits.stall}) // the backend logs why it ended
}

// patient writes to a connection with a limit on each write.
type patient struct {
	conn  net.Conn
	stall time.Duration
}

func (p *patient) Write(b []byte) (int, error) {
	p.conn.SetWriteDeadline(time.Now().Add(p.stall))
	return p.conn.Write(b)
}
