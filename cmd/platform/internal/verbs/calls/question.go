package calls

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// showQuestion says who asks what.
func showQuestion(c *cli.Env, to *console.Console, in signal.Input, q signal.Question) {
	to.Printf("%s %s asks: %s\n", to.Paint(console.Yellow, "?"), console.Safe(in.Server), strings.TrimRight(cli.SafeText(q.Message), "\n"))
	if q.Kind == ask.URLQuestion {
		to.Printf("  on a page of %s\n  %s\n", to.Paint(console.Bold, console.Safe(q.Host)), console.Safe(q.URL))
	}
	if q.Warning != "" {
		to.Printf("  %s\n", to.Paint(console.Red, "careful: "+console.Safe(q.Warning)))
	}
}

// askPerson puts questions to the person at the terminal. The end of input is
// nobody's answer.
func askPerson(c *cli.Env, in signal.Input) (ask.Replies, error) {
	lines := bufio.NewReader(c.In)
	replies := ask.Replies{}
	for _, q := range in.Questions {
		showQuestion(c, c.Err, in, q)
		r, err := askOne(c, lines, q)
		if errors.Is(err, io.EOF) {
			r, err = ask.Reply{Action: ask.Cancel}, nil
		}
		if err != nil {
			return nil, err
		}
		replies[q.ID] = r
	}
	return replies, nil
}

// line is what the person types, without blanks around it.
func line(c *cli.Env, from *bufio.Reader, prompt string) (string, error) {
	c.Err.Printf("%s ", prompt)
	text, err := from.ReadString('\n')
	if err != nil && text == "" {
		return "", err
	}
	return strings.TrimSpace(text), nil
}

func askOne(c *cli.Env, from *bufio.Reader, q signal.Question) (ask.Reply, error) {
	prompt := "  answer it? [y/n]"
	if q.Kind == ask.URLQuestion {
		prompt = "  have you been there, and is it done? Nothing is opened for you. [y/n]"
	}
	for {
		text, err := line(c, from, prompt)
		if err != nil {
			return ask.Reply{}, err
		}
		switch strings.ToLower(text) {
		case "n", "no":
			return ask.Reply{Action: ask.Decline}, nil
		case "y", "yes":
			if q.Kind != ask.FormQuestion {
				return ask.Reply{Action: ask.Accept}, nil
			}
			content, err := fill(c, from, q.Schema)
			return ask.Reply{Action: ask.Accept, Content: content}, err
		}
	}
}

// formField is one field of a form as a person is asked for it.
type formField struct {
	name        string
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Enum        []string        `json:"enum"`
	OneOf       []constant      `json:"oneOf"`
	Items       struct {
		Enum  []string   `json:"enum"`
		AnyOf []constant `json:"anyOf"`
	} `json:"items"`
}

type constant struct{ Const, Title string }

// choices are the values that a field may have, if they are given.
func (f formField) choices() []string {
	list := append(slices.Clone(f.Enum), f.Items.Enum...)
	for _, c := range append(slices.Clone(f.OneOf), f.Items.AnyOf...) {
		list = append(list, c.Const)
	}
	return list
}

// formFields are the fields of a form in the order in which the server wrote them.
func formFields(schema json.RawMessage) (fields []formField, required []string, err error) {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(s.Properties))
	if _, err := dec.Token(); err != nil { // the brace; no properties are io.EOF
		return nil, s.Required, nil
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		f := formField{}
		if err := dec.Decode(&f); err != nil {
			return nil, nil, err
		}
		f.name = fmt.Sprint(name)
		fields = append(fields, f)
	}
	return fields, s.Required, nil
}

// fill asks for each field of a form. The platform checks the whole.
func fill(c *cli.Env, from *bufio.Reader, schema json.RawMessage) (json.RawMessage, error) {
	fields, required, err := formFields(schema)
	if err != nil {
		return nil, fmt.Errorf("reading the form: %w", err)
	}
	content := map[string]json.RawMessage{}
	for _, f := range fields {
		label := f.name
		if f.Title != "" {
			label = f.Title
		}
		if f.Description != "" {
			c.Err.Printf("  %s\n", c.Err.Paint(console.Dim, console.Safe(f.Description)))
		}
		if list := f.choices(); len(list) > 0 {
			label += " (" + strings.Join(list, ", ") + ")"
		}
		if f.Default != nil {
			label += " [" + string(f.Default) + "]"
		}
		for {
			text, err := line(c, from, "  "+console.Safe(label)+":")
			if err != nil {
				return nil, err
			}
			if text == "" && f.Default != nil {
				content[f.name] = f.Default
				break
			}
			if text == "" && !slices.Contains(required, f.name) {
				break
			}
			value, err := f.value(text)
			if err == nil {
				content[f.name] = value
				break
			}
			c.Err.Printf("  %s\n", console.Safe(err.Error()))
		}
	}
	return json.Marshal(content)
}

// value makes of what was typed what the field's type wants.
func (f formField) value(text string) (json.RawMessage, error) {
	list := f.choices()
	known := func(s string) error {
		if len(list) > 0 && !slices.Contains(list, s) {
			return fmt.Errorf("choose of %s", strings.Join(list, ", "))
		}
		return nil
	}
	switch f.Type {
	case "boolean":
		switch strings.ToLower(text) {
		case "y", "yes", "true":
			return json.RawMessage("true"), nil
		case "n", "no", "false":
			return json.RawMessage("false"), nil
		}
		return nil, errors.New("say yes or no")
	case "integer", "number":
		if _, err := strconv.ParseFloat(text, 64); err != nil || !json.Valid([]byte(text)) {
			return nil, errors.New("that is no number")
		}
		return json.RawMessage(text), nil
	case "array":
		var parts []string
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if err := known(part); err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
		return json.Marshal(parts)
	}
	if err := known(text); err != nil {
		return nil, err
	}
	return json.Marshal(text)
}
