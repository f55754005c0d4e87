package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// maxSocketPath is the longest path that sockaddr_un takes everywhere, less the
// closing NUL (Linux has 108 bytes, others 104).
const maxSocketPath = 103

// socketFile is the file below the data folder that holds the socket's path.
const socketFile = "state/socket"

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
	sum := sha256.Sum256([]byte(data))
	return filepath.Join(base, hex.EncodeToString(sum[:8])+".sock"), true, nil
}

// private makes sure that nobody else could have put something into dir.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !own(info) {
		return fmt.Errorf("the folder %s must be a directory with mode 0700 that belongs to this user", dir)
	}
	return nil
}

func own(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Getuid()
}

// Find returns the path of a running platform's socket, or the path where the
// socket would be. A socket in a folder that others could write to is not trusted.
func Find(data string) (string, error) {
	path, moved, err := SocketPath(data)
	if !moved || err != nil {
		return path, err
	}
	if noted, err := os.ReadFile(filepath.Join(data, socketFile)); err == nil {
		path = strings.TrimSpace(string(noted))
	}
	if err := private(filepath.Dir(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return path, nil
}

// note writes a small file for the user alone, whole or not at all.
func note(path, text string) error { return durable.WriteFile(path, []byte(text+"\n")) }
