// Package endpoint knows where the local API of a data folder is: it finds the
// socket for clients, and opens the listeners for the platform. What is said over
// them is not its matter. DATA below is the data folder:
//
//	DATA/platform.sock      the socket, mode 0600
//	DATA/state/socket       where the socket is, if that path is too long
//	DATA/state/token        what TCP requests must carry, mode 0600
//	DATA/state/api-address  host:port of the TCP listener while it is there
//
// For example:
//
//	l, moved, err := endpoint.Listen(data) // the platform
//	path, err := endpoint.Find(data)       // a client
package endpoint

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// TokenFile is the file below the data folder that holds the token of requests
// over TCP.
const TokenFile = "state/token"

const (
	addressFile = "state/api-address"
	tokenBytes  = 32
)

// Listen opens the socket of a data folder for its owner alone and notes where
// it is. The caller makes sure that no other platform runs there; the socket
// that a dead one left is replaced, and nothing else is. Closing the listener
// removes the socket.
func Listen(data string) (l net.Listener, moved bool, err error) {
	path, moved, err := SocketPath(data)
	if err != nil {
		return nil, moved, fmt.Errorf("placing the socket: %w", err)
	}
	if moved {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = private(filepath.Dir(path))
		}
		if err != nil {
			return nil, moved, fmt.Errorf("placing the socket: %w", err)
		}
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, moved, fmt.Errorf("placing the socket: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return nil, moved, fmt.Errorf("placing the socket: there is something else at %s", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, moved, fmt.Errorf("removing the old socket: %w", err)
		}
	}
	// Linux makes the file with the mode of the descriptor, so that it is never
	// open to others; elsewhere the folder keeps them out until Chmod.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.Fchmod(int(fd), 0o600) })
	}}
	if l, err = lc.Listen(context.Background(), "unix", path); err != nil {
		return nil, moved, fmt.Errorf("opening the socket: %w", err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), note(filepath.Join(data, socketFile), path)); err != nil {
		l.Close()
		return nil, moved, fmt.Errorf("opening the socket: %w", err)
	}
	return l, moved, nil
}

// CheckAddress says why an address is none that the API may be served on: only
// this machine's loopback is.
func CheckAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not host:port", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return fmt.Errorf("%q has no port from 0 to 65535", addr)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not on loopback: use 127.0.0.1, [::1] or localhost", addr)
	}
	return nil
}

// ListenTCP opens a loopback address for those who have the token of the data
// folder, which is made at the first time, and notes the address there until the
// listener is closed. Without an address it removes the note of a platform that
// was killed, and the listener is nil.
func ListenTCP(data, addr string) (_ net.Listener, token string, err error) {
	noted := filepath.Join(data, addressFile)
	if err := os.Remove(noted); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", fmt.Errorf("removing the old address of the API: %w", err)
	}
	if addr == "" {
		return nil, "", nil
	}
	if err := CheckAddress(addr); err != nil {
		return nil, "", err
	}
	if token, err = readToken(filepath.Join(data, TokenFile)); err != nil {
		return nil, "", fmt.Errorf("the token of the API: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, "", fmt.Errorf("opening the API's address: %w", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() { // localhost may be anything
		l.Close()
		return nil, "", fmt.Errorf("opening the API's address: %s is not on loopback", l.Addr())
	}
	if err := note(noted, l.Addr().String()); err != nil {
		l.Close()
		return nil, "", fmt.Errorf("noting the API's address: %w", err)
	}
	return &notedListener{l, noted}, token, nil
}

// readToken reads the token or, where there is none, makes it.
func readToken(path string) (string, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		random := make([]byte, tokenBytes)
		rand.Read(random)
		token := hex.EncodeToString(random)
		return token, note(path, token)
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !own(info) {
		return "", fmt.Errorf("%s must be a file with mode 0600 that belongs to this user; others may have read it: remove it for a new one", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	if b, err := hex.DecodeString(token); err != nil || len(b) < tokenBytes {
		return "", fmt.Errorf("%s must hold %d hex digits: remove it for a new one", path, 2*tokenBytes)
	}
	return token, nil
}

// notedListener removes its note when it is closed.
type notedListener struct {
	net.Listener
	note string
}

func (l *notedListener) Close() error {
	os.Remove(l.note)
	return l.Listener.Close()
}
