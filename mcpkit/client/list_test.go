package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client/session"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func TestEveryPageOfToolsIsRead(t *testing.T) {
	k := newKit(t)
	k.connect(t, "paged")
	if names := k.toolNames(); len(names) != 15 || names[0] != "p0_a" || names[14] != "p4_c" {
		t.Errorf("got %v", names)
	}
}

func TestOnlyTheToolsThatAreWantedAreThere(t *testing.T) {
	for _, c := range []struct{ include, exclude, want []string }{
		{[]string{"p0_*", "p4_c", "none"}, []string{"p0_b"}, []string{"p0_a", "p0_c", "p4_c"}},
		{nil, []string{"p[0-3]_?", "p4_a"}, []string{"p4_b", "p4_c"}},
		{nil, []string{"*"}, nil},
	} {
		k := newKit(t)
		conn := k.conn(t, "paged")
		conn.Config.IncludeTools, conn.Config.ExcludeTools = c.include, c.exclude
		if _, err := k.Connect(deadline(t), conn); err != nil {
			t.Fatal(err)
		}
		if names := k.toolNames(); !slices.Equal(names, c.want) {
			t.Errorf("%q without %q: got %q, want %q", c.include, c.exclude, names, c.want)
		}
	}
}

func TestListsOfToolsThatAreWrong(t *testing.T) {
	t.Parallel()
	for mode, c := range map[string]struct {
		want  []string
		code  string // of what is reported
		times int    // how many warnings name it
	}{
		"cyclic-cursor": {want: []string{"echo", "echo_two"}, code: "list_guard", times: 1},
		"dup-names":     {want: []string{"echo"}, code: "tool_dropped", times: 2},
		"null-schema":   {want: []string{"array", "echo", "missing", "null", "text", "true", "untyped"}},
		"not-tools":     {want: []string{"echo"}, code: "tool_dropped", times: 5},
		"deep-schema":   {want: []string{"deep", "echo"}},
		"slow-pages":    {want: []string{"echo", "two"}, code: "list_guard", times: 1},
	} {
		t.Run(mode, func(t *testing.T) {
			k := newKit(t)
			k.connectWith(t, session.Config{ListTimeout: 3 * time.Second}, mode)
			if d := cmp.Diff(c.want, k.toolNames()); d != "" {
				t.Error(d)
			}
			if c.code != "" {
				k.waitFault(t, c.code)
			}
			if n := k.log.count("code=" + c.code); c.times > 0 && n != c.times {
				t.Errorf("%d warnings", n)
			}
			k.echo(t, mode, "the session lives")
		})
	}
}

func TestOddNamesAreKeptAsTheyAreAndToldApart(t *testing.T) {
	k := newKit(t)
	k.connect(t, "bad-names")
	tools := k.Tools().Tools
	if len(tools) != 13 { // all but the empty one
		t.Errorf("%d tools: %q", len(tools), k.toolNames())
	}
	table := catalog.NewTable("mcp", tools)
	seen := map[string]bool{}
	for _, tool := range tools {
		name := table.ExportName(tool.ID())
		if seen[name] {
			t.Errorf("two tools are %s", name)
		}
		seen[name] = true
	}
	k.waitFault(t, "tool_dropped")
}

func TestEndlessPagesEndAtTheLimits(t *testing.T) {
	for _, cfg := range []session.Config{{MaxPages: 7}, {MaxTools: 7}} {
		k := newKit(t)
		k.connectWith(t, cfg, "endless-pages")
		if n := len(k.Tools().Tools); n != 7 {
			t.Errorf("%d tools with %+v", n, cfg)
		}
		k.waitFault(t, "list_guard")
	}
}

func TestSchemasAreKeptByteForByte(t *testing.T) {
	k := newKit(t)
	k.connect(t, "not-tools")
	if got := string(k.Tools().Tools[0].InputSchema); got != `{"type":"object","maximum":9007199254740993,"x-own":1.50}` {
		t.Errorf("the schema is %s", got)
	}
}

func TestAServerWhoseListFailsIsDegradedAndTheOthersAreThere(t *testing.T) {
	k := newKit(t)
	k.connect(t, "echo")
	s := k.connect(t, "list-error")
	if i := s.Info(); i.Tools != 0 || !strings.Contains(i.Degraded, "the database is locked") {
		t.Errorf("%+v", i)
	}
	if d := cmp.Diff([]string{"echo", "kept"}, k.toolNames()); d != "" {
		t.Error(d)
	}
	if infos := k.Infos(); len(infos) != 2 || infos[1].Server != "list-error" {
		t.Errorf("%+v", infos)
	}
}

