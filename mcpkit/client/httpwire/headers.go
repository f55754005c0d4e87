package httpwire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
)

const (
	headerVersion   = "Mcp-Protocol-Version"
	headerSession   = "Mcp-Session-Id"
	headerLastEvent = "Last-Event-Id"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerParam     = "Mcp-Param-"

	metaVersion = "io.modelcontextprotocol/protocolVersion"
)

// stateless is the version from which on a request stands for itself: its body
// says who asks, its headers repeat what it is, and there are no sessions
// (2026-07-28, basic/transports: Streamable HTTP).
const stateless = "2026-07-28"

// bindings are the arguments of one tool that are repeated in headers.
type bindings []binding

type binding struct {
	path   []string // of members, from the arguments on
	header string   // after Mcp-Param-
}

// Tools is told of each reading of the server's list of tools, as raw objects.
// It returns for each why it cannot be called over this wire, or "": under the
// stateless protocol a tool whose x-mcp-header is wrong must not be offered
// (2026-07-28, SEP-2243).
func (w *Wire) Tools(list []json.RawMessage) []string {
	reasons := make([]string, len(list))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version < stateless {
		return reasons
	}
	w.params = map[string]bindings{}
	for i, raw := range list {
		var found bindings
		seen := map[string]bool{}
		if err := found.collect(jsonline.Get(raw, "inputSchema"), nil, seen); err != nil {
			reasons[i] = "x-mcp-header of " + err.Error()
			continue
		}
		if name := text(jsonline.Get(raw, "name")); len(found) > 0 && w.params[name] == nil {
			w.params[name] = found
		}
	}
	return reasons
}

// maxNesting bounds how deep properties are looked at.
const maxNesting = 32

// collect adds the annotations of a schema's properties, at any depth.
func (b *bindings) collect(schema []byte, path []string, seen map[string]bool) (err error) {
	if len(path) > maxNesting {
		return nil
	}
	jsonline.Members(jsonline.Get(schema, "properties"), func(name, property []byte) bool {
		at := append(path[:len(path):len(path)], string(name))
		if raw := jsonline.Get(property, "x-mcp-header"); raw != nil {
			header := text(raw)
			switch kind := text(jsonline.Get(property, "type")); {
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
			*b = append(*b, binding{at, header})
		}
		err = b.collect(property, at, seen)
		return err == nil
	})
	return err
}

// describe sets the headers that repeat what the message says (2026-07-28,
// SEP-2243).
func (w *Wire) describe(h http.Header, method string, params []byte) {
	h.Set(headerMethod, method)
	switch method {
	case "tools/call":
		name := text(jsonline.Get(params, "name"))
		h.Set(headerName, encode(name))
		w.mu.Lock()
		bound := w.params[name]
		w.mu.Unlock()
		arguments := jsonline.Get(params, "arguments")
		for _, b := range bound {
			value := arguments
			for _, member := range b.path {
				value = jsonline.Get(value, member)
			}
			if v, ok := primitive(value); ok {
				h.Set(headerParam+b.header, encode(v))
			}
		}
	case "prompts/get":
		h.Set(headerName, encode(text(jsonline.Get(params, "name"))))
	case "resources/read":
		h.Set(headerName, encode(text(jsonline.Get(params, "uri"))))
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
		return text(raw), true
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

// text is the string that raw stands for, or "".
func text(raw []byte) (s string) {
	json.Unmarshal(raw, &s) // what is no string is ""
	return s
}

// checkHeader refuses what must not be sent to a server.
func checkHeader(h http.Header) error {
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
