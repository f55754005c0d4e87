package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/history/entry"
	"github.com/aurorabot-dev/platform/bridge/history/store"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/apitest"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
	"github.com/aurorabot-dev/platform/mcpkit/policy/review"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func description(t testing.TB) *apitest.Doc {
	t.Helper()
	raw, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := apitest.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestEveryRouteIsDescribedAndEveryDescriptionIsARoute(t *testing.T) {
	var served, described []string
	for _, r := range newAPI(Options{}, defaultLimits).routes() {
		served = append(served, r.method+" "+r.path)
	}
	for _, op := range description(t).Operations() {
		described = append(described, op.Method+" "+op.Path)
	}
	slices.Sort(served)
	slices.Sort(described)
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("served (-) and described (+) differ:\n%s", diff)
	}
}

// fields are those that the objects of OpenAPI 3.1 may have, as far as the
// document uses them, and those that they must have, with an exclamation mark.
var fields = map[string]string{
	"document":    "openapi! info! servers! security! tags! paths! components!",
	"info":        "title! version! summary description license!",
	"operation":   "operationId! tags! summary! description parameters requestBody responses!",
	"parameter":   "name! in! description! required schema!",
	"requestBody": "required! content!",
	"response":    "description! headers content!",
	"header":      "description! required schema!",
	"mediaType":   "schema! example x-data-schema",
	"components":  "securitySchemes! parameters! responses! schemas!",
}

type linter struct {
	t    *testing.T
	root map[string]any
	used map[string]bool
}

// object checks the fields of an object and returns it, without its reference.
func (l *linter) object(kind, where string, v any) map[string]any {
	o, ok := v.(map[string]any)
	if !ok {
		l.t.Errorf("%s: the %s is no object", where, kind)
		return nil
	}
	if ref, ok := o["$ref"].(string); ok {
		if len(o) > 1 {
			l.t.Errorf("%s: a reference has siblings", where)
		}
		return l.object(kind, ref, l.resolve(where, ref))
	}
	var must, may []string
	for f := range strings.FieldsSeq(fields[kind]) {
		name, required := strings.CutSuffix(f, "!")
		may = append(may, name)
		if required {
			must = append(must, name)
		}
	}
	for _, f := range must {
		if o[f] == nil || o[f] == "" {
			l.t.Errorf("%s: the %s has no %s", where, kind, f)
		}
	}
	for f := range o {
		if !slices.Contains(may, f) {
			l.t.Errorf("%s: the %s has a field %s", where, kind, f)
		}
	}
	return o
}

func (l *linter) resolve(where, ref string) any {
	l.used[ref] = true
	var v any = l.root
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		o, _ := v.(map[string]any)
		v = o[token]
	}
	if v == nil || !strings.HasPrefix(ref, "#/") {
		l.t.Errorf("%s: %s leads nowhere", where, ref)
	}
	return v
}

// refs marks every reference below v as used.
func (l *linter) refs(where string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && !l.used[ref] {
			l.refs(ref, l.resolve(where, ref))
		}
		for k, x := range v {
			l.refs(where+"/"+k, x)
		}
	case []any:
		for i, x := range v {
			l.refs(fmt.Sprint(where, "/", i), x)
		}
	}
}

func TestTheDescriptionIsValidOpenAPI(t *testing.T) {
	doc := description(t)
	l := &linter{t, doc.Root(), map[string]bool{}}
	root := l.object("document", "#", l.root)
	if v, _ := root["openapi"].(string); !regexp.MustCompile(`^3\.1\.\d+$`).MatchString(v) {
		t.Errorf("openapi is %q", v)
	}
	l.object("info", "#/info", root["info"])
	components := l.object("components", "#/components", root["components"])
	var tags []string
	for _, tag := range root["tags"].([]any) {
		tags = append(tags, tag.(map[string]any)["name"].(string))
	}

	ids, unused := map[string]bool{}, slices.Clone(tags)
	for _, op := range doc.Operations() {
		where := op.Method + " " + op.Path
		o := l.object("operation", where, op.Object)
		if ids[op.ID] {
			t.Errorf("%s: the operationId %s is not unique", where, op.ID)
		}
		ids[op.ID] = true
		for _, tag := range o["tags"].([]any) {
			if !slices.Contains(tags, tag.(string)) {
				t.Errorf("%s: the tag %v is not declared", where, tag)
			}
			unused = slices.DeleteFunc(unused, func(s string) bool { return s == tag })
		}
		l.parameters(where, op, root["paths"].(map[string]any)[op.Path].(map[string]any)["parameters"], o["parameters"])
		if body := o["requestBody"]; body != nil {
			for media, m := range l.object("requestBody", where, body)["content"].(map[string]any) {
				m := l.object("mediaType", where+" "+media, m)
				example, _ := json.Marshal(m["example"])
				if err := doc.Request(op.Method, op.Path, example); err != nil {
					t.Errorf("%s: the example is not valid: %v", where, err)
				}
			}
		}
		l.responses(where, doc, op, o["responses"].(map[string]any))
	}
	if len(unused) > 0 {
		t.Errorf("no operation has the tags %v", unused)
	}

	l.refs("#/paths", root["paths"])
	for kind, all := range components {
		for name := range all.(map[string]any) {
			if ref := "#/components/" + kind + "/" + name; !l.used[ref] && kind != "securitySchemes" {
				t.Errorf("nothing uses %s", ref)
			}
		}
	}
	for name, s := range components["schemas"].(map[string]any) {
		if _, err := doc.Compile("/components/schemas/" + name); err != nil {
			t.Errorf("the schema %s: %v", name, err)
		}
		l.closed("#/components/schemas/"+name, s)
	}
}

