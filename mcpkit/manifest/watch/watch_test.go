package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/mcpkit/manifest/load"
)

const patience = 2 * time.Minute

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start runs a watcher and returns a function that waits for one change.
func start(t *testing.T, o Options) (next func(what string)) {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	w := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-stopped
		held := 0
		for range w.Changed() { // ends, because Run closed it
			held++
		}
		if held > 1 {
			t.Errorf("%d changes were held", held)
		}
		goleak.VerifyNone(t, leaks)
	})
	return func(what string) {
		t.Helper()
		select {
		case <-w.Changed():
		case <-time.After(patience):
			t.Fatalf("no change after %s", what)
		}
	}
}

func mode(hints bool) Options {
	if hints {
		return Options{Debounce: 20 * time.Millisecond, Rescan: time.Hour}
	}
	return Options{Debounce: time.Hour, Rescan: 20 * time.Millisecond}
}

func TestEveryKindOfChangeIsSeenByHintAloneAndByTickAlone(t *testing.T) {
	for name, hints := range map[string]bool{"hint": true, "tick": false} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir, mcp := filepath.Join(root, "manifests"), filepath.Join(root, "project", ".mcp.json")
			write(t, dir+"/a.yaml", "a")
			write(t, root+"/project/x", "")
			write(t, root+"/real/b.yaml", "b")
			if err := os.Symlink("../real/b.yaml", dir+"/b.yaml"); err != nil {
				t.Fatal(err)
			}
			o := mode(hints)
			o.Manifests = load.Options{Dirs: []string{dir}, Project: []string{mcp}}
			next := start(t, o)

			write(t, dir+"/a.yaml", "changed")
			next("an edit")
			write(t, dir+"/new/manifest.yaml", "new")
			next("a new app in a new folder")
			write(t, dir+"/new/manifest.yaml", "newer")
			next("an edit in the new folder")
			write(t, root+"/real/b.yaml", "behind a link")
			next("an edit behind a link")
			write(t, mcp, "{}")
			next("a file that was not there")
			write(t, root+"/tmp", "renamed")
			if err := os.Rename(root+"/tmp", dir+"/a.yaml"); err != nil {
				t.Fatal(err)
			}
			next("a rename over a file")
			if err := os.Remove(dir + "/a.yaml"); err != nil {
				t.Fatal(err)
			}
			next("a removal")
		})
	}
}

func TestAFolderThatGoesAndComesBackIsFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	write(t, dir+"/a.yaml", "a")
	o := mode(true)
	o.Manifests = load.Options{Dirs: []string{dir}}
	next := start(t, o)
	for i := range 3 {
		if err := os.Rename(dir, fmt.Sprint(dir, ".away", i)); err != nil {
			t.Fatal(err)
		}
		next("the folder went")
		write(t, dir+".next/a.yaml", "a")
		if err := os.Rename(dir+".next", dir); err != nil {
			t.Fatal(err)
		}
		next("the folder came back")
		write(t, dir+"/a.yaml", fmt.Sprint("edit ", i))
		next("an edit in the folder that came back")
	}
}

func TestATouchAndABackupAreNoChange(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", "a")
	o := mode(true)
	o.Manifests = load.Options{Dirs: []string{dir}}
	w := New(o)
	write(t, dir+"/a.yaml", "a")
	write(t, dir+"/a.yaml~", "backup")
	w.compare()
	select {
	case <-w.Changed():
		t.Error("a change is reported")
	default:
	}
	write(t, dir+"/a.yaml", "b")
	w.compare()
	w.compare()
	select {
	case <-w.Changed():
	default:
		t.Error("a change is not reported")
	}
}

func TestAChangeBetweenNewAndRunIsSeen(t *testing.T) {
	dir := t.TempDir()
	o := mode(true)
	o.Manifests = load.Options{Dirs: []string{dir}}
	w := New(o)
	write(t, dir+"/a.yaml", "a")
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); w.Run(ctx) }()
	select {
	case <-w.Changed():
	case <-time.After(patience):
		t.Error("the change is lost")
	}
	cancel()
	<-stopped
}
