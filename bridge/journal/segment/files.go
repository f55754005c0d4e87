package segment

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Magic begins every segment.
const Magic = "aurjrnl1"

// Suffix ends the names of segments.
const Suffix = ".log"

// Path is that of the segment whose first record has the position first.
func Path(dir string, first uint64) string { return Name(dir, first, Suffix) }

// Name is the path of a file of dir that is named after the position of a first record.
func Name(dir string, first uint64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, suffix))
}

// Header is what a segment begins with.
func Header(first uint64) []byte {
	h := make([]byte, HeaderSize)
	copy(h, Magic)
	binary.LittleEndian.PutUint64(h[len(Magic):], first)
	return h
}

// List returns the positions that name the segments in dir, rising.
func List(dir string) ([]uint64, error) { return ListNamed(dir, Suffix) }

// ListNamed returns the positions that name the files of dir with a suffix, rising.
func ListNamed(dir, suffix string) (firsts []uint64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if number, ok := strings.CutSuffix(e.Name(), suffix); ok && len(number) == 20 {
			if first, err := strconv.ParseUint(number, 10, 64); err == nil {
				firsts = append(firsts, first)
			}
		}
	}
	slices.Sort(firsts)
	return firsts, nil
}
