// Package fakeserver is a test kit: MCP servers over stdio that are plain, or
// wrong in one way each. There is nothing to build: the test binary runs itself
// again as the server.
//
//	func TestMain(m *testing.M) {
//		fakeserver.RunIfAsked() // does not return in a server
//		os.Exit(m.Run())
//	}
//
//	stdin, stdout := fakeserver.Start(t, "crash-third")
//
// Besides its fault every mode is a plain server with the tool "echo", which
// answers its argument "message". Modes says what each does. Some take options
// as arguments of the form name=value. A server ends by itself after ten
// minutes. The package knows nothing of the platform.
package fakeserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	envMode    = "AURORA_FAKE_SERVER"
	lifetime   = 10 * time.Minute
	exitNoMode = 64
	exitOfAge  = 99
)

// Command is the argument vector, and what to add to the environment, of the
// server that behaves as mode says.
func Command(mode string, options ...string) (argv, env []string) {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return append([]string{self}, options...), []string{
		envMode + "=" + mode,
		"GORACE=atexit_sleep_ms=0", // under -race a process would take a second to exit
	}
}

// Modes maps the name of each mode to what it does.
func Modes() map[string]string {
	m := map[string]string{}
	for name, b := range table() {
		m[name] = b.does
	}
	return m
}

// RunIfAsked is the server, and ends the process, where the environment asks
// for one. Elsewhere it does nothing.
func RunIfAsked() {
	mode, asked := os.LookupEnv(envMode)
	if !asked {
		return
	}
	time.AfterFunc(lifetime, func() { os.Exit(exitOfAge) })
	b, ok := table()[mode]
	if !ok {
		fmt.Fprintf(os.Stderr, "no mode %q; there are %s\n", mode,
			strings.Join(slices.Sorted(maps.Keys(table())), ", "))
		os.Exit(exitNoMode)
	}
	s := &server{behaviour: b, mode: mode, out: os.Stdout, options: map[string]string{}}
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		s.options[name] = value
	}
	s.run(os.Stdin)
	os.Exit(0)
}

// behaviour is how a mode differs from a plain server.
type behaviour struct {
	does  string
	start func(*server)                // before anything is read
	ready func(*server)                // on a goroutine of its own, once the client is initialized
	end   func(*server)                // after stdin has ended
	all   func(*server, *request) bool // before anything else; true: dealt with
	on    map[string]func(*server, *request)
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// arguments of a tools/call.
type arguments struct {
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

func (r *request) call() (a arguments) {
	json.Unmarshal(r.Params, &a)
	return a
}

type object map[string]any

type server struct {
	behaviour
	mode    string
	options map[string]string

	mu    sync.Mutex
	out   io.Writer
	kept  []json.RawMessage // what the client sent of its own accord, or answered
	calls int               // of tools/call
	open  []*request        // tools/call that wait for one another

	greeted bool // initialize was answered
	begun   sync.Once
}

func (s *server) option(name string, otherwise int) int {
	if n, err := strconv.Atoi(s.options[name]); err == nil {
		return n
	}
	return otherwise
}

func (s *server) millis(name string, otherwise int) time.Duration {
	return time.Duration(s.option(name, otherwise)) * time.Millisecond
}

func (s *server) run(in io.Reader) {
	if s.start != nil {
		s.start(s)
	}
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		var req request
		if json.Unmarshal(line, &req) == nil {
			s.serve(&req)
		}
		if err != nil {
			break
		}
	}
	if s.end != nil {
		s.end(s)
	}
}

func (s *server) serve(r *request) {
	if r.Method == "tools/call" {
		s.calls++
	}
	if s.all != nil && s.all(s, r) {
		return
	}
	if f := s.on[r.Method]; f != nil {
		f(s, r)
		return
	}
	if f := plain[r.Method]; f != nil {
		f(s, r)
		return
	}
	switch {
	case r.ID == nil:
		s.keep(r)
	case r.Method == "": // an answer
		s.keep(r)
	default:
		s.refuse(r, -32601, "there is no "+r.Method)
	}
}

// keep remembers what the tool "kept" tells.
func (s *server) keep(r *request) {
	b, _ := json.Marshal(object{"id": r.ID, "method": r.Method, "params": r.Params, "result": r.Result, "error": r.Error})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, b)
}

// plain is what a server does that has no fault.
var plain = map[string]func(*server, *request){
	"initialize": func(s *server, r *request) {
		s.greet(r, object{"tools": object{"listChanged": true}, "logging": object{}})
	},
	"notifications/initialized": func(s *server, r *request) {
		if s.ready != nil {
			s.begun.Do(func() { go s.ready(s) })
		}
	},
	"ping":       func(s *server, r *request) { s.answer(r, object{}) },
	"tools/list": func(s *server, r *request) { s.answer(r, list(tool("echo"), tool("kept"))) },
	"tools/call": func(s *server, r *request) {
		switch c := r.call(); c.Name {
		case "kept":
			s.mu.Lock()
			b, _ := json.Marshal(s.kept)
			s.mu.Unlock()
			s.answer(r, text(string(b)))
		default:
			s.answer(r, text(c.Arguments.Message))
		}
	},
}

// newest is the last protocol version that begins with initialize.
const newest = "2025-11-25"

// greet answers initialize with the version asked for, as far as it is known.
func (s *server) greet(r *request, capabilities object) {
	var p struct{ ProtocolVersion string }
	json.Unmarshal(r.Params, &p)
	if v := s.options["version"]; v != "" {
		p.ProtocolVersion = v
	} else if p.ProtocolVersion == "" || p.ProtocolVersion > newest {
		p.ProtocolVersion = newest
	}
	s.greeted = true
	s.answer(r, object{
		"protocolVersion": p.ProtocolVersion, "capabilities": capabilities,
		"serverInfo": object{"name": "fake " + s.mode, "version": "1.2.3"},
	})
}

func (s *server) answer(r *request, result any) {
	s.send(object{"jsonrpc": "2.0", "id": r.ID, "result": result})
}

func (s *server) refuse(r *request, code int, message string) {
	s.send(object{"jsonrpc": "2.0", "id": r.ID, "error": object{"code": code, "message": message}})
}

func (s *server) notify(method string, params any) {
	m := object{"jsonrpc": "2.0", "method": method}
	if params != nil {
		m["params"] = params
	}
	s.send(m)
}

func (s *server) send(m any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		fmt.Fprintln(os.Stderr, "encoding:", err)
		return
	}
	s.write(b.Bytes())
}

func (s *server) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Write(b)
}

func text(t string) object {
	return object{"content": []object{{"type": "text", "text": t}}}
}

func tool(name string) object {
	return object{"name": name, "description": "The tool " + name, "inputSchema": schema()}
}

// with is o with one member more, or another value of one.
func (o object) with(name string, value any) object {
	o = maps.Clone(o)
	o[name] = value
	return o
}

func (o object) without(name string) object {
	o = maps.Clone(o)
	delete(o, name)
	return o
}

func schema() object {
	return object{"type": "object", "properties": object{"message": object{"type": "string"}}}
}

func list(tools ...object) object { return object{"tools": tools} }

// at calls f so many times a second, total times or, for 0, without end.
func at(perSecond, total int, f func(i int)) {
	begin, tick := time.Now(), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for i := 0; total == 0 || i < total; <-tick.C {
		due := int(time.Since(begin).Seconds() * float64(perSecond))
		for ; i < due && (total == 0 || i < total); i++ {
			f(i)
		}
	}
}
