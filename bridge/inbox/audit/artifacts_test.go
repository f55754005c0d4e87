package audit

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

func TestTheArtifactsThatEventsNameAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	at := Folders{filepath.Join(dir, "inbox"), filepath.Join(dir, "journal"), filepath.Join(dir, "artifacts")}
	j, err := journal.Open(journal.Options{Dir: at.Journal})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Prepare(at.Inbox); err != nil {
		t.Fatal(err)
	}
	store, err := artifact.Open(at.Artifacts, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(folder, id string, spoil func(path string) error) {
		t.Helper()
		ref, err := store.Put(context.Background(), strings.NewReader("content of "+id), "text/plain")
		if err != nil {
			t.Fatal(err)
		}
		event := `{"payload":{"data":{"truncated":true,"artifact":{"sha256":"` + ref.SHA256 + `","size":1,"path":"` + ref.Path + `"}}}}`
		if err := os.WriteFile(filepath.Join(at.Inbox, folder, amp.FileName("t", id)), []byte(event), 0o600); err != nil {
			t.Fatal(err)
		}
		if spoil != nil {
			if err := spoil(ref.Path); err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(path string) error { return os.WriteFile(path, []byte("something else"), 0o600) }
	put(queue.Pending, "whole", nil)
	put(queue.Pending, "missing", os.Remove)
	put(queue.Processing, "changed", flip)
	put(queue.Done, "removed", os.Remove)
	put(queue.Failed, "flipped", flip)
	r, err := Verify(at)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Findings {
		if strings.HasPrefix(f.What, "artifact") {
			got = append(got, f.What+" "+f.Name+map[bool]string{true: " fault"}[f.Fault])
		}
	}
	slices.Sort(got)
	want := []string{
		"artifact_changed " + amp.FileName("t", "changed") + " fault", "artifact_changed " + amp.FileName("t", "flipped") + " fault",
		"artifact_missing " + amp.FileName("t", "missing") + " fault", "artifact_removed " + amp.FileName("t", "removed"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q\nwant  %q", got, want)
	}
}
