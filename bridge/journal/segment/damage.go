package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/durable"
)

// Damage is a part of a segment that holds no valid record where there should be one.
type Damage struct {
	Segment string // file name, of a summary where that is damaged and its segment was dropped
	Offset  int64
	Bytes   int64
	Torn    bool   // at the end of the log, as a crash leaves it: nothing acknowledged is lost
	From    uint64 // else the positions From to To are lost
	To      uint64
	Kept    string // where the bytes were put aside; may be empty
}

func (d Damage) String() string {
	if strings.HasSuffix(d.Segment, ".ids") {
		return fmt.Sprintf("%s is not valid, the ids of records %d to %d are forgotten: such events would be taken for new ones", d.Segment, d.From, d.To)
	}
	if d.Torn {
		return fmt.Sprintf("%s: torn end of %d bytes at %d", d.Segment, d.Bytes, d.Offset)
	}
	if d.To < d.From {
		return fmt.Sprintf("%s: %d bytes at %d are not valid, no record is missing", d.Segment, d.Bytes, d.Offset)
	}
	return fmt.Sprintf("%s: %d bytes at %d are not valid, records %d to %d are lost", d.Segment, d.Bytes, d.Offset, d.From, d.To)
}

// TornName is the name of the file that [Damage.Keep] copies d's bytes to.
func (d Damage) TornName() string {
	base := d.Segment[:len(d.Segment)-len(filepath.Ext(d.Segment))]
	return base + "-" + strconv.FormatInt(d.Offset, 10) + tornSuffix
}

// Keep copies the damaged bytes to a file beside the segment in dir, unless that
// file has them already, and sets Kept to its path. It may run while another
// process writes the journal.
func (d *Damage) Keep(dir string) error {
	if d.Bytes == 0 {
		return nil
	}
	src, err := os.Open(filepath.Join(dir, d.Segment))
	if err != nil {
		return err
	}
	defer src.Close()
	path := filepath.Join(dir, d.TornName())
	same, err := hasContent(path, io.NewSectionReader(src, d.Offset, d.Bytes))
	if err != nil {
		return err
	}
	if !same {
		err = copyTo(path, io.NewSectionReader(src, d.Offset, d.Bytes))
	}
	if err == nil {
		d.Kept = path
	}
	return err
}

const (
	tornSuffix = ".torn"
	copyMark   = ".tmp-" // follows the name of a file that is being copied
)

// copyTo makes a file that is there whole or not at all.
func copyTo(path string, r io.Reader) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+copyMark+"*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// hasContent reports whether the file at path is there and has exactly the bytes
// that r gives.
func hasContent(path string, r io.Reader) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	want, have := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(r, want)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, err
		}
		m, ferr := io.ReadFull(f, have)
		if ferr != nil && ferr != io.EOF && ferr != io.ErrUnexpectedEOF {
			return false, ferr
		}
		if !bytes.Equal(want[:n], have[:m]) {
			return false, nil
		}
		if err != nil { // the end of both
			return true, nil
		}
	}
}

// Torn lists the damaged parts kept aside in dir.
func Torn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var torn []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tornSuffix) {
			torn = append(torn, e.Name())
		}
	}
	return torn, err
}

// ParseTorn splits the name of a damaged part kept aside: the first position of
// its segment, and whether the copy is unfinished. It reports false for other names.
func ParseTorn(name string) (first uint64, unfinished, ok bool) {
	unfinished = strings.Contains(name, tornSuffix+copyMark)
	if !unfinished && !strings.HasSuffix(name, tornSuffix) {
		return 0, false, false
	}
	first, _ = strconv.ParseUint(name[:min(20, len(name))], 10, 64)
	return first, unfinished, true
}
