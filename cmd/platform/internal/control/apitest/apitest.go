// Package apitest checks requests and answers of the local API against its
// OpenAPI description, in tests of whatever serves it.
//
//	doc, err := apitest.Load(raw)
//	err = doc.Answer("GET", "/v1/servers", res, body)
//	missing := doc.Missing() // operations of which no success was seen
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Doc is an OpenAPI 3.1 document. It is safe for concurrent use.
type Doc struct {
	root     map[string]any
	compiler *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
	seen     map[string]bool // operation ids that succeeded
}

// Operation is one method of one path.
type Operation struct {
	Method, Path, ID string
	Object           map[string]any // the Operation Object
}

const here = "https://platform.invalid/openapi.json"

// Load reads a document in JSON.
func Load(raw []byte) (*Doc, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is no object")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(here, root); err != nil {
		return nil, err
	}
	return &Doc{root: root, compiler: c, compiled: map[string]*jsonschema.Schema{}, seen: map[string]bool{}}, nil
}

// Root is the whole document.
func (d *Doc) Root() map[string]any { return d.root }

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// Operations lists all operations by path.
func (d *Doc) Operations() []Operation {
	var all []Operation
	paths, _ := d.root["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, _ := paths[path].(map[string]any)
		for _, m := range methods {
			if op, ok := item[m].(map[string]any); ok {
				id, _ := op["operationId"].(string)
				all = append(all, Operation{strings.ToUpper(m), path, id, op})
			}
		}
	}
	return all
}

// Missing lists the operations of which no successful answer was checked.
func (d *Doc) Missing() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for _, op := range d.Operations() {
		if !d.seen[op.ID] {
			ids = append(ids, op.ID)
		}
	}
	return ids
}

// find is the operation that answers a method and the path of a URL.
func (d *Doc) find(method, path string) *Operation {
	path, _, _ = strings.Cut(path, "?")
	given := strings.Split(path, "/")
	for _, op := range d.Operations() {
		want := strings.Split(op.Path, "/")
		if op.Method == method && slices.EqualFunc(want, given, func(w, g string) bool {
			return w == g || strings.HasPrefix(w, "{") && g != ""
		}) {
			return &op
		}
	}
	return nil
}

// Request checks the body of a request.
func (d *Doc) Request(method, path string, body []byte) error {
	op := d.find(method, path)
	if op == nil {
		return fmt.Errorf("%s %s is not described", method, path)
	}
	return d.validate(pointer("paths", op.Path, strings.ToLower(method), "requestBody", "content", "application/json", "schema"), body)
}

// Answer checks status, header and body of an answer. What is not described has
// to be refused as it is said of all failures.
func (d *Doc) Answer(method, path string, res *http.Response, body []byte) error {
	fail := func(err error) error { return fmt.Errorf("%s %s: %s: %w: %.300s", method, path, res.Status, err, body) }
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return fail(err)
	}
	op := d.find(method, path)
	if op == nil {
		if res.StatusCode < 400 || media != "application/problem+json" {
			return fail(fmt.Errorf("the operation is not described"))
		}
		return d.Schema("Problem", body)
	}
	responses, _ := op.Object["responses"].(map[string]any)
	status := strconv.Itoa(res.StatusCode)
	if responses[status] == nil {
		if res.StatusCode < 400 {
			return fail(fmt.Errorf("the status is not described"))
		}
		status = "default"
	}
	at := d.follow(pointer("paths", op.Path, strings.ToLower(method), "responses", status))
	response, _ := d.at(at).(map[string]any)
	headers, _ := response["headers"].(map[string]any)
	for name := range headers {
		if res.Header.Get(name) == "" {
			return fail(fmt.Errorf("the header %s is missing", name))
		}
	}
	content, _ := response["content"].(map[string]any)
	if content[media] == nil {
		return fail(fmt.Errorf("the media type %s is not described", media))
	}
	if strings.HasSuffix(media, "json") {
		if err := d.validate(at+pointer("content", media, "schema"), body); err != nil {
			return fail(err)
		}
	}
	if media == "application/problem+json" {
		var p struct{ Status int }
		if json.Unmarshal(body, &p) != nil || p.Status != res.StatusCode {
			return fail(fmt.Errorf("the problem has another status"))
		}
	}
	if res.StatusCode < 300 {
		d.mu.Lock()
		d.seen[op.ID] = true
		d.mu.Unlock()
	}
	return nil
}

// Schema checks a value against the schema of a name.
func (d *Doc) Schema(name string, body []byte) error {
	return d.validate(pointer("components", "schemas", name), body)
}

// Compile compiles the schema at a JSON pointer.
func (d *Doc) Compile(at string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[at]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(here + "#" + (&url.URL{Path: at}).EscapedPath())
	if err == nil {
		d.compiled[at] = s
	}
	return s, err
}

func (d *Doc) validate(at string, body []byte) error {
	s, err := d.Compile(at)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// follow goes from a pointer to what stands there, over a reference.
func (d *Doc) follow(at string) string {
	if o, ok := d.at(at).(map[string]any); ok {
		if ref, ok := o["$ref"].(string); ok {
			return strings.TrimPrefix(ref, "#")
		}
	}
	return at
}

// at is the value at a pointer, or nil.
func (d *Doc) at(at string) any {
	var v any = d.root
	for token := range strings.SplitSeq(strings.TrimPrefix(at, "/"), "/") {
		o, _ := v.(map[string]any)
		v = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return v
}

// pointer makes a JSON pointer (RFC 6901).
func pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}
