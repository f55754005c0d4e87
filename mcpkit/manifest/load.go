package manifest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Options says where manifests are and how they are read.
type Options struct {
	// Dirs are folders and single files, which must exist. A folder holds
	// manifests as *.yaml, *.yml and */manifest.yaml, or is an app's own
	// folder with one manifest.yaml; it may also hold mcpServers files under
	// their usual names. Hidden files, backups and *.example are left out;
	// links are followed.
	Dirs []string
	// Project and User are mcpServers files, or folders with such files, that
	// need not exist. A server of Dirs or Project replaces one of User with
	// the same name.
	Project, User []string
	// Embedded holds manifests that come with the program, laid out as in a
	// folder of Dirs. Any other manifest replaces an embedded one of the same
	// package. Their relative paths start from EmbeddedDir.
	Embedded    fs.FS
	EmbeddedDir string
	// Lookup finds a variable's value; nil means that none is set.
	Lookup func(string) (string, bool)
	// Strict makes unset variables in mcpServers files faults; otherwise they
	// are empty and a warning, as for the hosts that those files are from.
	Strict bool
}

// level ranks sources: a server of a higher level replaces one of a lower.
type level uint8

const (
	embedded level = iota
	user
	project
)

// source is a file that may hold servers.
type source struct {
	path    string // as it was found, for people
	level   level
	foreign bool // an mcpServers file
	fsys    fs.FS
	dir     string // of an embedded file
}

// Load reads every manifest there is. It returns the good ones, sorted by
// package, and an error that joins every *Fault of the rest; [Faults] takes it
// apart. Of two manifests of one level with the same package or alias the first
// is kept and the second is a fault.
func Load(o Options) ([]*Manifest, error) {
	sources, faults := discover(o)
	var all []*Manifest
	for _, src := range sources {
		found, bad := src.load(o)
		for _, m := range found {
			m.level, m.foreign = src.level, src.foreign
		}
		all, faults = append(all, found...), append(faults, bad...)
	}
	kept, bad := choose(all)
	return kept, join(append(faults, bad...))
}

