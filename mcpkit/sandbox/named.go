package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Named are the files and folders of the machine that the argv of a server names, and
// what belongs to them: a file is given with the package that it is part of. Relative
// words start from dir. Home is the real home; neither it nor a folder above it is a
// package. A folder that argv names is given whole.
func Named(argv []string, dir, home string) (paths []string) {
	for _, word := range argv {
		if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
			word = value // --config=/etc/x
		}
		if word == "" || strings.HasPrefix(word, "-") {
			continue
		}
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		info, err := os.Stat(path)
		switch {
		case err != nil || path == "/":
		case info.Mode().IsRegular():
			paths = append(paths, packageOf(path, home))
		case info.IsDir() && (filepath.IsAbs(word) || strings.Contains(word, "/")):
			paths = append(paths, filepath.Clean(path))
		}
	}
	return paths
}

// marks are files whose folder is a package of a language, with all that is below it.
var marks = []string{"package.json", "pyproject.toml", "pyvenv.cfg", "setup.py", "deno.json"}

// packageOf is the folder of the package that a file is part of, or the file.
func packageOf(file, home string) string {
	if i := strings.Index(file, "/node_modules/"); i >= 0 {
		return file[:i] + "/node_modules"
	}
	for dir := filepath.Dir(file); dir != "/" && !within(home, dir); dir = filepath.Dir(dir) {
		if slices.ContainsFunc(marks, func(mark string) bool { _, err := os.Stat(filepath.Join(dir, mark)); return err == nil }) {
			return dir
		}
	}
	return file
}

// ofProgram is what a program needs beside its own file: where it is in a folder of
// programs, that folder, and the libraries beside it, as version managers lay them out.
// The same holds for what the file is a link to.
func ofProgram(file, home string) (paths []string) {
	if file == "" {
		return nil
	}
	for _, f := range []string{file, realPath(file)} {
		paths = append(paths, packageOf(f, home))
		dir := filepath.Dir(f)
		prefix := filepath.Dir(dir)
		if base := filepath.Base(dir); base != "bin" && base != "shims" || prefix == "/" {
			continue
		}
		paths = append(paths, dir)
		if within(home, prefix) {
			continue
		}
		for _, sub := range []string{"lib", "lib64", "libexec", "versions", "plugins", "pyvenv.cfg", "version"} {
			if _, err := os.Stat(filepath.Join(prefix, sub)); err == nil {
				paths = append(paths, filepath.Join(prefix, sub))
			}
		}
	}
	return paths
}