// parameters checks that those of the path are exactly those of its template.
func (l *linter) parameters(where string, op apitest.Operation, lists ...any) {
	var inPath, inTemplate []string
	seen := map[string]bool{}
	for _, list := range lists {
		all, _ := list.([]any)
		for _, v := range all {
			p := l.object("parameter", where, v)
			name, in := p["name"].(string), p["in"].(string)
			if seen[in+name] {
				l.t.Errorf("%s: the parameter %s is there twice", where, name)
			}
			seen[in+name] = true
			switch in {
			case "path":
				inPath = append(inPath, "{"+name+"}")
				if p["required"] != true {
					l.t.Errorf("%s: %s is not required", where, name)
				}
			case "query", "header":
			default:
				l.t.Errorf("%s: %s is in %s", where, name, in)
			}
		}
	}
	inTemplate = regexp.MustCompile(`{\w+}`).FindAllString(op.Path, -1)
	if diff := cmp.Diff(inTemplate, inPath); diff != "" {
		l.t.Errorf("%s: template (-) and parameters (+) differ:\n%s", where, diff)
	}
}

func (l *linter) responses(where string, doc *apitest.Doc, op apitest.Operation, all map[string]any) {
	success := false
	for _, status := range slices.Sorted(maps.Keys(all)) {
		where := where + " " + status
		success = success || status[0] == '2' || status == "101"
		if status == "101" { // the connection is no longer one of HTTP
			continue
		}
		r := l.object("response", where, all[status])
		headers, _ := r["headers"].(map[string]any)
		for name, h := range headers {
			l.object("header", where+" "+name, h)
		}
		for media, m := range r["content"].(map[string]any) {
			l.object("mediaType", where+" "+media, m)
			if failure := status == "default" || status[0] >= '4'; failure != (media == "application/problem+json") {
				l.t.Errorf("%s: the media type is %s", where, media)
			}
		}
	}
	for _, status := range []string{"401", "403", "421", "500", "503", "default"} {
		if all[status] == nil {
			l.t.Errorf("%s: %s is not described", where, status)
		}
	}
	if !success {
		l.t.Errorf("%s has no success", where)
	}
}

// closed checks that a schema says of every object which members it has, and
// names none as required that it does not describe.
func (l *linter) closed(where string, v any) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	properties, _ := s["properties"].(map[string]any)
	if s["type"] == "object" && properties != nil {
		if s["additionalProperties"] != false {
			l.t.Errorf("%s: other members are not ruled out", where)
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := properties[name.(string)]; !ok {
				l.t.Errorf("%s: %s is required and not described", where, name)
			}
		}
	}
	for name, p := range properties {
		l.closed(where+"/"+name, p)
	}
	l.closed(where+"/items", s["items"])
}

// TestSchemasHaveTheMembersOfTheirTypes finds also what no answer of the tests
// happens to have.
func TestSchemasHaveTheMembersOfTheirTypes(t *testing.T) {
	components := description(t).Root()["components"].(map[string]any)
	schemas := components["schemas"].(map[string]any)
	requests := []string{"CallRequest", "Answer", "PinRequest", "InputAnswer", "ReadRequest", "PromptRequest", "CompletionRequest", "LogLevelRequest"} // zero values may be left out
	for name, v := range map[string]any{
		"Problem": control.Problem{}, "Version": control.Version{}, "Status": control.Status{}, "EventCounts": control.Events{}, "Server": control.Server{}, "Exit": control.Exit{},
		"Tool": control.Tool{}, "CallRequest": control.CallRequest{}, "CallResponse": control.CallResponse{}, "CallState": control.CallState{}, "Artifact": artifact.Ref{},
		"Approval": approval.Approval{}, "Answer": control.Answer{}, "PinRequest": control.PinRequest{}, "Explanation": policy.Explanation{},
		"Input": signal.Input{}, "Question": signal.Question{}, "InputAnswer": control.InputAnswer{}, "Reply": ask.Reply{}, "Item": control.Item{}, "ReadRequest": control.ReadRequest{},
		"ReadResponse": control.ReadResponse{}, "Subscription": control.Subscription{}, "PromptRequest": control.PromptRequest{}, "Prompt": offers.Prompt{},
		"PromptMessage": offers.PromptMessage{}, "CompletionRequest": control.CompletionRequest{}, "LogLevelRequest": control.LogLevelRequest{},
		"HistoryPage": history.Page{}, "HistoryEntry": entry.Entry{}, "HistoryStat": store.Stat{}, "HistoryChain": history.Chain{}, "HistoryEvent": history.Event{},
		"Rule": rules.Source{}, "Finding": review.Finding{}, "ServerReport": review.ServerReport{}, "ToolDiff": review.ToolDiff{},
	} {
		schema := schemas[name].(map[string]any)
		described := slices.Sorted(maps.Keys(schema["properties"].(map[string]any)))
		all, always := members(reflect.TypeOf(v))
		if diff := cmp.Diff(all, described); diff != "" {
			t.Errorf("%s: the type (-) and the schema (+) differ:\n%s", name, diff)
		}
		var required []string
		must, _ := schema["required"].([]any)
		for _, r := range must {
			required = append(required, r.(string))
		}
		slices.Sort(required)
		if diff := cmp.Diff(always, required); diff != "" && !slices.Contains(requests, name) {
			t.Errorf("%s: always there (-) and required (+) differ:\n%s", name, diff)
		}
	}
}

// members are the names of a struct's JSON members, and of those that are never
// left out.
func members(typ reflect.Type) (all, always []string) {
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		all = append(all, name)
		if !strings.Contains(options, "omit") {
			always = append(always, name)
		}
	}
	slices.Sort(all)
	slices.Sort(always)
	return all, always
}