func TestAChangedListIsPublishedOnceWithWhatChanged(t *testing.T) {
	k := newKit(t)
	k.connect(t, "rug-pull")
	before := k.Tools()
	changed, stop := k.Subscribe()
	defer stop()
	k.echo(t, "rug-pull", "pull")
	got := k.waitOf(t, "capability.changed", 1)[0].Data.(*signal.Capability)
	want := &signal.Capability{List: "tools", Added: []string{"shell"}, Changed: []string{"echo"}, Removed: nil, Count: 2, Fingerprint: got.Fingerprint}
	if d := cmp.Diff(want, got); d != "" || got.Fingerprint == "" {
		t.Error(d)
	}
	<-changed
	if after := k.Tools(); after.Fingerprint == before.Fingerprint || !slices.Equal(k.toolNames(), []string{"echo", "shell"}) {
		t.Errorf("the catalogue has %v", k.toolNames())
	}
	if len(before.Tools) != 1 || strings.Contains(before.Tools[0].Description, "ssh") {
		t.Error("a snapshot changed after it was published")
	}
}

func TestToolsThatComeLaterAreAnnounced(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "late-tools")
	if s.Info().Tools != 0 {
		t.Fatal("they are there already")
	}
	k.echo(t, "late-tools", "bring them")
	c := k.waitOf(t, "capability.changed", 1)[0].Data.(*signal.Capability)
	if d := cmp.Diff([]string{"echo"}, c.Added); d != "" {
		t.Error(d)
	}
}

func TestAStormOfListChangedCostsAFewReadingsAndIsNoChange(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	changed, stop := k.Subscribe()
	defer stop()
	k.connectWith(t, session.Config{Debounce: 50 * time.Millisecond}, "list-storm")
	<-changed // by the first reading
	begin := time.Now()
	var readings int
	eventually(t, "a few readings", func() bool {
		told, err := call(k.Manager, t.Context(), "list-storm", "kept", "")
		readings = strings.Count(told, `"tools/list"`)
		return err == nil && readings >= 5
	})
	if limit := int(time.Since(begin)/(50*time.Millisecond)) + 3; readings > limit {
		t.Errorf("%d readings in %v", readings, time.Since(begin))
	}
	if len(changed) != 0 || len(k.of("capability.changed")) != 0 {
		t.Error("the same list was published as a change")
	}
}

func TestAChangeThatNobodyTellsOfIsFoundByLooking(t *testing.T) {
	k := newKit(t)
	k.connectWith(t, session.Config{PollInterval: 30 * time.Millisecond}, "silent-change")
	k.waitOf(t, "capability.changed", 3)
}

func TestTheFingerprintDependsOnTheContentAlone(t *testing.T) {
	print := func(order ...string) string {
		k := newKit(t)
		for _, mode := range order {
			k.connect(t, mode)
		}
		return k.Tools().Fingerprint
	}
	a, b, c := print("echo", "paged"), print("paged", "echo"), print("paged")
	if a != b || a == c || len(a) != 64 {
		t.Error(a, b, c)
	}
}

func TestToolsAreSortedByTheirCanonicalNames(t *testing.T) {
	k := newKit(t)
	for i := range 3 {
		c := k.conn(t, "echo")
		c.Server, c.Alias = fmt.Sprintf("im.test.s%d", 2-i), fmt.Sprint("s", 2-i)
		if _, err := k.Connect(deadline(t), c); err != nil {
			t.Fatal(err)
		}
	}
	tools := k.Tools().Tools
	if !slices.IsSortedFunc(tools, func(a, b *catalog.Tool) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("they are not")
	}
	if first := tools[0]; first.Name != "im.test.s0.echo" || first.Alias != "s0" || first.Source != (catalog.Source{Kind: "mcp", Server: "im.test.s0", OriginalName: "echo"}) {
		t.Errorf("%+v", first)
	}
}

func TestTheCatalogueIsOneSnapshotUntilItDiffers(t *testing.T) {
	k := newKit(t)
	s := k.connect(t, "echo")
	first := k.Tools()
	if k.Tools() != first {
		t.Error("the same catalogue was put together twice")
	}
	s.Close(nil)
	<-s.Done()
	k.connect(t, "echo")
	if k.Tools() != first {
		t.Error("a server that has come back with the same tools makes another catalogue")
	}
	k.connect(t, "modern")
	if now := k.Tools(); now == first || now.Fingerprint == first.Fingerprint || len(now.Tools) <= len(first.Tools) {
		t.Errorf("with one more server the catalogue is %+v", now)
	}
}
