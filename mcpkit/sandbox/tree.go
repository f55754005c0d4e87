package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// System are the folders of the system that every confined process can read, as far
// as the machine has them.
var System = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/etc",
	// What files of /etc are links to on some systems.
	"/etc/resolv.conf", "/etc/localtime", "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
}

// private are files of the system that programs of root could read and no server needs.
var private = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/ssh", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/krb5.keytab", "/etc/wireguard", "/etc/docker", "/etc/kubernetes",
	"/etc/NetworkManager/system-connections", "/etc/ppp", "/etc/ipsec.secrets", "/etc/letsencrypt",
}

// Kind says what is at a path of the tree.
type Kind string

// What is at a path.
const (
	Bind   Kind = "bind"   // a file or folder of the machine
	Temp   Kind = "temp"   // a folder that is empty at first and forgotten in the end
	Link   Kind = "link"   // a symbolic link
	Folder Kind = "folder" // a folder that holds nothing but what the list has below it
)

// Mount is one path of the tree in which a confined process lives.
type Mount struct {
	Kind   Kind   `json:"kind"`
	Path   string `json:"path"`
	Source string `json:"source,omitempty"` // of a bind: where it is on the machine; of a link: where it points
	Write  bool   `json:"write,omitempty"`  // of a bind
}

// maxEntries bounds how many entries of folders are taken one by one.
const maxEntries = 4000

// tree collects mounts by path.
type tree struct {
	at      map[string]Mount
	hidden  []string // without links
	entries int
}

// Mounts is the tree of files of the profile as the machine's files are now, each
// folder before what is in it. A path that does not exist is an error, as is one of
// Read or Write that is hidden, or of Write that has something hidden below it.
func (p *Profile) Mounts() ([]Mount, error) {
	t := &tree{at: make(map[string]Mount)}
	for _, h := range slices.Concat(p.Hidden, private) {
		t.hidden = append(t.hidden, realPath(h))
	}
	for _, path := range System {
		if err := t.bind(path, false); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errHidden) {
			return nil, err
		}
	}
	for _, path := range slices.Concat([]string{"/tmp", "/var/tmp"}, p.Temp) {
		t.temp(path)
	}
	if p.Home != "" {
		if home := t.follow(p.Home); p.HomeDir == "" {
			t.temp(home)
		} else {
			t.at[home] = Mount{Kind: Bind, Path: home, Source: realPath(p.HomeDir), Write: true}
		}
	}
	for _, path := range ofProgram(p.Program, p.Home) {
		if err := t.bind(path, false); err != nil && !errors.Is(err, errHidden) {
			return nil, err
		}
	}
	for _, path := range p.Read {
		if err := t.bind(path, false); err != nil {
			return nil, err
		}
	}
	for _, path := range p.Write {
		if err := t.bind(path, true); err != nil {
			return nil, err
		}
	}
	for i, path := range slices.Concat(p.OwnRead, p.Own) {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
		real := t.follow(path)
		t.at[real] = Mount{Kind: Bind, Path: real, Source: real, Write: i >= len(p.OwnRead)}
	}
	if dir := t.follow(p.Dir); dir != "/" && t.at[dir].Kind == "" {
		t.at[dir] = Mount{Kind: Folder, Path: dir}
	}
	return t.list(), nil
}

// errHidden says that a path was asked for that is never given.
var errHidden = errors.New("belongs to the platform, and no server may reach it")

// HiddenError says which path was named and must not be.
type HiddenError struct {
	Path   string // as it was named
	Hidden string // what is kept from servers; Path or something below it
}

func (e *HiddenError) Error() string {
	if within(e.Path, e.Hidden) {
		return fmt.Sprintf("%s %v", e.Path, errHidden)
	}
	return fmt.Sprintf("%s may not be writable: %s is below it, which %v", e.Path, e.Hidden, errHidden)
}

func (e *HiddenError) Unwrap() error { return errHidden }

// bind gives a file or folder, and the links on the way to it.
func (t *tree) bind(path string, write bool) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	real := t.follow(path)
	if real == "/" {
		return &fs.PathError{Op: "sandbox", Path: path, Err: errors.New("the whole machine cannot be given; name the folders")}
	}
	var below []string
	for _, h := range t.hidden {
		if within(real, h) || write && within(h, real) {
			return &HiddenError{Path: path, Hidden: h}
		}
		if within(h, real) {
			below = append(below, h)
		}
	}
	return t.without(real, write, below)
}

