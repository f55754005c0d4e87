package fakeserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// useful are modes without a fault.
func useful() map[string]behaviour {
	var held []*request // by elicit
	return map[string]behaviour{
		"echo":      {does: "is a plain server"},
		"fast-echo": {does: "is a plain server that answers as fast as it can, for measuring what is in front of it", start: fastEcho},
		"no-tools": {does: "offers no tools, and would answer tools/list all the same",
			on: handlers{"initialize": func(s *server, r *request) { s.greet(r, object{"logging": object{}}) }}},
		"paged": {does: "has 5 (pages) pages of 3 tools",
			on: handlers{"tools/list": func(s *server, r *request) {
				var p struct{ Cursor string }
				json.Unmarshal(r.Params, &p)
				page := 0
				fmt.Sscan(p.Cursor, &page)
				res := list(tool(fmt.Sprintf("p%d_a", page)), tool(fmt.Sprintf("p%d_b", page)), tool(fmt.Sprintf("p%d_c", page)))
				if page+1 < s.option("pages", 5) {
					res["nextCursor"] = fmt.Sprint(page + 1)
				}
				s.answer(r, res)
			}}},
		"progress": {does: "answers tools/call after as many progress notifications as times says, millis apart",
			on: handlers{"tools/call": func(s *server, r *request) {
				c := r.call()
				go func() {
					for i := range c.Arguments.Times {
						time.Sleep(time.Duration(c.Arguments.Millis) * time.Millisecond)
						s.notify("notifications/progress", object{"progressToken": c.Meta.ProgressToken, "progress": i + 1, "total": c.Arguments.Times})
					}
					s.answer(r, text(c.Arguments.Message))
				}()
			}}},
		"slow": {does: "answers tools/call after millis, and meanwhile answers other things",
			on: handlers{"tools/call": func(s *server, r *request) {
				time.AfterFunc(time.Duration(r.call().Arguments.Millis)*time.Millisecond, func() { plain[r.Method](s, r) })
			}}},
		"busy": {does: "answers tools/call after millis, and nothing else meanwhile",
			on: handlers{"tools/call": func(s *server, r *request) {
				time.Sleep(time.Duration(r.call().Arguments.Millis) * time.Millisecond)
				plain[r.Method](s, r)
			}}},
		"exact": {does: "answers tools/call with numbers, spaces and members that decoding would lose",
			on: handlers{"tools/call": func(s *server, r *request) {
				s.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.ID, Exact))
			}}},
		"script": {does: "answers tools/call with what the message says: each line is the members of a JSON-RPC message, with $id and $token for those of the call",
			on: handlers{"tools/call": func(s *server, r *request) {
				c := r.call()
				fill := strings.NewReplacer("$id", string(r.ID), "$token", string(c.Meta.ProgressToken))
				for line := range strings.Lines(c.Arguments.Message) {
					s.write([]byte(`{"jsonrpc":"2.0",` + strings.TrimSpace(fill.Replace(line)) + "}\n"))
				}
			}}},
		"raw-params": {does: "answers tools/call with the params as text, as they came",
			on: handlers{"tools/call": func(s *server, r *request) { s.answer(r, text(string(r.Params))) }}},
		"elicit": {does: "asks for a name by elicitation during tools/call, and answers with what it got; with hold=N once N more calls have come",
			on: handlers{
				"tools/call": func(s *server, r *request) {
					if n := s.option("hold", 0); n > 0 {
						held = append(held, r)
						if len(held) <= n {
							return
						}
						for _, h := range held[:n] {
							elicitName(s, h)
						}
						held = nil
					}
					elicitName(s, r)
				},
				"": func(s *server, r *request) {
					var ask string
					json.Unmarshal(r.ID, &ask)
					if id, ok := strings.CutPrefix(ask, "ask "); ok {
						s.answer(&request{ID: json.RawMessage(id)}, text(string(r.Result)+string(r.Error)))
					}
				},
			}},
		"roots": {does: "asks for roots and sampling once initialized; the tool kept tells the answers",
			ready: func(s *server) {
				s.send(object{"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
				s.send(object{"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": object{
					"maxTokens": 9, "messages": []object{{"role": "user", "content": object{"type": "text", "text": "hi"}}}}})
			}},
		"modern":      modern(),
		"modern-only": modernOnly(),
		"resources": {does: "has two resources, a template and a prompt, with subscriptions, completion and log levels; tools/call changes a resource, with list_changed, and tells who subscribed",
			on: handlers{
				"initialize": func(s *server, r *request) {
					s.greet(r, object{"tools": object{}, "resources": object{"listChanged": true, "subscribe": true}, "prompts": object{"listChanged": true}, "completions": object{}, "logging": object{}})
				},
				"resources/list": func(s *server, r *request) {
					s.answer(r, object{"resources": []object{
						{"uri": "note:///one", "name": "one"}, {"uri": "note:///two", "name": fmt.Sprint("two, version ", s.calls)},
					}})
				},
				"resources/templates/list": func(s *server, r *request) {
					s.answer(r, object{"resourceTemplates": []object{{"uriTemplate": "note:///{id}", "name": "note"}}})
				},
				"resources/read": func(s *server, r *request) {
					var p struct{ URI string }
					json.Unmarshal(r.Params, &p)
					s.answer(r, object{"contents": []object{{"uri": p.URI, "text": "the content of " + p.URI}}})
				},
				"resources/subscribe": func(s *server, r *request) {
					var p struct{ URI string }
					json.Unmarshal(r.Params, &p)
					s.options["subscribed "+p.URI] = "yes"
					s.answer(r, object{})
				},
				"resources/unsubscribe": func(s *server, r *request) {
					var p struct{ URI string }
					json.Unmarshal(r.Params, &p)
					delete(s.options, "subscribed "+p.URI)
					s.answer(r, object{})
				},
				"completion/complete": func(s *server, r *request) {
					s.answer(r, object{"completion": object{"values": []string{"Ada", "Adele"}, "total": 2, "hasMore": false}})
				},
				"logging/setLevel": func(s *server, r *request) { s.answer(r, object{}) },
				"prompts/list": func(s *server, r *request) {
					s.answer(r, object{"prompts": []object{{"name": "greet", "arguments": []object{{"name": "who", "required": true}}}}})
				},
				"prompts/get": func(s *server, r *request) {
					var p struct{ Arguments struct{ Who string } }
					json.Unmarshal(r.Params, &p)
					s.answer(r, object{"messages": []object{{"role": "user", "content": object{"type": "text", "text": "Greet " + p.Arguments.Who}}}})
				},
				"tools/call": func(s *server, r *request) {
					plain[r.Method](s, r)
					s.notify("notifications/resources/list_changed", nil)
					s.notify("notifications/prompts/list_changed", nil)
					for option := range s.options {
						if uri, ok := strings.CutPrefix(option, "subscribed "); ok {
							s.notify("notifications/resources/updated", object{"uri": uri})
						}
					}
				},
			}},
	}
}

