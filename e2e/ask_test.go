//go:build e2e

package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAServerOfOthersOffersAndAsks takes the reference server of the protocol
// through resources, prompts, subscriptions and questions.
func TestAServerOfOthersOffersAndAsks(t *testing.T) {
	scratch := t.TempDir()
	manifest := manifestOf("everything", "mcp-server-everything", "", scratch)
	p := start(t, map[string]string{"everything.yaml": manifest + "  elicitation: true\n  sampling: true\n  roots: true\n"})
	p.ready(1, 4*time.Minute)
	says := func(want string, args ...string) {
		t.Helper()
		if out, err := p.verb(args...); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v: %s lacks %q", args, err, out, want)
		}
	}
	const uri = "demo://resource/dynamic/text/1"
	says("demo://resource/static/document/features.md", "resources", "ls")
	says("demo://resource/dynamic/text/{resourceId}", "resources", "ls", "--templates")
	says("Resource 1", "resources", "read", "everything", uri)
	says("completable-prompt", "prompts", "ls")
	says("What's weather in Berlin?", "prompts", "get", "everything", "args-prompt", "city=Berlin")
	says("[resource "+uri+"]", "prompts", "get", "everything", "resource-prompt", "resourceType=Text", "resourceId=1")
	if _, err := p.verb("prompts", "get", "everything", "args-prompt"); err == nil {
		t.Error("a prompt without its argument was expanded")
	}
	says("file://", "call", "everything.get-roots-list")
	if out, err := p.verb("call", "everything.trigger-sampling-request", `{"prompt":"hi"}`); err == nil {
		t.Errorf("somebody answered for a model: %s", out)
	}

	called := make(chan string, 1)
	go func() {
		out, err := p.verb("call", "everything.trigger-elicitation-request", "--timeout", "60s")
		if err != nil {
			t.Error(err)
		}
		called <- string(out)
	}()
	var waiting struct {
		Calls []struct {
			ID string `json:"call_id"`
		}
	}
	until(t, time.Minute, "the question", func() (bool, any) {
		p.verbJSON(&waiting, "calls", "ls")
		return len(waiting.Calls) == 1, waiting
	})
	id := waiting.Calls[0].ID
	if _, err := p.verb("calls", "answer", id, "--content", `{"name":"Ada","integer":1000}`); err == nil {
		t.Error("an answer that does not fit was taken")
	}
	says("", "calls", "answer", id, "--content", `{"name":"Ada"}`)
	if out := <-called; !strings.Contains(out, "Name: Ada") {
		t.Errorf("the tool answered %s", out)
	}

	says("", "resources", "watch", "everything", uri, "--inbox")
	says("", "call", "everything.toggle-subscriber-updates")
	until(t, time.Minute, "news of the resource in the inbox", func() (bool, any) {
		n := p.count("mcp.notification.resources.updated", "everything")
		return n > 0, n
	})
	says("", "resources", "watch", "everything", uri, "--stop")
	p.end(syscall.SIGTERM, 30*time.Second)
}
