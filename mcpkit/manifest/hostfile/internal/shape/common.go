package shape

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// same are the keys that hosts have for what is called otherwise here. Of several in
// one entry the first of this list counts.
var same = []struct{ alias, key string }{
	{"cmd", "command"}, {"envs", "env"}, {"environment", "env"},
	{"serverUrl", "url"}, {"httpUrl", "url"}, {"uri", "url"}, {"baseUrl", "url"}, {"http_headers", "headers"},
	{"transport", "type"}, {"transportType", "type"}, {"isActive", "enabled"}, {"active", "enabled"}, {"working_directory", "cwd"}, {"workingDirectory", "cwd"},
	{"envFile", "env_file"},
	{"excludeTools", "exclude_tools"}, {"disabledTools", "exclude_tools"}, {"disabled_tools", "exclude_tools"},
	{"includeTools", "include_tools"}, {"enabledTools", "include_tools"}, {"enabled_tools", "include_tools"},
	{"available_tools", "include_tools"}, {"tools", "include_tools"},
}

// times are the keys with a time, the manifest's key for it, which is empty where it
// depends on the host, and the milliseconds that one of the host's units has; 0 where a
// host's unit is told by the number's size.
var times = map[string]struct {
	key  string
	unit float64
}{
	"timeout": {"", 0}, "tool_timeout_sec": {"call_timeout", 1000},
	"initTimeout": {"health_timeout", 1}, "startup_timeout_sec": {"health_timeout", 1000}, "startup_timeout_ms": {"health_timeout", 1},
}

// Common rewrites an entry of the list in place. Its notes say what was understood
// otherwise than it is written.
func (l List) Common(entry *yaml.Node) (notes []string) {
	if entry.Kind != yaml.MappingNode {
		return nil
	}
	if command := Get(entry, "command"); command != nil && command.Kind == yaml.MappingNode { // Zed, once
		remove(entry, "command")
		for key, value := range Members(command) {
			if key.Value == "path" {
				key.Value = "command"
			}
			entry.Content = append(entry.Content, key, value)
		}
	}
	if options := Get(entry, "requestOptions"); options != nil { // Continue
		if headers := Get(options, "headers"); headers != nil {
			set(entry, options, "headers", headers)
			remove(entry, "requestOptions")
		}
	}
	for _, k := range same {
		rename(entry, k.alias, k.key)
	}
	references(entry)
	if all := Get(entry, "include_tools"); all != nil {
		if names := texts(all); len(names) == 1 && names[0] == "*" || len(names) == 0 {
			remove(entry, "include_tools") // all of them
		}
	}
	for name, t := range times {
		value := Get(entry, name)
		if value == nil || value.Kind != yaml.ScalarNode {
			continue
		}
		n, err := strconv.ParseFloat(value.Value, 64)
		if err != nil || n <= 0 {
			continue
		}
		remove(entry, name)
		unit := t.unit
		if unit == 0 {
			unit = 1000
			if n >= 1000 { // nobody waits for that many seconds
				unit = 1
			}
		}
		ms := int64(n * unit)
		key := cmp.Or(t.key, l.Timeout)
		if Get(entry, key) == nil {
			set(entry, value, key, text(fmt.Sprintf("%dms", ms)))
		}
		if t.unit == 0 {
			notes = append(notes, fmt.Sprintf("%s: %s is taken for %g s", name, value.Value, float64(ms)/1000))
		}
	}
	authorize(entry)
	return notes
}

// references puts variables in the places of keys that name them.
func references(entry *yaml.Node) {
	if name := Get(entry, "bearer_token_env_var"); name != nil { // Codex
		set(entry, name, "headers.Authorization", text("Bearer ${"+name.Value+"}"))
		remove(entry, "bearer_token_env_var")
	}
	for header, name := range Members(Get(entry, "env_http_headers")) { // Codex
		set(entry, name, "headers."+header.Value, text("${"+name.Value+"}"))
	}
	remove(entry, "env_http_headers")
	for _, key := range []string{"env_vars", "env_keys"} { // Codex; Goose
		for _, name := range texts(Get(entry, key)) {
			if Get(Get(entry, "env"), name) == nil {
				set(entry, entry, "env."+name, text("${"+name+"}"))
			}
		}
		remove(entry, key)
	}
}

// authorize takes over a client that is registered already.
func authorize(entry *yaml.Node) {
	oauth := Get(entry, "oauth")
	if oauth == nil {
		return
	}
	for from, to := range map[string]string{
		"clientId": "client_id", "client_id": "client_id", "clientSecret": "client_secret", "client_secret": "client_secret",
		"scopes": "scopes", "callbackPort": "redirect_port",
	} {
		if value := Get(oauth, from); value != nil && (to != "scopes" || value.Kind == yaml.SequenceNode) {
			set(entry, value, "auth."+to, value)
		}
	}
	remove(entry, "oauth")
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// set adds a member, at a key or at a member of a key ("env.NAME"), in the place of near.
// One that is there stays.
func set(entry, near *yaml.Node, path string, value *yaml.Node) {
	value.Line, value.Column = near.Line, near.Column
	key, inner, nested := strings.Cut(path, ".")
	if nested {
		at := Get(entry, key)
		if at == nil {
			at = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			set(entry, near, key, at)
		}
		entry, key = at, inner
	}
	if entry.Kind == yaml.MappingNode && Get(entry, key) == nil {
		name := text(key)
		name.Line, name.Column = near.Line, near.Column
		entry.Content = append(entry.Content, name, value)
	}
}

func remove(entry *yaml.Node, name string) {
	for i := 0; i+1 < len(entry.Content); i += 2 {
		if entry.Content[i].Value == name {
			entry.Content = append(entry.Content[:i:i], entry.Content[i+2:]...)
			return
		}
	}
}

// rename gives a member another key. Where there is one of that key, it counts; of two
// mappings the members of both.
func rename(entry *yaml.Node, alias, key string) {
	value, there := Get(entry, alias), Get(entry, key)
	switch {
	case value == nil:
		return
	case there == nil:
		for name := range Members(entry) {
			if name.Value == alias {
				name.Value = key
			}
		}
		return
	}
	remove(entry, alias)
	for name, v := range Members(value) {
		if there.Kind == yaml.MappingNode && Get(there, name.Value) == nil {
			there.Content = append(there.Content, name, v)
		}
	}
}
