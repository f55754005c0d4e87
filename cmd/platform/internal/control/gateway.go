package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// pipeProtocol is what a connection becomes over which MCP is spoken, one message
// a line.
const pipeProtocol = "mcp-stdio"

// gateway answers GET /v1/gateway: the connection becomes a pipe to the platform
// as one MCP server, or to one server under its own names.
func (a *api) gateway(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), pipeProtocol) {
		w.Header().Set("Upgrade", pipeProtocol)
		w.Header().Set("Connection", "Upgrade")
		fail(w, refuse(http.StatusUpgradeRequired, InvalidRequest, "the connection must be upgraded to %s", pipeProtocol))
		return
	}
	serve, err := a.b.Gateway(r.Context(), r.URL.Query().Get("server"))
	if err != nil {
		fail(w, err)
		return
	}
	ctx, end, err := a.streams.begin(context.WithoutCancel(r.Context()))
	if err != nil {
		fail(w, err)
		return
	}
	defer end()
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })() // what waits can still be written
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+pipeProtocol+"\r\n\r\n"); err != nil {
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

// Pipe is a connection over which MCP is spoken, one message a line.
type Pipe struct {
	net.Conn
	r *bufio.Reader
}

func (p *Pipe) Read(b []byte) (int, error) { return p.r.Read(b) }

// CloseWrite says that nothing more is sent; answers can still be read.
func (p *Pipe) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Gateway opens a pipe to the platform as one MCP server or, where server is
// not empty, to one server under its own names.
func (c *Client) Gateway(ctx context.Context, server string) (*Pipe, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	if notRunning(err) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the platform: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://platform/v1/gateway?"+url.Values{"server": {server}}.Encode(), nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", pipeProtocol)
	r := bufio.NewReader(conn)
	err = req.Write(conn)
	var res *http.Response
	if err == nil {
		res, err = http.ReadResponse(r, req)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connecting to the platform: %w", errors.Join(ctx.Err(), err))
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		return nil, failure(res)
	}
	return &Pipe{conn, r}, nil
}
