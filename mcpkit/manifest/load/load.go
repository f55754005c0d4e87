// Package load finds the manifests of the folders, files and program it is
// given, reads them, and decides between those that stand for one package or
// one alias. It keeps what ran before in the place of what a bad edit spoilt.
//
//	list, err := load.Manifests(load.Options{Dirs: []string{"manifests"}, Lookup: os.LookupEnv})
//	list = load.Keep(before, list, err)
//
// What a file means is the business of packages manifest and hostfile, and when
// it changes that of package watch.
package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joho/godotenv"

	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/manifest/hostfile"
	"github.com/aurorabot-dev/platform/mcpkit/smallfile"
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

// source is a file that may hold servers.
type source struct {
	path    string // as it was found, for people
	level   manifest.Level
	foreign bool // of another host
	named   bool // by a person, and not found in a folder
	fsys    fs.FS
	dir     string // of an embedded file
}

// Manifests reads every manifest there is. It returns the good ones, sorted by
// package, and an error that joins every *manifest.Fault of the rest;
// [manifest.Faults] takes it apart. Of two manifests of one level with the same package or alias the first
// is kept and the second is a fault.
func Manifests(o Options) ([]*manifest.Manifest, error) {
	sources, faults := discover(o)
	var all []*manifest.Manifest
	for _, src := range sources {
		found, bad := src.load(o)
		for _, m := range found {
			m.Level, m.Shared = src.level, src.foreign
		}
		all, faults = append(all, found...), append(faults, bad...)
	}
	kept, bad := choose(all)
	return kept, manifest.Join(append(faults, bad...))
}

// Files are the files that Manifests would read, sorted, with links resolved, and
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

// Keep is what should run after a reload: what was loaded now and, for every
// source that is at fault now, the servers that it gave before. So a bad edit
// leaves the running version in place until it is mended or the file is gone. One
// whose alias another server has taken meanwhile is not kept.
func Keep(before, now []*manifest.Manifest, err error) []*manifest.Manifest {
	faults := manifest.Faults(err)
	out := slices.Clone(now)
	for _, old := range before {
		taken := func(m *manifest.Manifest) bool {
			return !strings.EqualFold(m.Package, old.Package) && old.Alias != "" &&
				(strings.EqualFold(m.Alias, old.Alias) || strings.EqualFold(m.Package, old.Alias))
		}
		if !slices.ContainsFunc(faults, spoils(old)) || slices.ContainsFunc(out, taken) {
			continue
		}
		same := func(m *manifest.Manifest) bool { return strings.EqualFold(m.Package, old.Package) }
		if i := slices.IndexFunc(out, same); i < 0 {
			out = append(out, old)
		} else if out[i].Level < old.Level {
			out[i] = old
		}
	}
	sortByPackage(out)
	return out
}

// spoils finds a fault that may be why m is no longer loaded.
func spoils(m *manifest.Manifest) func(*manifest.Fault) bool {
	return func(f *manifest.Fault) bool { return spoiledBy(m, f) }
}

// spoiledBy reports whether the fault may be why m is no longer loaded.
func spoiledBy(m *manifest.Manifest, f *manifest.Fault) bool {
	if f.Line == 0 && strings.HasPrefix(m.Path, strings.TrimSuffix(f.File, "/")+"/") {
		return true // its whole folder cannot be read
	}
	if f.File != m.Path {
		return false
	}
	if !m.Shared {
		return true
	}
	// A fault of one entry says nothing about its neighbours.
	_, entry, one := strings.Cut(f.Key, "ervers.")
	return !one || entry == m.Name || strings.HasPrefix(entry, m.Name+".") || strings.HasPrefix(entry, m.Name+"[")
}

// choose keeps of all manifests the good ones that do not get in each other's way.
func choose(all []*manifest.Manifest) (kept []*manifest.Manifest, faults []*manifest.Fault) {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *manifest.Manifest) int { return cmp.Compare(b.Level, a.Level) })
	// Packages become folders and files: where case is folded, so are they.
	packages, aliases := map[string]*manifest.Manifest{}, map[string]*manifest.Manifest{}
	for _, m := range order {
		name := strings.ToLower(m.Package)
		if m.Faulty {
			// What should have replaced a lower one must not let it run instead.
			if first := packages[name]; name != "" && first == nil {
				packages[name] = m
			}
			continue
		}
		if first := packages[name]; first != nil && (first.Level > m.Level || !first.Faulty) {
			switch {
			case first.Level > m.Level && m.Level == manifest.Embedded:
				first.Warnings = append(first.Warnings, fault(first, "package", "replaces the built-in manifest of %s", m.Package))
			case first.Level > m.Level:
			case first.Shared && m.Shared:
				first.Warnings = append(first.Warnings, fault(first, "", "also in %s; the first is kept", position(m)))
			default:
				faults = append(faults, fault(m, "package", "the package %s is already in %s, which is kept", m.Package, position(first)))
			}
			continue
		}
		packages[name] = m
		kept = append(kept, m)
	}
	kept = slices.DeleteFunc(kept, func(m *manifest.Manifest) bool {
		if m.Alias == "" {
			return false
		}
		alias := strings.ToLower(m.Alias)
		first := aliases[alias]
		if p := packages[alias]; first == nil && p != nil && p != m && !p.Faulty {
			first = p
		}
		if first != nil {
			faults = append(faults, fault(m, "alias", "the alias %s already names the server in %s, which is kept", m.Alias, position(first)))
			return true
		}
		aliases[alias] = m
		return false
	})
	sortByPackage(kept)
	return kept, faults
}

