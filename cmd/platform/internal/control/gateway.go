package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// PipeProtocol is the name, in the header Upgrade, of what a connection becomes
// over which MCP is spoken, one message a line.
const PipeProtocol = "mcp-stdio"

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
	req.Header.Set("Upgrade", PipeProtocol)
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