// without gives path less the hidden files and folders below it. A folder that has
// something hidden below it is made anew of its other entries: a mount that covers
// one file would be gone as soon as the file is replaced by renaming.
func (t *tree) without(path string, write bool, hidden []string) error {
	if len(hidden) == 0 {
		if old, ok := t.at[path]; !ok || !old.Write {
			t.at[path] = Mount{Kind: Bind, Path: path, Source: path, Write: write}
		}
		return nil
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.entries += len(entries); t.entries > maxEntries {
		return fmt.Errorf("%s has something hidden below it and too many entries (more than %d) to be given without: name fewer folders", path, maxEntries)
	}
	if t.at[path].Kind == "" {
		t.at[path] = Mount{Kind: Folder, Path: path}
	}
	for _, e := range entries {
		child := filepath.Join(path, e.Name())
		var below []string
		gone := false
		for _, h := range hidden {
			gone = gone || h == child
			if within(h, child) {
				below = append(below, h)
			}
		}
		switch {
		case gone:
		case e.Type()&fs.ModeSymlink != 0:
			if target, err := os.Readlink(child); err == nil {
				t.at[child] = Mount{Kind: Link, Path: child, Source: target}
			}
		case e.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0: // who named the folder did not name these
		default:
			if err := t.without(child, write, below); err != nil {
				return err
			}
		}
	}
	return nil
}

// temp gives an empty folder that is writable.
func (t *tree) temp(path string) {
	real := t.follow(path)
	if real != "/" && t.at[real].Kind == "" {
		t.at[real] = Mount{Kind: Temp, Path: real}
	}
}

// follow notes the symbolic links on the way to path and returns where they lead.
// From the first component on that does not exist, the path stays as it is.
func (t *tree) follow(path string) string {
	at, rest := "/", strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil || links > 40 {
			at = next
			continue
		}
		links++
		t.at[next] = Mount{Kind: Link, Path: next, Source: target}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(filepath.Join(at, target), "/"), "/"), rest...)
		at = "/"
	}
	return at
}

// realPath is a path without links, as far as it exists.
func realPath(path string) string {
	return (&tree{at: make(map[string]Mount)}).follow(path)
}

// list orders the mounts and leaves out what another brings along.
func (t *tree) list() []Mount {
	var out []Mount
	var over []Mount // the mounts above the present path
	for _, path := range slices.SortedFunc(maps.Keys(t.at), byParts) {
		m := t.at[path]
		for len(over) > 0 && !within(path, over[len(over)-1].Path) {
			over = over[:len(over)-1]
		}
		if len(over) > 0 {
			// A bind of a folder has the links of the folder, and its files.
			last := over[len(over)-1]
			there := last.Kind == Bind && last.Source == last.Path
			if there && (m.Kind == Link || m.Kind == Folder || m.Kind == Bind && m.Source == m.Path && m.Write == last.Write) {
				continue
			}
		}
		out = append(out, m)
		if m.Kind != Link {
			over = append(over, m)
		}
	}
	return out
}

// byParts orders paths so that each folder is followed by all that is in it.
func byParts(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) }

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Reach is what a confined process can do with a path.
type Reach struct {
	Access string `json:"access"`       // none, read or write
	By     string `json:"by,omitempty"` // the path of the mount that decides
	Reason string `json:"reason"`
}

// Explain says what a process in the tree can do with a path of the machine.
func Explain(mounts []Mount, path string) Reach {
	path = realPath(path)
	for _, m := range slices.Backward(mounts) {
		if !within(path, m.Path) {
			continue
		}
		switch m.Kind {
		case Bind:
			if m.Source != m.Path {
				return Reach{"none", m.Path, "the server has a folder of its own there in place of this one"}
			}
			if m.Write {
				return Reach{"write", m.Path, "it is below a folder that the server may write"}
			}
			return Reach{"read", m.Path, "it is below what the server may read"}
		case Temp:
			return Reach{"none", m.Path, "the server has a folder of its own there, which is empty at its start"}
		}
		break
	}
	return Reach{"none", "", "nothing gives it to the server: for the server it does not exist"}
}
