package manifest

import (
	"slices"
	"strings"
)

// Drift is how a server's live tools differ from the commands of its manifest.
// Both lists are sorted.
type Drift struct {
	Missing    []string `json:"missing,omitempty"`    // declared, not live
	Undeclared []string `json:"undeclared,omitempty"` // live, not declared
}

// None reports whether there is no difference.
func (d Drift) None() bool { return len(d.Missing) == 0 && len(d.Undeclared) == 0 }

// Drift compares the manifest's commands with the names of live tools. A command
// may be written with or without the package before it, and so may the tool. A
// manifest without commands declares nothing and so has no drift.
func (m *Manifest) Drift(live []string) Drift {
	var d Drift
	if len(m.Commands) == 0 {
		return d
	}
	declared := map[string]bool{}
	for _, c := range m.Commands {
		declared[m.bare(c.Name)] = true
	}
	present := map[string]bool{}
	for _, tool := range live {
		name := m.bare(tool)
		present[name] = true
		if !declared[name] {
			d.Undeclared = append(d.Undeclared, tool)
		}
	}
	for _, c := range m.Commands {
		if !present[m.bare(c.Name)] {
			d.Missing = append(d.Missing, c.Name)
		}
	}
	slices.Sort(d.Missing)
	slices.Sort(d.Undeclared)
	return d
}

// bare is a tool's name without the package before it.
func (m *Manifest) bare(tool string) string { return strings.TrimPrefix(tool, m.Package+".") }