// Exact is the result that the mode exact answers.
const Exact = `{ "content":[{"type":"hologram","data":{"x":1.0}}],  "isError" : false,"structuredContent":{"id":9007199254740993,` +
	`"rate":1.10,"tiny":1e-400,"a":1,"a":2},"_meta":{"vendor/trace":"<&>\u00e9"},"x-own":[ ] }`

// modern is a server of 2026-07-28, which has no initialize: it refuses requests
// that do not say who asks. kept tells which methods it was sent.
func modern() behaviour {
	who := func(r *request) bool {
		var p struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		json.Unmarshal(r.Params, &p)
		return string(p.Meta["io.modelcontextprotocol/protocolVersion"]) == `"2026-07-28"` &&
			p.Meta["io.modelcontextprotocol/clientCapabilities"] != nil
	}
	var listening json.RawMessage
	return behaviour{
		does: "speaks 2026-07-28 as well; the tool change adds a tool, with list_changed on the listen stream; ask wants input; hangup ends the stream",
		all: func(s *server, r *request) bool {
			if r.Method == "" || strings.HasPrefix(r.Method, "notifications/") || r.Method == "initialize" {
				return false
			}
			s.keep(r)
			if !who(r) {
				s.refuse(r, -32602, "the request does not say who asks")
				return true
			}
			return false
		},
		on: handlers{
			"server/discover": func(s *server, r *request) {
				s.answer(r, object{
					"resultType": "complete", "supportedVersions": []string{"2026-07-28", newest},
					"capabilities": object{"tools": object{"listChanged": true}},
					"_meta":        object{"io.modelcontextprotocol/serverInfo": object{"name": "fake modern", "version": "7"}},
				})
			},
			"ping": func(s *server, r *request) { s.refuse(r, -32601, "there is no ping any more") },
			"subscriptions/listen": func(s *server, r *request) {
				listening = bytes.Clone(r.ID)
				s.notify("notifications/subscriptions/acknowledged", object{"_meta": object{"io.modelcontextprotocol/subscriptionId": r.ID}})
			},
			"tools/list": func(s *server, r *request) {
				ts := []object{tool("echo"), tool("change"), tool("ask"), tool("hangup"), tool("kept")}
				if s.options["changed"] != "" {
					ts = append(ts, tool("added"))
				}
				s.answer(r, list(ts...).with("resultType", "complete").with("ttlMs", 60_000))
			},
			"tools/call": func(s *server, r *request) {
				done := text(r.call().Arguments.Message).with("resultType", "complete")
				switch r.call().Name {
				case "kept":
					plain[r.Method](s, r)
				case "change":
					s.options["changed"] = "yes"
					if listening != nil {
						s.notify("notifications/tools/list_changed", object{"_meta": object{"io.modelcontextprotocol/subscriptionId": listening}})
					}
					s.answer(r, done)
				case "hangup":
					s.answer(&request{ID: listening}, object{"resultType": "complete"})
					s.options["changed"] = "yes"
					s.answer(r, done)
				case "ask":
					if bytes.Contains(r.Params, []byte(`"inputResponses"`)) {
						s.answer(r, text(string(r.Params)).with("resultType", "complete"))
						return
					}
					s.answer(r, object{"resultType": "input_required", "requestState": "state-1", "inputRequests": object{
						"q": object{"method": "elicitation/create", "params": object{"message": "Sure?", "requestedSchema": object{"type": "object"}}}}})
				default:
					s.answer(r, done)
				}
			},
		},
	}
}

