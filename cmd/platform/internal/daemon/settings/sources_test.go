package settings

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheBuiltInAppsAreRunWhereNothingElseIsNamedOrTheyAreNamedToo(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		named   []string
		dirs    []string
		builtin bool
	}{
		{nil, nil, true},
		{[]string{"mine"}, []string{"mine"}, false},
		{[]string{"mine", "builtin", "more.json"}, []string{"mine", "more.json"}, true},
		{[]string{"builtin"}, nil, true},
		{[]string{"./builtin"}, []string{"./builtin"}, false},
	} {
		o := Options{Manifests: tt.named}
		if got := o.Sources(); !slices.Equal(got.Dirs, tt.dirs) || (got.Embedded != nil) != tt.builtin || o.LeavesOutBuiltin() == tt.builtin {
			t.Errorf("%q: folders %q, built-in apps %t", tt.named, got.Dirs, got.Embedded != nil)
		}
	}
}

func TestTheBuiltInAppsAreNoFolderBesideTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "platform.yaml")
	if err := os.WriteFile(file, []byte("manifests: [builtin, mine]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	if err := o.ReadConfig(file, true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"builtin", filepath.Join(dir, "mine")}; !slices.Equal(o.Manifests, want) {
		t.Errorf("the manifests are %q, want %q", o.Manifests, want)
	}
}
