package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/apps/diary/entry"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/appkittest"
)

func TestTheAppKeepsItsContract(t *testing.T) {
	appkittest.CheckContract(t, appkittest.Start(t, manifest, setup), manifest)
}

func TestAnEntryIsWrittenReadFoundAndDeleted(t *testing.T) {
	s := appkittest.Start(t, manifest, setup, appkittest.Settings(map[string]any{"timezone": "Asia/Shanghai"}))
	const secret = "今天种了郁金香"
	w := appkittest.Call[Written](t, s, "write_entry", map[string]any{"date": "2026-06-01", "content": secret, "tags": []string{"花园"}, "mood": "calm"})
	if w.Mode != Append || !w.New || w.Characters != 7 {
		t.Errorf("written: %+v", w)
	}
	before := shanghaiNow().Format(entry.DateForm)
	today := appkittest.Call[Written](t, s, "write_entry", map[string]any{"content": "today"})
	if after := shanghaiNow().Format(entry.DateForm); today.Date != before && today.Date != after {
		t.Errorf("today is %s, want %s", today.Date, after)
	}
	if e := appkittest.Call[entry.Entry](t, s, "read_entry", map[string]any{"date": w.Date}); e.Content != secret || e.Mood != "calm" {
		t.Errorf("read: %+v", e)
	}
	if p := appkittest.Call[Page](t, s, "list_entries", map[string]any{"to": "2026-06-01", "from": "2026-06-01"}); p.Total != 1 || p.Entries[0].FirstLine != secret {
		t.Errorf("listed: %+v", p)
	}
	if f := appkittest.Call[Found](t, s, "search_entries", map[string]any{"query": "郁金香 花园"}); f.Total != 1 || f.Matches[0].Snippet != secret {
		t.Errorf("found: %+v", f)
	}
	appkittest.Call[deleted](t, s, "delete_entry", map[string]any{"date": w.Date})
	if e := appkittest.CallFails(t, s, "read_entry", map[string]any{"date": w.Date}); e.Code != "DIARY_NOT_FOUND" {
		t.Errorf("read after deletion: %+v", e)
	}

	for _, kind := range []string{"diary.written", "diary.written", "diary.queried", "diary.queried", "diary.queried", "diary.deleted"} {
		e := s.Events.Wait(t, kind)
		if text, _ := json.Marshal(e); strings.ContainsAny(string(text), "郁花") || strings.Contains(string(text), "calm") {
			t.Errorf("%s tells what the diary says: %s", kind, text)
		}
		if kind == "diary.queried" {
			var q queried
			if e.Decode(t, &q); q.Total != 1 || len(q.Dates) != 1 || q.Dates[0] != w.Date {
				t.Errorf("%s: %+v", kind, q)
			}
		}
	}
}

func TestWhatCannotBeDoneIsAStructuredFailure(t *testing.T) {
	s := appkittest.Start(t, manifest, setup)
	for _, tt := range []struct {
		tool string
		args map[string]any
		code string
	}{
		{"read_entry", map[string]any{"date": "../../etc/passwd"}, "DIARY_INVALID_DATE"},
		{"read_entry", map[string]any{"date": "2026-02-30"}, "DIARY_INVALID_DATE"},
		{"read_entry", map[string]any{"date": "2026-02-28"}, "DIARY_NOT_FOUND"},
		{"delete_entry", map[string]any{"date": "2026-02-28"}, "DIARY_NOT_FOUND"},
		{"write_entry", map[string]any{"content": ""}, "DIARY_INVALID_ARGUMENT"},
		{"write_entry", map[string]any{"content": strings.Repeat("字", maxContent+1)}, "DIARY_TOO_LARGE"},
		{"list_entries", map[string]any{"from": "yesterday"}, "DIARY_INVALID_DATE"},
		{"search_entries", map[string]any{"query": " "}, "DIARY_INVALID_QUERY"},
	} {
		if e := appkittest.CallFails(t, s, tt.tool, tt.args); e.Code != tt.code || e.Retryable || e.Message == "" {
			t.Errorf("%s: got %+v, want %s", tt.tool, e, tt.code)
		}
	}
	for tool, args := range map[string]map[string]any{
		"write_entry":    {"content": "x", "mode": "erase"},
		"read_entry":     {},
		"list_entries":   {"limit": 101},
		"search_entries": {"query": 5},
		"delete_entry":   {"date": "2026-01-01", "force": true},
	} {
		appkittest.CallRefused(t, s, tool, args)
	}
}

func TestTheIndexShowsTheNewestEntriesAndSaysWhenItChanges(t *testing.T) {
	for _, version := range []string{"2025-11-25", ""} {
		s := appkittest.Start(t, manifest, setup, appkittest.Protocol(version))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Client.Subscribe(ctx, &mcp.SubscribeParams{URI: resourceURI}); err != nil {
			t.Fatal(err)
		}
		appkittest.Call[Written](t, s, "write_entry", map[string]any{"date": "2026-11-29", "content": "# Tulips\nmore"})
		s.Events.WaitUpdated(t, resourceURI, 1)
		var index Page
		s.ReadJSON(t, resourceURI, &index)
		if index.Total != 1 || index.Entries[0].FirstLine != "Tulips" || index.Entries[0].SizeBytes == 0 {
			t.Errorf("%s: got %+v", version, index)
		}
		appkittest.Call[deleted](t, s, "delete_entry", map[string]any{"date": "2026-11-29"})
		s.Events.WaitUpdated(t, resourceURI, 2)
	}
}

// TestAKillLeavesEveryEntryOldOrNew has several days replaced over and over, each
// time by a number and a long row of one letter, and kills the program meanwhile.
func TestAKillLeavesEveryEntryOldOrNew(t *testing.T) {
	program, dir := appkittest.Build(t, "."), t.TempDir()
	var confirmed [4]int
	date := func(i int) string { return fmt.Sprintf("2026-11-%02d", i+1) }
	text := func(n int) string { return fmt.Sprint(n, " ", strings.Repeat(string(rune('a'+n%26)), 50_000)) }
	for round := range 6 {
		s := appkittest.StartBinary(t, program, appkittest.DataDir(dir))
		for i := range confirmed {
			if round == 0 {
				appkittest.Call[Written](t, s, "write_entry", map[string]any{"date": date(i), "content": text(0)})
			}
			e := appkittest.Call[entry.Entry](t, s, "read_entry", map[string]any{"date": date(i)})
			number, _, _ := strings.Cut(e.Content, " ")
			n, err := strconv.Atoi(number)
			if err != nil || n < confirmed[i] || e.Content != text(n) {
				t.Fatalf("round %d, %s: %d was confirmed, and there is %.40q of %d bytes", round, date(i), confirmed[i], e.Content, len(e.Content))
			}
			confirmed[i] = n
		}
		var (
			writers sync.WaitGroup
			done    atomic.Int32
			enough  = make(chan struct{})
			goal    = int32(4 + rand.IntN(30))
		)
		for i := range confirmed {
			writers.Go(func() {
				for n := confirmed[i] + 1; ; n++ {
					res, err := s.CallRaw("write_entry", map[string]any{"date": date(i), "content": text(n), "mode": "replace"})
					if err != nil {
						return // killed
					}
					if res.IsError {
						t.Errorf("writing: %v", res.StructuredContent)
						return
					}
					if confirmed[i] = n; done.Add(1) == goal {
						close(enough)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { writers.Wait(); close(ended) }()
		select {
		case <-enough:
			s.Kill(t)
			<-ended
		case <-ended:
			t.Fatal("nobody writes any more, and nobody was killed")
		}
	}
}