// Files are the files that Load would read, sorted, with links resolved, and
// without the embedded ones.
func Files(o Options) []string {
	o.Embedded = nil
	sources, _ := discover(o)
	var files []string
	for _, s := range sources {
		files = append(files, s.path)
		if real, err := filepath.EvalSymlinks(s.path); err == nil {
			files = append(files, real)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// Faults are the faults that an error of this package joins.
func Faults(err error) []*Fault {
	var joined *multierror.Error
	var one *Fault
	switch {
	case errors.As(err, &joined):
		var out []*Fault
		for _, e := range joined.Errors {
			out = append(out, Faults(e)...)
		}
		return out
	case errors.As(err, &one):
		return []*Fault{one}
	}
	return nil
}

// Keep is what should run after a reload: what was loaded now and, for every
// source that is at fault now, the servers that it gave before. So a bad edit
// leaves the running version in place until it is mended or the file is gone. One
// whose alias another server has taken meanwhile is not kept.
func Keep(before, now []*Manifest, err error) []*Manifest {
	faults := Faults(err)
	out := slices.Clone(now)
	for _, old := range before {
		taken := func(m *Manifest) bool {
			return !strings.EqualFold(m.Package, old.Package) && old.Alias != "" &&
				(strings.EqualFold(m.Alias, old.Alias) || strings.EqualFold(m.Package, old.Alias))
		}
		if !slices.ContainsFunc(faults, old.spoiledBy) || slices.ContainsFunc(out, taken) {
			continue
		}
		same := func(m *Manifest) bool { return strings.EqualFold(m.Package, old.Package) }
		if i := slices.IndexFunc(out, same); i < 0 {
			out = append(out, old)
		} else if out[i].level < old.level {
			out[i] = old
		}
	}
	sortByPackage(out)
	return out
}

// spoiledBy reports whether the fault may be why m is no longer loaded.
func (m *Manifest) spoiledBy(f *Fault) bool {
	if f.Line == 0 && strings.HasPrefix(m.Path, strings.TrimSuffix(f.File, "/")+"/") {
		return true // its whole folder cannot be read
	}
	if f.File != m.Path {
		return false
	}
	if !m.foreign {
		return true
	}
	// A fault of one entry says nothing about its neighbours.
	_, entry, one := strings.Cut(f.Key, "ervers.")
	return !one || entry == m.Name || strings.HasPrefix(entry, m.Name+".") || strings.HasPrefix(entry, m.Name+"[")
}

// choose keeps of all manifests the good ones that do not get in each other's way.
func choose(all []*Manifest) (kept []*Manifest, faults []*Fault) {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *Manifest) int { return cmp.Compare(b.level, a.level) })
	// Packages become folders and files: where case is folded, so are they.
	packages, aliases := map[string]*Manifest{}, map[string]*Manifest{}
	for _, m := range order {
		name := strings.ToLower(m.Package)
		if m.faulty {
			// What should have replaced a lower one must not let it run instead.
			if first := packages[name]; name != "" && first == nil {
				packages[name] = m
			}
			continue
		}
		if first := packages[name]; first != nil && (first.level > m.level || !first.faulty) {
			switch {
			case first.level > m.level && m.level == embedded:
				first.Warnings = append(first.Warnings, first.fault("package", "replaces the built-in manifest of %s", m.Package))
			case first.level > m.level:
			case first.foreign && m.foreign:
				first.Warnings = append(first.Warnings, first.fault("", "also in %s; the first is kept", m.position()))
			default:
				faults = append(faults, m.fault("package", "the package %s is already in %s, which is kept", m.Package, first.position()))
			}
			continue
		}
		packages[name] = m
		kept = append(kept, m)
	}
	kept = slices.DeleteFunc(kept, func(m *Manifest) bool {
		if m.Alias == "" {
			return false
		}
		alias := strings.ToLower(m.Alias)
		first := aliases[alias]
		if p := packages[alias]; first == nil && p != nil && p != m && !p.faulty {
			first = p
		}
		if first != nil {
			faults = append(faults, m.fault("alias", "the alias %s already names the server in %s, which is kept", m.Alias, first.position()))
			return true
		}
		aliases[alias] = m
		return false
	})
	sortByPackage(kept)
	return kept, faults
}

func sortByPackage(list []*Manifest) {
	slices.SortFunc(list, func(a, b *Manifest) int { return strings.Compare(a.Package, b.Package) })
}

func (m *Manifest) position() string { return fmt.Sprintf("%s:%d", m.Path, m.Line) }

func (m *Manifest) fault(key, format string, args ...any) *Fault {
	return &Fault{File: m.Path, Line: m.Line, Column: 1, Key: key, Message: fmt.Sprintf(format, args...)}
}

// discover lists the files to read in a fixed order, each once.
func discover(o Options) (sources []source, faults []*Fault) {
	seen := map[string]bool{}
	add := func(s source) {
		id := s.path
		if s.fsys == nil {
			if real, err := filepath.EvalSymlinks(s.path); err == nil {
				id = real
			}
		}
		if id = fmt.Sprint(s.fsys != nil, id); !seen[id] {
			seen[id] = true
			sources = append(sources, s)
		}
	}
	for _, list := range []struct {
		paths []string
		level level
		must  bool
	}{{o.Dirs, project, true}, {o.Project, project, false}, {o.User, user, false}} {
		for _, p := range list.paths {
			info, err := os.Stat(p)
			switch {
			case errors.Is(err, fs.ErrNotExist) && !list.must:
			case err != nil:
				faults = append(faults, &Fault{File: p, Message: reason(err)})
			case !info.IsDir():
				add(source{path: p, level: list.level, foreign: !list.must || isJSON(p)})
			default:
				names, err := scan(os.DirFS(p), list.must)
				if err != nil {
					faults = append(faults, &Fault{File: p, Message: reason(err)})
				}
				for _, name := range names {
					add(source{path: filepath.Join(p, name), level: list.level, foreign: isJSON(name)})
				}
			}
		}
	}
	if o.Embedded != nil {
		names, err := scan(o.Embedded, true)
		if err != nil {
			faults = append(faults, &Fault{File: "embedded manifests", Message: reason(err)})
		}
		for _, name := range names {
			add(source{path: name, fsys: o.Embedded, dir: o.EmbeddedDir, foreign: isJSON(name)})
		}
	}
	return sources, faults
}

// serverFiles are the names under which other hosts keep their servers.
var serverFiles = []string{".mcp.json", "mcp.json", "mcp.config.json", "settings.json", "claude_desktop_config.json"}

func isJSON(name string) bool { return strings.HasSuffix(name, ".json") }

// scan lists the files of a folder that hold servers, sorted.
func scan(fsys fs.FS, yaml bool) ([]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var names, apps []string
	own := ""
	for _, e := range entries {
		name := e.Name()
		switch {
		case slices.Contains(serverFiles, name):
			names = append(names, name)
		case !yaml || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, ".example"):
		case name == "manifest.yaml" || name == "manifest.yml":
			own = name
		case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
			apps = append(apps, name)
		default:
			for _, inner := range []string{"manifest.yaml", "manifest.yml"} {
				inner = path.Join(name, inner)
				if _, err := fs.Stat(fsys, inner); err == nil {
					apps = append(apps, inner)
					break
				}
			}
		}
	}
	if own != "" { // an app's own folder: the other files are the app's
		apps = []string{own}
	}
	names = append(names, apps...)
	slices.Sort(names)
	return names, nil
}

func (s source) load(o Options) ([]*Manifest, []*Fault) {
	data, dir, err := s.read()
	if err != nil {
		return nil, []*Fault{{File: s.path, Message: reason(err)}}
	}
	if s.foreign {
		return parseServers(s.path, dir, data, foreignOptions{lookup: o.Lookup, strict: o.Strict})
	}
	m, faults := parse(s.path, dir, data, o.Lookup)
	m.faulty = len(faults) > 0
	return []*Manifest{m}, faults
}

// read returns the file's content, one byte more than is allowed at most, and
// the absolute folder it is in.
func (s source) read() ([]byte, string, error) {
	if s.fsys != nil {
		data, err := fs.ReadFile(s.fsys, s.path)
		return data, s.dir, err
	}
	// A pipe would keep us waiting: it is not even opened.
	if info, err := os.Stat(s.path); err != nil {
		return nil, "", err
	} else if !info.Mode().IsRegular() {
		return nil, "", errors.New("not a regular file")
	}
	real, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		return nil, "", err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, "", err
	}
	f, err := os.Open(real)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strict.MaxSize+1))
	return data, filepath.Dir(real), err
}

// reason is an error of the file system without the path, which the fault has.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// join makes one error of faults, or nil of none.
func join(faults []*Fault) error {
	if len(faults) == 0 {
		return nil
	}
	e := &multierror.Error{ErrorFormat: func(errs []error) string {
		lines := make([]string, len(errs))
		for i, err := range errs {
			lines[i] = err.Error()
		}
		return strings.Join(lines, "\n")
	}}
	for _, f := range faults {
		e.Errors = append(e.Errors, f)
	}
	return e
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
