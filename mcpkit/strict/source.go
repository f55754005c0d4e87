package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/aurorabot-dev/platform/mcpkit/strict/internal/jsonnode"
	"github.com/aurorabot-dev/platform/mcpkit/strict/internal/tomlnode"
)

// YAML parses one YAML document. What is wrong with the text is the first fault.
func YAML(file string, data []byte, opts Options) *Document {
	d := newDocument(file, data, opts)
	if len(d.Faults) > 0 {
		return d
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0: // nothing but comments
		d.Root = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}
		return d
	case err != nil:
		d.fault(yamlFault(file, data, err))
		return d
	}
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.fault(yamlFault(file, data, err))
		return d
	default:
		d.FaultNode(&next, "", "put each in a file of its own", "a second document begins here")
		return d
	}
	d.Root = doc.Content[0]
	return d
}

// JSON parses one JSON document. Comments and trailing commas, which editors
// allow in their settings, are skipped.
func JSON(file string, data []byte, opts Options) *Document {
	d := newDocument(file, data, opts)
	if len(d.Faults) > 0 {
		return d
	}
	root, err := jsonnode.Parse(data, maxDepth)
	if e, ok := errors.AsType[*jsonnode.Error](err); ok {
		d.fault(&Fault{File: file, Line: e.Line, Column: e.Column, Message: e.Message})
		return d
	}
	d.Root = root
	return d
}

// TOML parses one TOML document.
func TOML(file string, data []byte, opts Options) *Document {
	d := newDocument(file, data, opts)
	if len(d.Faults) > 0 {
		return d
	}
	root, err := tomlnode.Parse(data)
	if e, ok := errors.AsType[*tomlnode.Error](err); ok {
		d.fault(&Fault{File: file, Line: e.Line, Column: e.Column, Message: e.Message})
		return d
	}
	d.Root = root
	return d
}

func newDocument(file string, data []byte, opts Options) *Document {
	d := &Document{File: file, opts: opts, positions: map[string]position{}}
	if len(data) > MaxSize {
		d.fault(&Fault{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("the file is larger than %d bytes", MaxSize)})
	}
	return d
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(?s:(.*))$`)

// yamlFault turns the parser's text into a position and a sentence.
func yamlFault(file string, data []byte, err error) *Fault {
	m := yamlLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1])
	f := &Fault{File: file, Line: max(line, 1), Column: 1, Message: m[2]}
	for i, text := range bytes.Split(data, []byte("\n")) {
		if trimmed := bytes.TrimLeft(text, " "); bytes.HasPrefix(trimmed, []byte("\t")) && line > 0 && i+1 >= line-1 && i <= line {
			f.Hint = "YAML is indented with spaces, not with tabs"
		}
	}
	return f
}
