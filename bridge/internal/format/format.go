// Package format tells a file of a newer version of the platform from a damaged one
// by its first bytes: seven that name the format, and a digit, which is its version.
//
//	err := format.Check(path, raw, "aurjrnl1") // wraps ErrNewer for "aurjrnl2"
//
// What is damaged is found out elsewhere.
package format

import (
	"errors"
	"fmt"
)

// ErrNewer says that a file is of a format that a newer version of the platform
// writes. Such a file is neither changed nor removed.
var ErrNewer = errors.New("was written by a newer version of the platform: start that version, or move the folder away")

// Check is an [ErrNewer] with the file's path where head, the file's first bytes,
// begins with the name in magic and a higher version.
func Check(path string, head []byte, magic string) error {
	version := len(magic) - 1
	if len(head) > version && string(head[:version]) == magic[:version] && head[version] > magic[version] && head[version] <= '9' {
		return fmt.Errorf("%s %w", path, ErrNewer)
	}
	return nil
}
