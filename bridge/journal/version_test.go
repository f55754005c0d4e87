package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/bridge/journal/internal/ids"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
)

func TestASegmentOfANewerFormatIsRefusedAndStays(t *testing.T) {
	dir, path, _ := closedJournal(t, 3)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw = append([]byte("aurjrnl2"), raw[len(segment.Magic):]...)
	raw[segment.HeaderSize] ^= 1 // no record is as this version knows it
	for _, content := range [][]byte{raw, raw[:segment.HeaderSize+8]} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(Options{Dir: dir, Space: roomy})
		if err == nil {
			j.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "newer version of the platform") {
			t.Errorf("opening it: %v", err)
		}
		if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, content) {
			t.Errorf("the segment was changed: %d bytes, %v", len(left), err)
		}
	}
}

func TestASummaryOfANewerFormatIsRefusedAndStays(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, SegmentBytes: 4096})
	var path string
	eventually(t, "a summary is made", func() bool {
		add(t, j, event(1))
		all, err := filepath.Glob(filepath.Join(dir, "*"+ids.Suffix))
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 {
			path = all[0]
		}
		return path != ""
	})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len("auridsv")] = '2'
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err = Open(Options{Dir: dir, Space: roomy})
	if err == nil {
		j.Close()
	}
	if err == nil || !strings.Contains(err.Error(), path+" was written by a newer version of the platform") {
		t.Errorf("opening it: %v", err)
	}
	if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, raw) {
		t.Errorf("the summary was changed: %d bytes, %v", len(left), err)
	}
}
