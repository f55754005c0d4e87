package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Some endpoints write members of an answer in another JSON type than the API's: the
// time as a fraction or a date, the content as a list of parts, arguments as an object.
// The client library fails on them. What cannot be read as the API's type is brought
// into it here where it can mean one thing only, and dropped where nothing needs it.

// members is a JSON object.
type members map[string]json.RawMessage

// lenient is an answer, or a chunk of one, that the client library can read. It is data
// itself where into, which the library reads it into, takes it as it is.
func lenient(data []byte, into any) []byte {
	if json.Unmarshal(data, into) == nil {
		return data
	}
	var answer members
	if json.Unmarshal(data, &answer) != nil {
		return data // the library says what is wrong with it
	}
	answer.number("created")
	for _, name := range []string{"id", "object", "model", "system_fingerprint"} {
		answer.text(name)
	}
	answer.object("usage", func(usage members) {
		for name := range usage {
			usage.counts(name)
		}
	})
	answer.list("choices", func(choice members) {
		choice.number("index")
		choice.text("finish_reason")
		choice.object("delta", message)
		choice.object("message", message)
	})
	return encode(answer)
}

// message brings the members of a message into the API's types.
func message(m members) {
	m.text("role")
	for _, name := range []string{"content", "refusal", "reasoning_content"} {
		if raw, ok := m[name]; ok {
			m[name] = encode(words(raw))
		}
	}
	if strings.HasPrefix(string(m["tool_calls"]), "{") { // one call that is no list
		m["tool_calls"] = json.RawMessage("[" + string(m["tool_calls"]) + "]")
	}
	m.list("tool_calls", func(call members) {
		call.number("index")
		call.text("id")
		call.text("type")
		call.object("function", func(f members) {
			f.text("name")
			if raw := f["arguments"]; strings.HasPrefix(string(raw), "{") || strings.HasPrefix(string(raw), "[") {
				f["arguments"] = encode(string(raw))
			} else {
				f.text("arguments")
			}
		})
	})
}

// words is the text of a content in any form: a text, a part, or a list of either. A
// model's thoughts are no content.
func words(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, part := range list {
			text += words(part)
		}
		return text
	}
	var part members
	if json.Unmarshal(raw, &part) == nil {
		var kind string
		if json.Unmarshal(part["type"], &kind) == nil && kind != "text" && kind != "output_text" {
			return ""
		}
		if t, ok := part["text"]; ok {
			return words(t)
		}
		return ""
	}
	return string(raw) // a number or a truth value
}

// text makes a member a text; null and what has parts is dropped.
func (m members) text(name string) {
	var s string
	switch raw := string(m[name]); {
	case raw == "" || json.Unmarshal(m[name], &s) == nil && raw != "null":
	case raw == "null", raw[0] == '{', raw[0] == '[':
		delete(m, name)
	default:
		m[name] = encode(raw)
	}
}

// number makes a member a whole number, or drops it.
func (m members) number(name string) {
	raw, ok := m[name]
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || math.Abs(n) > 1<<53 {
		delete(m, name)
		return
	}
	m[name] = json.RawMessage(strconv.FormatInt(int64(n), 10))
}

// counts makes a member a whole number, or an object of them.
func (m members) counts(name string) {
	if !strings.HasPrefix(string(m[name]), "{") {
		m.number(name)
		return
	}
	m.object(name, func(inner members) {
		for name := range inner {
			inner.number(name)
		}
	})
}

// object has fix mend a member that is an object; another member is dropped.
func (m members) object(name string, fix func(members)) {
	raw, ok := m[name]
	if !ok {
		return
	}
	var inner members
	if json.Unmarshal(raw, &inner) != nil || inner == nil {
		delete(m, name)
		return
	}
	fix(inner)
	m[name] = encode(inner)
}

// list has fix mend each element of a member that is a list of objects; another member
// is left to the library.
func (m members) list(name string, fix func(members)) {
	var list []members
	if json.Unmarshal(m[name], &list) != nil || list == nil {
		return
	}
	for _, inner := range list {
		if inner != nil {
			fix(inner)
		}
	}
	m[name] = encode(list)
}
