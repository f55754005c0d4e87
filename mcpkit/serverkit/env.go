package serverkit

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// baseEnv are the variables that a child gets without its manifest asking for
// them: where things are, which language to speak, how to reach the network.
// TERM is left out, as nobody looks at a server through a terminal.
var baseEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR",
	"LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"npm_config_cache", "npm_config_cafile", "npm_config_prefix", "npm_config_registry", "npm_config_userconfig",
	"NPM_CONFIG_CACHE", "NPM_CONFIG_CAFILE", "NPM_CONFIG_PREFIX", "NPM_CONFIG_REGISTRY", "NPM_CONFIG_USERCONFIG",
	"PIP_INDEX_URL", "UV_CACHE_DIR", "UV_DEFAULT_INDEX",
}

// BaseEnv returns the part of an environment that every child may see, as
// KEY=VALUE, read through lookup (os.LookupEnv). It is an allowlist by exact
// name; a proxy or registry address that carries a user name or password is
// left out too. Everything else a server needs its manifest gives it.
func BaseEnv(lookup func(string) (string, bool)) []string {
	var env []string
	for _, key := range baseEnv {
		if v, ok := lookup(key); ok && !hasCredentials(key, v) {
			env = append(env, key+"="+v)
		}
	}
	return env
}

// hasCredentials reports whether the value of key is an address with a user
// part. One that does not parse but looks like it counts as well: proxies are
// also written without a scheme.
func hasCredentials(key, v string) bool {
	if u, err := url.Parse(v); err == nil && u.Host != "" {
		return u.User != nil
	}
	isAddress := strings.Contains(v, "://") || strings.HasSuffix(strings.ToLower(key), "_proxy")
	return isAddress && strings.Contains(v, "@")
}

// ResolveCommand returns the absolute path of the program that name means.
// A name with a slash is taken relative to dir. A bare name is looked for in
// exeDir first, so that apps installed beside the platform are found, then in
// the absolute folders of path. The error names everything that was searched,
// and wraps exec.ErrNotFound or fs.ErrPermission.
func ResolveCommand(name, dir, path, exeDir string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("the command is empty: %w", exec.ErrNotFound)
	}
	if strings.Contains(name, "/") {
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		err := executable(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", missingProgram(file)
		case err != nil:
			return "", fmt.Errorf("command %q (%s): %w", name, file, err)
		}
		return filepath.Clean(file), nil
	}
	var denied error
	for _, folder := range append([]string{exeDir}, filepath.SplitList(path)...) {
		if !filepath.IsAbs(folder) {
			continue // a relative entry would mean another program in every folder
		}
		file := filepath.Join(folder, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if denied == nil && errors.Is(err, fs.ErrPermission) {
			denied = fmt.Errorf("command %q (%s): %w", name, file, err)
		}
	}
	if denied != nil {
		return "", denied
	}
	if why := ofWindows(name); why != "" {
		return "", fmt.Errorf("command %q is for Windows: %s: %w", name, why, exec.ErrNotFound)
	}
	return "", fmt.Errorf("command %q is neither beside the platform (%s) nor in PATH (%s): %w", name, exeDir, path, exec.ErrNotFound)
}

// missingProgram is the path of a program that is not there.
type missingProgram string

func (p missingProgram) Error() string {
	return fmt.Sprintf("there is no program %s: build or install it, or mend the command", string(p))
}

func (p missingProgram) Unwrap() error { return exec.ErrNotFound }

// ofWindows says what to write in place of a command that only Windows has; empty for
// any other command.
func ofWindows(name string) string {
	lower := strings.ToLower(name)
	base := lower[strings.LastIndexAny(lower, `\`)+1:]
	ending := filepath.Ext(base)
	bare := strings.TrimSuffix(base, ending)
	switch {
	case base == "cmd" || base == "cmd.exe":
		return "leave it and its /c out, and begin with the word after them"
	case base == "powershell" || base == "powershell.exe" || base == "pwsh.exe":
		return "write the program that it starts, with its arguments"
	case slices.Contains([]string{".cmd", ".exe", ".bat", ".ps1"}, ending):
		return "write " + bare
	case len(lower) > 2 && lower[1] == ':' && lower[2] == '\\' && lower[0] >= 'a' && lower[0] <= 'z':
		return "write the program's name, or where it is on this machine"
	}
	return ""
}

// executable returns nil if file is a regular file that somebody may execute.
func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("is a directory: %w", exec.ErrNotFound)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("is not executable: %w", fs.ErrPermission)
	}
	return nil
}
