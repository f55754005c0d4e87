// Package headers is what the messages of MCP repeat in the headers of HTTP: the
// names of the headers, the values that come from a message, and the arguments of
// tools that are bound to headers of their own (2026-07-28, SEP-2243).
//
//	bound, reasons := headers.Bind(tools)
//	bound.Describe(r.Header, "tools/call", params)
//
// It reads messages and sends nothing. When a header is sent, and which version
// of the protocol wants it, is the affair of the wire.
package headers

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
)

// The headers of Streamable HTTP, as [http.Header] spells them.
const (
	Version   = "Mcp-Protocol-Version"
	Session   = "Mcp-Session-Id"
	LastEvent = "Last-Event-Id"
	Method    = "Mcp-Method"
	Name      = "Mcp-Name"
	Param     = "Mcp-Param-" // and what a tool calls the argument
)

// Bound are the arguments that are repeated in headers, by tool.
type Bound map[string][]binding

type binding struct {
	path   []string // of members, from the arguments on
	header string   // after Param
}

// Bind reads a list of tools, as raw objects. The reasons say of each why its
// x-mcp-header is wrong, so that the tool must not be offered, or "".
func Bind(tools []json.RawMessage) (bound Bound, reasons []string) {
	bound, reasons = Bound{}, make([]string, len(tools))
	for i, raw := range tools {
		found, err := collect(nil, jsontext.Get(raw, "inputSchema"), nil, map[string]bool{})
		if err != nil {
			reasons[i] = "x-mcp-header of " + err.Error()
			continue
		}
		if name := jsontext.String(jsontext.Get(raw, "name")); len(found) > 0 && bound[name] == nil {
			bound[name] = found
		}
	}
	return bound, reasons
}

// maxNesting bounds how deep properties are looked at.
const maxNesting = 32

// collect adds the annotations of a schema's properties, at any depth, to found.
func collect(found []binding, schema []byte, path []string, seen map[string]bool) (_ []binding, err error) {
	if len(path) > maxNesting {
		return found, nil
	}
	jsontext.Members(jsontext.Get(schema, "properties"), func(name, property []byte) bool {
		at := append(path[:len(path):len(path)], string(name))
		if raw := jsontext.Get(property, "x-mcp-header"); raw != nil {
			header := jsontext.String(raw)
			switch kind := jsontext.String(jsontext.Get(property, "type")); {
			case kind != "string" && kind != "integer" && kind != "boolean":
				err = fmt.Errorf("%s: only strings, integers and booleans can have it", strings.Join(at, "."))
			case !token(header):
				err = fmt.Errorf("%s: it is not the name of a header", strings.Join(at, "."))
			case seen[strings.ToLower(header)]:
				err = fmt.Errorf("%s: another property has the same", strings.Join(at, "."))
			}
			if err != nil {
				return false
			}
			seen[strings.ToLower(header)] = true
			found = append(found, binding{at, header})
		}
		found, err = collect(found, property, at, seen)
		return err == nil
	})
	return found, err
}

// Describe sets the headers that repeat what a request says.
func (b Bound) Describe(h http.Header, method string, params []byte) {
	h.Set(Method, method)
	switch method {
	case "tools/call":
		name := jsontext.String(jsontext.Get(params, "name"))
		h.Set(Name, encode(name))
		arguments := jsontext.Get(params, "arguments")
		for _, arg := range b[name] {
			value := arguments
			for _, member := range arg.path {
				value = jsontext.Get(value, member)
			}
			if v, ok := primitive(value); ok {
				h.Set(Param+arg.header, encode(v))
			}
		}
	case "prompts/get":
		h.Set(Name, encode(jsontext.String(jsontext.Get(params, "name"))))
	case "resources/read":
		h.Set(Name, encode(jsontext.String(jsontext.Get(params, "uri"))))
	}
}

// primitive is a string, a boolean or an integer that every JSON reader takes
// for the same, as the text of a header.
func primitive(raw []byte) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		return jsontext.String(raw), true
	case 't', 'f':
		return string(raw), true
	case 'n', '{', '[':
		return "", false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53-1 {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

const base64Open, base64Close = "=?base64?", "?="

// encode makes a header's value of text that may be anything.
func encode(s string) string {
	plain := strings.Trim(s, " \t") == s && !(strings.HasPrefix(s, base64Open) && strings.HasSuffix(s, base64Close))
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] <= 0x7e
	}
	if plain {
		return s
	}
	return base64Open + base64.StdEncoding.EncodeToString([]byte(s)) + base64Close
}

// token reports whether s is one (RFC 9110, section 5.6.2).
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// Check refuses what must not be sent to a server.
func Check(h http.Header) error {
	for name, values := range h {
		if !token(name) {
			return fmt.Errorf("%q is not the name of a header", name)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return errors.New("the header " + name + " holds control characters")
			}
		}
	}
	return nil
}
