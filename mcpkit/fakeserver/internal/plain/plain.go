// Package plain is an MCP server over stdin and stdout that has the tool "echo", which
// answers its argument "message", and the tool "kept", which tells what the client
// sent of its own accord. A [Behaviour] makes of it a server of another kind. It
// writes what it is told to, valid or not.
package plain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"
)

// Behaviour is how a mode differs from a plain Server.
type Behaviour struct {
	Does  string                       // what the mode does, in words
	Start func(*Server)                // before anything is read
	Ready func(*Server)                // on a goroutine of its own, once the client is initialized
	End   func(*Server)                // after stdin has ended
	All   func(*Server, *Request) bool // before anything else; true: dealt with
	On    Handlers                     // instead of what a plain server does
}

// Handlers deal with messages, by method.
type Handlers = map[string]func(*Server, *Request)

// Request is a message of the client: a request, a notification, or an answer.
type Request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Arguments are the params of a tools/call.
type Arguments struct {
	Name      string
	Arguments struct {
		Message string
		Millis  int
		Times   int
	}
	Meta struct {
		ProgressToken json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
}

// Call is the params of the request, which is a tools/call.
func (r *Request) Call() (a Arguments) {
	json.Unmarshal(r.Params, &a)
	return a
}

// Object is a JSON object.
type Object map[string]any

// Server is a server of one mode. Its fields are those of the goroutine that reads,
// unless they say otherwise.
type Server struct {
	Behaviour
	Mode    string
	Options map[string]string // by name

	Calls int               // of tools/call
	Open  []*Request        // tools/call that wait for one another
	Kept  []json.RawMessage // what the client sent of its own accord, or answered

	Greeted bool // initialize was answered
	begun   sync.Once

	mu  sync.Mutex
	Out io.Writer // messages go here one at a time
}

// Option is the option of that name as a number, or otherwise where there is none.
func (s *Server) Option(name string, otherwise int) int {
	if n, err := strconv.Atoi(s.Options[name]); err == nil {
		return n
	}
	return otherwise
}

// Millis is Option as a number of milliseconds.
func (s *Server) Millis(name string, otherwise int) time.Duration {
	return time.Duration(s.Option(name, otherwise)) * time.Millisecond
}

// Run serves until in ends.
func (s *Server) Run(in io.Reader) {
	if s.Start != nil {
		s.Start(s)
	}
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		var req Request
		if json.Unmarshal(line, &req) == nil {
			s.Serve(&req)
		}
		if err != nil {
			break
		}
	}
	if s.End != nil {
		s.End(s)
	}
}

// Serve deals with one message.
func (s *Server) Serve(r *Request) {
	if r.Method == "tools/call" {
		s.Calls++
	}
	if s.All != nil && s.All(s, r) {
		return
	}
	if f := s.On[r.Method]; f != nil {
		f(s, r)
		return
	}
	if s.Plain(r) {
		return
	}
	switch {
	case r.ID == nil:
		s.Keep(r)
	case r.Method == "": // an answer
		s.Keep(r)
	default:
		s.Refuse(r, -32601, "there is no "+r.Method)
	}
}

// Plain does what a server without a fault does. It reports false for a method that
// such a server does not know.
func (s *Server) Plain(r *Request) bool {
	f := plain[r.Method]
	if f != nil {
		f(s, r)
	}
	return f != nil
}

// Keep remembers what the tool "kept" tells.
func (s *Server) Keep(r *Request) {
	b, _ := json.Marshal(Object{"id": r.ID, "method": r.Method, "params": r.Params, "result": r.Result, "error": r.Error})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Kept = append(s.Kept, b)
}

// plain is what a server does that has no fault.
var plain = map[string]func(*Server, *Request){
	"initialize": func(s *Server, r *Request) {
		s.Greet(r, Object{"tools": Object{"listChanged": true}, "logging": Object{}})
	},
	"notifications/initialized": func(s *Server, r *Request) {
		if s.Ready != nil {
			s.begun.Do(func() { go s.Ready(s) })
		}
	},
	"ping":       func(s *Server, r *Request) { s.Answer(r, Object{}) },
	"tools/list": func(s *Server, r *Request) { s.Answer(r, List(Tool("echo"), Tool("kept"))) },
	"tools/call": func(s *Server, r *Request) {
		switch c := r.Call(); c.Name {
		case "kept":
			s.mu.Lock()
			b, _ := json.Marshal(s.Kept)
			s.mu.Unlock()
			s.Answer(r, Text(string(b)))
		default:
			s.Answer(r, Text(c.Arguments.Message))
		}
	},
}

// Newest is the last protocol version that begins with initialize.
const Newest = "2025-11-25"

// Greet answers initialize with the version asked for, as far as it is known.
func (s *Server) Greet(r *Request, capabilities Object) {
	var p struct{ ProtocolVersion string }
	json.Unmarshal(r.Params, &p)
	if v := s.Options["version"]; v != "" {
		p.ProtocolVersion = v
	} else if p.ProtocolVersion == "" || p.ProtocolVersion > Newest {
		p.ProtocolVersion = Newest
	}
	s.Greeted = true
	s.Answer(r, Object{
		"protocolVersion": p.ProtocolVersion, "capabilities": capabilities,
		"serverInfo": Object{"name": "fake " + s.Mode, "version": "1.2.3"},
	})
}

// Answer answers a request.
func (s *Server) Answer(r *Request, result any) {
	s.Send(Object{"jsonrpc": "2.0", "id": r.ID, "result": result})
}

// Refuse answers a request with an error.
func (s *Server) Refuse(r *Request, code int, message string) {
	s.Send(Object{"jsonrpc": "2.0", "id": r.ID, "error": Object{"code": code, "message": message}})
}

// Notify sends a notification; nil params are left out.
func (s *Server) Notify(method string, params any) {
	m := Object{"jsonrpc": "2.0", "method": method}
	if params != nil {
		m["params"] = params
	}
	s.Send(m)
}

// Send sends a message.
func (s *Server) Send(m any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		fmt.Fprintln(os.Stderr, "encoding:", err)
		return
	}
	s.Write(b.Bytes())
}

// Write sends bytes as they are, which should end with a line end.
func (s *Server) Write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Out.Write(b)
}

// Text is the result of a tool that says t.
func Text(t string) Object {
	return Object{"content": []Object{{"type": "text", "text": t}}}
}

// Tool is the definition of a tool that takes a message.
func Tool(name string) Object {
	return Object{"name": name, "description": "The tool " + name, "inputSchema": Schema()}
}

// With is o with one member more, or another value of one.
func (o Object) With(name string, value any) Object {
	o = maps.Clone(o)
	o[name] = value
	return o
}

// Without is o without a member.
func (o Object) Without(name string) Object {
	o = maps.Clone(o)
	delete(o, name)
	return o
}

// Schema is the schema of the arguments of [Tool].
func Schema() Object {
	return Object{"type": "object", "properties": Object{"message": Object{"type": "string"}}}
}

// List is the result of tools/list.
func List(tools ...Object) Object { return Object{"tools": tools} }

// At calls f so many times a second, total times or, for 0, without end.
func At(perSecond, total int, f func(i int)) {
	begin, tick := time.Now(), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for i := 0; total == 0 || i < total; <-tick.C {
		due := int(time.Since(begin).Seconds() * float64(perSecond))
		for ; i < due && (total == 0 || i < total); i++ {
			f(i)
		}
	}
}
