package pending

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
)

func TestAListingWhileAFileIsOnItsWayIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	if _, err := queue.Prepare(dir); err != nil {
		t.Fatal(err)
	}
	c := New(Options{Dir: dir})
	w, err := watchFolder(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	c.Add(2, time.Time{}) // as the projector does before it renames
	if _, exact := c.list(w); exact {
		t.Error("a listing was taken for exact that may have missed a file")
	}
	if err := os.WriteFile(filepath.Join(c.dir, "event_test.event_1.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, exact := c.list(w)
	if files, _ := c.Now(); !exact || files != 1 {
		t.Errorf("once it had come: exact %t, %d files", exact, files)
	}
}

func TestAFolderThatIsSilentAboutWhatTheOtherSideTakesIsCountedAgainWhileALimitBlocks(t *testing.T) {
	dir := t.TempDir()
	if _, err := queue.Prepare(dir); err != nil {
		t.Fatal(err)
	}
	c := New(Options{Dir: dir, Hard: Limit{Files: 1}, Retry: time.Millisecond})
	file := filepath.Join(c.dir, "event_test.event_1.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	silent, err := watchFolder(t.TempDir()) // hears nothing of the inbox
	if err != nil {
		t.Fatal(err)
	}
	defer silent.close()
	over := make(chan struct{})
	go func() { defer close(over); c.follow(t.Context(), silent) }()
	for !c.Listed() {
		time.Sleep(time.Millisecond)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for waiting := true; waiting; { // as the projector does while it is blocked
		if room, _ := c.Room(0, 0); room > 0 {
			t.Fatal("there was room before the folder was counted again")
		}
		select {
		case <-over:
			waiting = false
		case <-time.After(c.opt.Retry):
		case <-t.Context().Done():
			t.Fatal("the folder was not counted again")
		}
	}
	c.list(nil)
	if room, err := c.Room(0, 0); room != 1 || err != nil {
		t.Errorf("room for %d, %v", room, err)
	}
}

func TestEventsOfInotifyThatWereLostAreNoticed(t *testing.T) {
	event := func(mask uint32, name string) []byte {
		b := make([]byte, unix.SizeofInotifyEvent+len(name))
		copy(b[unix.SizeofInotifyEvent:], name)
		b[4], b[5], b[6], b[7] = byte(mask), byte(mask>>8), byte(mask>>16), byte(mask>>24)
		b[12] = byte(len(name))
		return b
	}
	raw := slices.Concat(event(unix.IN_MOVED_TO, "event_a\x00"), event(unix.IN_DELETE, "event_b\x00"), event(unix.IN_CREATE, "other\x00\x00\x00"))
	if came, taken, lost := parseEvents(raw); came != 1 || taken != 1 || lost {
		t.Errorf("came %d, taken %d, lost %v", came, taken, lost)
	}
	for name, raw := range map[string][]byte{"overflow": event(unix.IN_Q_OVERFLOW, ""), "folder gone": event(unix.IN_IGNORED, ""), "cut": raw[:20]} {
		if _, _, lost := parseEvents(raw); !lost {
			t.Errorf("%s went unnoticed", name)
		}
	}
}
