package appkit

import (
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// manifest is what an app needs to know of its own manifest.yaml. Other keys are
// for whoever runs the app and are not looked at here.
type manifest struct {
	Package  string `yaml:"package"`
	Name     string `yaml:"name"`
	Version  string `yaml:"version"`
	Commands []struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	} `yaml:"commands"`
}

// packageName is a dotted name whose parts are fit for tool names and folders.
var packageName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

func parseManifest(text []byte) (manifest, error) {
	var m manifest
	if err := yaml.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("reading the manifest: %w", err)
	}
	if !packageName.MatchString(m.Package) {
		return m, fmt.Errorf("the manifest's package %q is not a dotted name of letters, digits, _ and -", m.Package)
	}
	if m.Name == "" {
		m.Name = m.Package
	}
	return m, nil
}

// fullName is a tool's name with the package before it, once.
func (m manifest) fullName(tool string) string {
	return m.Package + "." + strings.TrimPrefix(tool, m.Package+".")
}
