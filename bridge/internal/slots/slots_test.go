package slots

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/bridge/internal/format"
)

const magic = "testing1"

func content(t *testing.T, f *os.File) []byte {
	t.Helper()
	raw, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestWhateverByteOfTheLatestSlotIsDamagedTheOneBeforeCounts(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if turn, body, err := Latest(f.Name(), content(t, f), magic, 5); err != nil || turn != 0 || body != nil {
		t.Errorf("an empty file has turn %d, %q", turn, body)
	}
	for turn := uint64(1); turn <= 5; turn++ {
		if err := Write(f, magic, turn, bytes.Repeat([]byte{byte(turn)}, 5)); err != nil {
			t.Fatal(err)
		}
		if got, body, err := Latest(f.Name(), content(t, f), magic, 5); err != nil || got != turn || !bytes.Equal(body, bytes.Repeat([]byte{byte(turn)}, 5)) {
			t.Fatalf("after turn %d the latest is %d, %q", turn, got, body)
		}
	}
	for at := range len(magic) + 8 + 5 + 4 {
		raw := content(t, f)
		raw[Size+at] ^= 0x40 // turn 5 is in the second slot
		if turn, body, err := Latest(f.Name(), raw, magic, 5); err != nil || turn != 4 || !bytes.Equal(body, bytes.Repeat([]byte{4}, 5)) {
			t.Errorf("with byte %d damaged the latest is %d, %q", at, turn, body)
		}
	}
}

func TestASlotOfANewerVersionIsToldFromADamagedOne(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for turn := range uint64(2) { // whichever of the slots it is
		if err := Write(f, magic, 5-turn, []byte("older")); err != nil {
			t.Fatal(err)
		}
		if err := Write(f, "testing2", 6+turn, []byte("newer format")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Latest(f.Name(), content(t, f), magic, 5); !errors.Is(err, format.ErrNewer) || !strings.Contains(err.Error(), f.Name()) {
			t.Errorf("turn %d: %v", 6+turn, err)
		}
	}
}

func FuzzLatest(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte("testing1 and something behind it"), 8)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		if size < 0 || size > 400 {
			return
		}
		turn, body, err := Latest("x", raw, magic, size)
		if err != nil && turn != 0 || (turn == 0) != (body == nil) || body != nil && len(body) != size {
			t.Errorf("turn %d, %d bytes", turn, len(body))
		}
	})
}