// elicitName asks for a name in the middle of a call.
func elicitName(s *server, r *request) {
	s.send(object{"jsonrpc": "2.0", "id": "ask " + string(r.ID), "method": "elicitation/create", "params": object{
		"message":         "What is your name?",
		"requestedSchema": object{"type": "object", "properties": object{"name": object{"type": "string"}}},
	}})
}

// modernOnly is modern without the older era.
func modernOnly() behaviour {
	b := modern()
	b.does = "speaks 2026-07-28 alone"
	b.on["initialize"] = func(s *server, r *request) { s.refuse(r, -32022, "unsupported protocol version") }
	return b
}

// fastEcho is a whole server. It finds id and message as this platform's client
// and the Go SDK write them, and gathers answers while more input is there.
func fastEcho(s *server) {
	in, out := bufio.NewReaderSize(os.Stdin, 256<<10), bufio.NewWriterSize(os.Stdout, 256<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		if bytes.Contains(line, []byte(`"method":"tools/call"`)) {
			out.WriteString(`{"jsonrpc":"2.0","id":`)
			out.Write(between(line, `"id":`, ','))
			out.WriteString(`,"result":{"content":[{"type":"text","text":"`)
			out.Write(between(line, `"message":"`, '"'))
			out.WriteString("\"}]}}\n")
		} else {
			out.Flush()
			var r request
			if json.Unmarshal(line, &r) == nil {
				s.serve(&r)
			}
		}
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

func between(line []byte, after string, end byte) []byte {
	_, rest, _ := bytes.Cut(line, []byte(after))
	if i := bytes.IndexByte(rest, end); i >= 0 {
		return rest[:i]
	}
	return nil
}