func sortByPackage(list []*manifest.Manifest) {
	slices.SortFunc(list, func(a, b *manifest.Manifest) int { return strings.Compare(a.Package, b.Package) })
}

func position(m *manifest.Manifest) string { return fmt.Sprintf("%s:%d", m.Path, m.Line) }

func fault(m *manifest.Manifest, key, format string, args ...any) *manifest.Fault {
	return &manifest.Fault{File: m.Path, Line: m.Line, Column: 1, Key: key, Message: fmt.Sprintf(format, args...)}
}

// discover lists the files to read in a fixed order, each once.
func discover(o Options) (sources []source, faults []*manifest.Fault) {
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
		level manifest.Level
		must  bool
	}{{o.Dirs, manifest.Project, true}, {o.Project, manifest.Project, false}, {o.User, manifest.User, false}} {
		for _, p := range list.paths {
			info, err := os.Stat(p)
			switch {
			case errors.Is(err, fs.ErrNotExist) && !list.must:
			case err != nil:
				faults = append(faults, &manifest.Fault{File: p, Message: reason(err)})
			case !info.IsDir():
				add(source{path: p, level: list.level, foreign: !list.must || isForeign(p), named: list.must})
			default:
				names, err := scan(os.DirFS(p), list.must)
				if err != nil {
					faults = append(faults, &manifest.Fault{File: p, Message: reason(err)})
				}
				for _, name := range names {
					add(source{path: filepath.Join(p, name), level: list.level, foreign: isForeign(name)})
				}
			}
		}
	}
	if o.Embedded != nil {
		names, err := scan(o.Embedded, true)
		if err != nil {
			faults = append(faults, &manifest.Fault{File: "embedded manifests", Message: reason(err)})
		}
		for _, name := range names {
			add(source{path: name, fsys: o.Embedded, dir: o.EmbeddedDir, foreign: isForeign(name)})
		}
	}
	return sources, faults
}

// serverFiles are the names under which other hosts keep their servers.
var serverFiles = []string{".mcp.json", "mcp.json", "mcp.config.json", "settings.json", "claude_desktop_config.json"}

// isForeign reports whether a file is of another host: a manifest is written in YAML.
func isForeign(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".toml")
}

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

func (s source) load(o Options) ([]*manifest.Manifest, []*manifest.Fault) {
	data, dir, err := s.read()
	if err != nil {
		return nil, []*manifest.Fault{{File: s.path, Message: reason(err)}}
	}
	var all []*manifest.Manifest
	var faults []*manifest.Fault
	if s.foreign {
		all, faults = hostfile.Parse(s.path, dir, data, o.Lookup, o.Strict)
	} else {
		m, wrong := manifest.Read(s.path, dir, data, o.Lookup)
		m.Faulty = len(wrong) > 0
		all, faults = []*manifest.Manifest{m}, wrong
	}
	for _, m := range all {
		if m.MCP.EnvFile == "" || m.Faulty {
			continue
		}
		if f := readEnvFile(m); f != nil {
			m.Faulty = true
			faults = append(faults, f)
		}
	}
	if len(all)+len(faults) == 0 && s.named {
		faults = append(faults, &manifest.Fault{File: s.path, Message: "no servers in it", Hint: hostfile.Known})
	}
	return all, faults
}

// maxEnvFile bounds a file of environment, in bytes.
const maxEnvFile = 1 << 20

// readEnvFile puts what the manifest's env_file says into its environment, where env
// does not say otherwise. No fault shows what the file holds.
func readEnvFile(m *manifest.Manifest) *manifest.Fault {
	path := m.MCP.EnvFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(m.Dir, path)
	}
	wrong := func(message string) *manifest.Fault {
		f := fault(m, "mcp.env_file", "%s: %s", m.MCP.EnvFile, message)
		if m.Shared {
			f.Key = "servers." + m.Name + ".env_file"
		}
		return f
	}
	data, err := smallfile.Read(path, maxEnvFile, 0)
	if errors.Is(err, fs.ErrNotExist) && m.Disabled {
		return nil
	}
	if err != nil {
		return wrong(reason(err))
	}
	values, err := godotenv.UnmarshalBytes(data)
	if err != nil {
		return wrong("it has a line that is not NAME=VALUE")
	}
	if m.MCP.Env == nil {
		m.MCP.Env = make(map[string]string)
	}
	for name, value := range values {
		if _, there := m.MCP.Env[name]; !there {
			m.MCP.Env[name] = value
		}
	}
	return nil
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
