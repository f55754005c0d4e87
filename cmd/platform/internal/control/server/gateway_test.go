package server

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestAPipeCarriesLinesBothWaysUntilTheClientSendsNoMore(t *testing.T) {
	s := start(t, nil)
	c, err := control.Dial(s.data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pipe, err := c.Gateway(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	r := bufio.NewReader(pipe)
	for range 3 {
		io.WriteString(pipe, "hello\n")
		if line, err := r.ReadString('\n'); err != nil || line != "HELLO\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	pipe.CloseWrite()
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if _, err := c.Gateway(t.Context(), "nobody"); fault.From(err).Code != control.ServerNotFound {
		t.Errorf("a server that is not there: %v", err)
	}
}

func TestAPipeEndsWithTheAPI(t *testing.T) {
	s := start(t, nil)
	c, err := control.Dial(s.data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pipe, err := c.Gateway(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	s.stop()
	if _, err := io.ReadAll(pipe); err != nil {
		t.Error(err)
	}
	if _, err := c.Gateway(t.Context(), ""); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAPipeWantsAnUpgrade(t *testing.T) {
	s := start(t, nil)
	res := s.refused(http.StatusUpgradeRequired, control.InvalidRequest, http.MethodGet, "/v1/gateway", "")
	if res.Header.Get("Upgrade") != control.PipeProtocol {
		t.Errorf("%s, upgrade %q", res.Status, res.Header.Get("Upgrade"))
	}
}
