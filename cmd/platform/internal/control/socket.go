package control

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxSocketPath is the longest path that sockaddr_un takes everywhere, less the
// closing NUL (Linux has 108 bytes, others 104).
const maxSocketPath = 103

// pointer is the file below the data folder that holds the socket's real path
// when it had to be put elsewhere.
const pointer = "state/socket"

// SocketPath is where the socket of a platform on the data folder belongs:
// DATA/platform.sock or, when that path is longer than the system allows, a
// short path that is the same for the same folder. moved tells which.
func SocketPath(data string) (path string, moved bool, err error) {
	data, err = filepath.Abs(data)
	if err != nil {
		return "", false, err
	}
	path = filepath.Join(data, "platform.sock")
	if len(path) <= maxSocketPath {
		return path, false, nil
	}
	base := os.Getenv("XDG_RUNTIME_DIR")
	if base == "" || len(base) > 60 {
		base = filepath.Join("/tmp", "aurora-"+strconv.Itoa(os.Getuid()))
	} else {
		base = filepath.Join(base, "aurora")
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", true, fmt.Errorf("making a folder for the socket: %w", err)
	}
	if err := private(base); err != nil {
		return "", true, err
	}
	sum := sha256.Sum256([]byte(data))
	return filepath.Join(base, hex.EncodeToString(sum[:8])+".sock"), true, nil
}

// private makes sure that nobody else could have put something into dir.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("the folder %s must be a directory with mode 0700 that belongs to this user", dir)
	}
	return nil
}

// Remember notes where the socket of data is, for clients that find no
// DATA/platform.sock.
func Remember(data, path string) error {
	return os.WriteFile(filepath.Join(data, pointer), []byte(path+"\n"), 0o600)
}

// find is the path of a running platform's socket, or the path where it would be.
func find(data string) (string, error) {
	path, moved, err := SocketPath(data)
	if !moved || err != nil {
		return path, err
	}
	if noted, err := os.ReadFile(filepath.Join(data, pointer)); err == nil {
		return strings.TrimSpace(string(noted)), nil
	}
	return path, nil
}

// listenPrivate binds with a umask that leaves the socket to its owner from the
// first moment.
func listenPrivate(path string) (net.Listener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}

// notRunning reports whether a dial failed because nobody listens.
func notRunning(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
