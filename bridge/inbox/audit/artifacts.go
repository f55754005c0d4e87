package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/inbox/internal/folders"
	"github.com/aurorabot-dev/platform/bridge/inbox/queue"
	"github.com/aurorabot-dev/platform/bridge/journal/segment"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
)

// Needed finds which of some artifacts, by their hashes, are named by an event that
// nobody has dealt with: a file in pending/ or processing/, or a record of the journal
// from the position from on, which is not delivered. Where it cannot be found out, the
// error says so, and all have to stay.
func Needed(at Folders, from uint64, hashes []string) (needed map[string]bool, err error) {
	wanted, needed := map[string]bool{}, map[string]bool{}
	for _, h := range hashes {
		wanted[h] = true
	}
	look := func(event []byte) {
		for hash := range hashesIn(event) {
			if wanted[string(hash)] {
				needed[string(hash)] = true
			}
		}
	}
	reader, err := segment.OpenReader(at.Journal, from) // first: what is delivered meanwhile is a file then
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for {
		rec, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if rec.Kind == segment.Deliver {
			look(rec.Event())
		}
	}
	seen := map[string]bool{}
	for _, folder := range []string{queue.Pending, queue.Processing, queue.Pending} { // events move either way meanwhile
		if err := eachEvent(at, folder, func(name string) bool { return !seen[name] }, func(name string, event []byte) {
			seen[name] = true
			look(event)
		}); err != nil {
			return nil, err
		}
	}
	return needed, nil
}

// eachEvent calls fn with the files of a folder whose names are wanted. Those that are
// moved meanwhile are left out.
func eachEvent(at Folders, folder string, want func(name string) bool, fn func(name string, event []byte)) (failed error) {
	err := folders.Each(filepath.Join(at.Inbox, folder), func(name string) {
		if _, _, ok := amp.ParseFileName(name); !ok || failed != nil || !want(name) {
			return
		}
		event, err := os.ReadFile(filepath.Join(at.Inbox, folder, name))
		switch {
		case err == nil:
			fn(name, event)
		case !errors.Is(err, fs.ErrNotExist):
			failed = err
		}
	})
	return errors.Join(failed, err)
}

// artifacts looks whether what events name is there and whole: for those that wait it
// has to be, for those that are dealt with retention may have taken it.
func (r *Report) artifacts(at Folders) error {
	if at.Artifacts == "" {
		return nil
	}
	checked := map[string]error{} // by hash: several events may name one
	for _, folder := range eventFolders {
		waits := folder == queue.Pending || folder == queue.Processing
		all := func(string) bool { return true }
		if err := eachEvent(at, folder, all, func(name string, event []byte) {
			if hash := artifactOf(event); hash != "" {
				err, known := checked[hash]
				if !known {
					err = artifact.Check(at.Artifacts, hash)
					checked[hash] = err
				}
				switch {
				case err == nil:
				case errors.Is(err, fs.ErrNotExist) && waits:
					r.find(true, "artifact_missing", name, "the event in %s names the artifact %s, which is not there: that part of it is gone", folder, hash)
				case errors.Is(err, fs.ErrNotExist):
					r.find(false, "artifact_removed", name, "the event in %s names the artifact %s, which is not there any more, as retention has it", folder, hash)
				case errors.Is(err, artifact.ErrCorrupt):
					r.find(true, "artifact_changed", name, "the artifact %s of the event in %s is not what was put there", hash, folder)
				default:
					r.find(true, "artifact_unreadable", name, "%v", err)
				}
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// artifactOf is the hash of the artifact that an event names, of data that was too large
// or of a result; empty for none.
func artifactOf(event []byte) string {
	var e struct {
		Payload struct {
			Data struct {
				Artifact artifact.Ref `json:"artifact"`
			} `json:"data"`
		} `json:"payload"`
	}
	if json.Unmarshal(event, &e) != nil || e.Payload.Data.Artifact.Path == "" {
		return ""
	}
	return e.Payload.Data.Artifact.SHA256
}

// hashMember begins the name of an artifact in an event; see [artifact.Ref].
var hashMember = []byte(`"sha256":"`)

const hashLen = 64

// hashesIn yields what stands in an event in the place of an artifact's hash.
func hashesIn(event []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for {
			i := bytes.Index(event, hashMember)
			if i < 0 {
				return
			}
			event = event[i+len(hashMember):]
			if len(event) >= hashLen && !yield(event[:hashLen]) {
				return
			}
		}
	}
}
