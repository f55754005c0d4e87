package fakeserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fakeserver/internal/plain"
)

// useful are modes without a fault.
func useful() map[string]plain.Behaviour {
	var held []*plain.Request // by elicit
	return map[string]plain.Behaviour{
		"echo":      {Does: "is a plain server"},
		"fast-echo": {Does: "is a plain server that answers as fast as it can, for measuring what is in front of it", Start: fastEcho},
		"no-tools": {Does: "offers no tools, and would answer tools/list all the same",
			On: plain.Handlers{"initialize": func(s *plain.Server, r *plain.Request) { s.Greet(r, plain.Object{"logging": plain.Object{}}) }}},
		"paged": {Does: "has 5 (pages) pages of 3 tools",
			On: plain.Handlers{"tools/list": func(s *plain.Server, r *plain.Request) {
				var p struct{ Cursor string }
				json.Unmarshal(r.Params, &p)
				page := 0
				fmt.Sscan(p.Cursor, &page)
				res := plain.List(plain.Tool(fmt.Sprintf("p%d_a", page)), plain.Tool(fmt.Sprintf("p%d_b", page)), plain.Tool(fmt.Sprintf("p%d_c", page)))
				if page+1 < s.Option("pages", 5) {
					res["nextCursor"] = fmt.Sprint(page + 1)
				}
				s.Answer(r, res)
			}}},
		"progress": {Does: "answers tools/call after as many progress notifications as times says, millis apart",
			On: plain.Handlers{"tools/call": func(s *plain.Server, r *plain.Request) {
				c := r.Call()
				go func() {
					for i := range c.Arguments.Times {
						time.Sleep(time.Duration(c.Arguments.Millis) * time.Millisecond)
						s.Notify("notifications/progress", plain.Object{"progressToken": c.Meta.ProgressToken, "progress": i + 1, "total": c.Arguments.Times})
					}
					s.Answer(r, plain.Text(c.Arguments.Message))
				}()
			}}},
		"slow": {Does: "answers tools/call after millis, and meanwhile answers other things",
			On: plain.Handlers{"tools/call": func(s *plain.Server, r *plain.Request) {
				time.AfterFunc(time.Duration(r.Call().Arguments.Millis)*time.Millisecond, func() { s.Plain(r) })
			}}},
		"busy": {Does: "answers tools/call after millis, and nothing else meanwhile",
			On: plain.Handlers{"tools/call": func(s *plain.Server, r *plain.Request) {
				time.Sleep(time.Duration(r.Call().Arguments.Millis) * time.Millisecond)
				s.Plain(r)
			}}},
		"exact": {Does: "answers tools/call with numbers, spaces and members that decoding would lose",
			On: plain.Handlers{"tools/call": func(s *plain.Server, r *plain.Request) {
				s.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.ID, Exact))
			}}},
		"script": {Does: "answers tools/call with what the message says: each line is the members of a JSON-RPC message, with $id and $token for those of the call",
			On: plain.Handlers{"tools/call": func(s *plain.Server, r *plain.Request) {
				c := r.Call()
				fill := strings.NewReplacer("$id", string(r.ID), "$token", string(c.Meta.ProgressToken))
				for line := range strings.Lines(c.Arguments.Message) {
					s.Write([]byte(`{"jsonrpc":"2.0",` + strings.TrimSpace(fill.Replace(line)) + "}\n"))
				}
			}}},
		"raw-params": {Does: "answers tools/call with the params as text, as they came",
			On: plain.Handlers{"tools/call": func(s *plain.Server, r *plain.Request) { s.Answer(r, plain.Text(string(r.Params))) }}},
		"elicit": {Does: "asks for a name by elicitation during tools/call, and answers with what it got; with hold=N once N more calls have come",
			On: plain.Handlers{
				"tools/call": func(s *plain.Server, r *plain.Request) {
					if n := s.Option("hold", 0); n > 0 {
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
				"": func(s *plain.Server, r *plain.Request) {
					var ask string
					json.Unmarshal(r.ID, &ask)
					if id, ok := strings.CutPrefix(ask, "ask "); ok {
						s.Answer(&plain.Request{ID: json.RawMessage(id)}, plain.Text(string(r.Result)+string(r.Error)))
					}
				},
			}},
		"roots": {Does: "asks for roots and sampling once initialized; the tool kept tells the answers",
			Ready: func(s *plain.Server) {
				s.Send(plain.Object{"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
				s.Send(plain.Object{"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": plain.Object{
					"maxTokens": 9, "messages": []plain.Object{{"role": "user", "content": plain.Object{"type": "text", "text": "hi"}}}}})
			}},
		"modern":      modern(),
		"modern-only": modernOnly(),
		"resources": {Does: "has two resources, a template and a prompt, with subscriptions, completion and log levels; tools/call changes a resource, with list_changed, and tells who subscribed",
			On: plain.Handlers{
				"initialize": func(s *plain.Server, r *plain.Request) {
					s.Greet(r, plain.Object{"tools": plain.Object{}, "resources": plain.Object{"listChanged": true, "subscribe": true}, "prompts": plain.Object{"listChanged": true}, "completions": plain.Object{}, "logging": plain.Object{}})
				},
				"resources/list": func(s *plain.Server, r *plain.Request) {
					s.Answer(r, plain.Object{"resources": []plain.Object{
						{"uri": "note:///one", "name": "one"}, {"uri": "note:///two", "name": fmt.Sprint("two, version ", s.Calls)},
					}})
				},
				"resources/templates/list": func(s *plain.Server, r *plain.Request) {
					s.Answer(r, plain.Object{"resourceTemplates": []plain.Object{{"uriTemplate": "note:///{id}", "name": "note"}}})
				},
				"resources/read": func(s *plain.Server, r *plain.Request) {
					var p struct{ URI string }
					json.Unmarshal(r.Params, &p)
					s.Answer(r, plain.Object{"contents": []plain.Object{{"uri": p.URI, "text": "the content of " + p.URI}}})
				},
				"resources/subscribe": func(s *plain.Server, r *plain.Request) {
					var p struct{ URI string }
					json.Unmarshal(r.Params, &p)
					s.Options["subscribed "+p.URI] = "yes"
					s.Answer(r, plain.Object{})
				},
				"resources/unsubscribe": func(s *plain.Server, r *plain.Request) {
					var p struct{ URI string }
					json.Unmarshal(r.Params, &p)
					delete(s.Options, "subscribed "+p.URI)
					s.Answer(r, plain.Object{})
				},
				"completion/complete": func(s *plain.Server, r *plain.Request) {
					s.Answer(r, plain.Object{"completion": plain.Object{"values": []string{"Ada", "Adele"}, "total": 2, "hasMore": false}})
				},
				"logging/setLevel": func(s *plain.Server, r *plain.Request) { s.Answer(r, plain.Object{}) },
				"prompts/list": func(s *plain.Server, r *plain.Request) {
					s.Answer(r, plain.Object{"prompts": []plain.Object{{"name": "greet", "arguments": []plain.Object{{"name": "who", "required": true}}}}})
				},
				"prompts/get": func(s *plain.Server, r *plain.Request) {
					var p struct{ Arguments struct{ Who string } }
					json.Unmarshal(r.Params, &p)
					s.Answer(r, plain.Object{"messages": []plain.Object{{"role": "user", "content": plain.Object{"type": "text", "text": "Greet " + p.Arguments.Who}}}})
				},
				"tools/call": func(s *plain.Server, r *plain.Request) {
					s.Plain(r)
					s.Notify("notifications/resources/list_changed", nil)
					s.Notify("notifications/prompts/list_changed", nil)
					for option := range s.Options {
						if uri, ok := strings.CutPrefix(option, "subscribed "); ok {
							s.Notify("notifications/resources/updated", plain.Object{"uri": uri})
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
func modern() plain.Behaviour {
	who := func(r *plain.Request) bool {
		var p struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		json.Unmarshal(r.Params, &p)
		return string(p.Meta["io.modelcontextprotocol/protocolVersion"]) == `"2026-07-28"` &&
			p.Meta["io.modelcontextprotocol/clientCapabilities"] != nil
	}
	var listening json.RawMessage
	return plain.Behaviour{
		Does: "speaks 2026-07-28 as well; the tool change adds a tool, with list_changed on the listen stream; ask wants input; hangup ends the stream",
		All: func(s *plain.Server, r *plain.Request) bool {
			if r.Method == "" || strings.HasPrefix(r.Method, "notifications/") || r.Method == "initialize" {
				return false
			}
			s.Keep(r)
			if !who(r) {
				s.Refuse(r, -32602, "the request does not say who asks")
				return true
			}
			return false
		},
		On: plain.Handlers{
			"server/discover": func(s *plain.Server, r *plain.Request) {
				s.Answer(r, plain.Object{
					"resultType": "complete", "supportedVersions": []string{"2026-07-28", plain.Newest},
					"capabilities": plain.Object{"tools": plain.Object{"listChanged": true}},
					"_meta":        plain.Object{"io.modelcontextprotocol/serverInfo": plain.Object{"name": "fake modern", "version": "7"}},
				})
			},
			"ping": func(s *plain.Server, r *plain.Request) { s.Refuse(r, -32601, "there is no ping any more") },
			"subscriptions/listen": func(s *plain.Server, r *plain.Request) {
				listening = bytes.Clone(r.ID)
				s.Notify("notifications/subscriptions/acknowledged", plain.Object{"_meta": plain.Object{"io.modelcontextprotocol/subscriptionId": r.ID}})
			},
			"tools/list": func(s *plain.Server, r *plain.Request) {
				ts := []plain.Object{plain.Tool("echo"), plain.Tool("change"), plain.Tool("ask"), plain.Tool("hangup"), plain.Tool("kept")}
				if s.Options["changed"] != "" {
					ts = append(ts, plain.Tool("added"))
				}
				s.Answer(r, plain.List(ts...).With("resultType", "complete").With("ttlMs", 60_000))
			},
			"tools/call": func(s *plain.Server, r *plain.Request) {
				done := plain.Text(r.Call().Arguments.Message).With("resultType", "complete")
				switch r.Call().Name {
				case "kept":
					s.Plain(r)
				case "change":
					s.Options["changed"] = "yes"
					if listening != nil {
						s.Notify("notifications/tools/list_changed", plain.Object{"_meta": plain.Object{"io.modelcontextprotocol/subscriptionId": listening}})
					}
					s.Answer(r, done)
				case "hangup":
					s.Answer(&plain.Request{ID: listening}, plain.Object{"resultType": "complete"})
					s.Options["changed"] = "yes"
					s.Answer(r, done)
				case "ask":
					if bytes.Contains(r.Params, []byte(`"inputResponses"`)) {
						s.Answer(r, plain.Text(string(r.Params)).With("resultType", "complete"))
						return
					}
					s.Answer(r, plain.Object{"resultType": "input_required", "requestState": "state-1", "inputRequests": plain.Object{
						"q": plain.Object{"method": "elicitation/create", "params": plain.Object{"message": "Sure?", "requestedSchema": plain.Object{"type": "object"}}}}})
				default:
					s.Answer(r, done)
				}
			},
		},
	}
}

// elicitName asks for a name in the middle of a call.
func elicitName(s *plain.Server, r *plain.Request) {
	s.Send(plain.Object{"jsonrpc": "2.0", "id": "ask " + string(r.ID), "method": "elicitation/create", "params": plain.Object{
		"message":         "What is your name?",
		"requestedSchema": plain.Object{"type": "object", "properties": plain.Object{"name": plain.Object{"type": "string"}}},
	}})
}

// modernOnly is modern without the older era.
func modernOnly() plain.Behaviour {
	b := modern()
	b.Does = "speaks 2026-07-28 alone"
	b.On["initialize"] = func(s *plain.Server, r *plain.Request) { s.Refuse(r, -32022, "unsupported protocol version") }
	return b
}

// fastEcho is a whole server. It finds id and message as this platform's client
// and the Go SDK write them, and gathers answers while more input is there.
func fastEcho(s *plain.Server) {
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
			var r plain.Request
			if json.Unmarshal(line, &r) == nil {
				s.Serve(&r)
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
