package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aurorabot-dev/platform/apps/diary/entry"
	"github.com/aurorabot-dev/platform/apps/diary/textsearch"
)

var shanghai = time.FixedZone("CST", 8*3600)

func shanghaiNow() time.Time { return time.Now().In(shanghai) }

func open(t testing.TB, dir string) *Service {
	t.Helper()
	s, err := Open(dir, shanghaiNow)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t testing.TB, s *Service, d Draft) Written {
	t.Helper()
	if d.Mode == "" {
		d.Mode = Append
	}
	w, err := s.Write(d)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func content(t testing.TB, s *Service, date string) string {
	t.Helper()
	e, err := s.Read(date)
	if err != nil {
		t.Fatal(err)
	}
	return e.Content
}

// edit changes a file behind the service's back.
func edit(t testing.TB, s *Service, date, file string) {
	t.Helper()
	if err := os.WriteFile(s.store.path(date), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
}

func list(t testing.TB, s *Service, from, to string) []string {
	t.Helper()
	p, err := s.List(t.Context(), from, to, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var dates []string
	for _, e := range p.Entries {
		dates = append(dates, e.Date)
	}
	return dates
}

func search(t testing.TB, s *Service, query string) []string {
	t.Helper()
	f, err := s.Search(t.Context(), query, 50)
	if err != nil {
		t.Fatal(err)
	}
	var dates []string
	for _, m := range f.Matches {
		dates = append(dates, m.Date)
	}
	return dates
}

func TestTheModeDecidesWhatBecomesOfAnEntry(t *testing.T) {
	s := open(t, t.TempDir())
	const date = "2026-11-29"
	if w := write(t, s, Draft{Date: date, Content: "one", Mode: Create, Tags: []string{"a"}, Mood: "calm"}); !w.New || w.Characters != 3 {
		t.Errorf("created: %+v", w)
	}
	if _, err := s.Write(Draft{Date: date, Content: "x", Mode: Create}); code(err) != "DIARY_EXISTS" {
		t.Errorf("created twice: %v", err)
	}
	if w := write(t, s, Draft{Date: date, Content: "two", Tags: []string{"b", "a", " "}}); w.New || !slices.Equal(w.Tags, []string{"a", "b"}) || w.Mood != "calm" {
		t.Errorf("appended: %+v", w)
	}
	if got := content(t, s, date); got != "one\n\ntwo" {
		t.Errorf("appended: %q", got)
	}
	write(t, s, Draft{Date: date, Content: "three\n", Mode: Replace, Mood: "tired"})
	e, err := s.Read(date)
	if err != nil || e.Content != "three\n" || e.Mood != "tired" || !slices.Equal(e.Tags, []string{"a", "b"}) || e.Created.IsZero() || e.Updated.Before(e.Created) {
		t.Errorf("replaced: %+v, %v", e, err)
	}
	if err := s.Delete(date); err != nil {
		t.Error(err)
	}
	if _, err := s.Read(date); code(err) != "DIARY_NOT_FOUND" {
		t.Errorf("read after deletion: %v", err)
	}
	if err := s.Delete(date); code(err) != "DIARY_NOT_FOUND" {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestTodayIsTheDayOfTheDiarysZone(t *testing.T) {
	s, err := Open(t.TempDir(), func() time.Time { return time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC).In(shanghai) })
	if err != nil {
		t.Fatal(err)
	}
	if w := write(t, s, Draft{Content: "late"}); w.Date != "2026-11-30" {
		t.Errorf("written under %s", w.Date)
	}
}

func TestWhatDoesNotFitIsRefusedAndNothingIsLost(t *testing.T) {
	s := open(t, t.TempDir())
	const date = "2026-11-29"
	full := strings.Repeat("日", maxContent)
	if w := write(t, s, Draft{Date: date, Content: full, Mode: Replace}); w.Characters != maxContent {
		t.Errorf("the longest entry: %+v", w)
	}
	many := make([]string, entry.MaxTags+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, tt := range []struct {
		draft Draft
		code  string
	}{
		{Draft{Date: date, Content: full + "记", Mode: Replace}, "DIARY_TOO_LARGE"},
		{Draft{Date: date, Content: "记", Mode: Append}, "DIARY_TOO_LARGE"},
		{Draft{Date: date, Content: " \n ", Mode: Append}, "DIARY_INVALID_ARGUMENT"},
		{Draft{Date: date, Content: "x", Mode: "erase"}, "DIARY_INVALID_ARGUMENT"},
		{Draft{Date: date, Content: "x", Mode: Replace, Tags: many}, "DIARY_INVALID_ARGUMENT"},
		{Draft{Date: date, Content: "x", Mode: Replace, Tags: []string{strings.Repeat("x", entry.MaxWord+1)}}, "DIARY_INVALID_ARGUMENT"},
		{Draft{Date: date, Content: "x", Mode: Replace, Mood: strings.Repeat("x", entry.MaxWord+1)}, "DIARY_INVALID_ARGUMENT"},
		{Draft{Date: "../" + date, Content: "x", Mode: Replace}, "DIARY_INVALID_DATE"},
	} {
		if _, err := s.Write(tt.draft); code(err) != tt.code {
			t.Errorf("%.40q %s: got %v, want %s", tt.draft.Content, tt.draft.Mode, err, tt.code)
		}
	}
	if content(t, s, date) != full {
		t.Error("a refused write changed the entry")
	}
}

func TestAListIsReadPageByPageNewestFirst(t *testing.T) {
	s := open(t, t.TempDir())
	var want []string
	for day := 28; day > 0; day-- {
		date := fmt.Sprintf("2026-02-%02d", day)
		write(t, s, Draft{Date: date, Content: "# Day " + date + "\nmore"})
		want = append(want, date)
	}
	var got []string
	for cursor := ""; ; {
		p, err := s.List(t.Context(), "", "", cursor, 10)
		if err != nil || p.Total != 28 {
			t.Fatal(p.Total, err)
		}
		for _, e := range p.Entries {
			got = append(got, e.Date)
			if e.FirstLine != "Day "+e.Date || e.SizeBytes == 0 || e.Characters != 21 {
				t.Errorf("got %+v", e)
			}
		}
		if cursor = p.NextCursor; cursor == "" {
			break
		}
		// What changes between two pages neither repeats nor hides another entry.
		write(t, s, Draft{Date: "2026-02-28", Content: "more"})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	if got := list(t, s, "2026-02-03", "2026-02-05"); !slices.Equal(got, []string{"2026-02-05", "2026-02-04", "2026-02-03"}) {
		t.Errorf("a range: %v", got)
	}
	for _, r := range [][3]string{{"2026-02-05", "2026-02-03", ""}, {"x", "", ""}, {"", "2026-02-30", ""}, {"", "", "../x"}} {
		if _, err := s.List(t.Context(), r[0], r[1], r[2], 10); code(err) != "DIARY_INVALID_DATE" {
			t.Errorf("%v: got %v", r, err)
		}
	}
}

func TestASearchRanksByHitsAndThenByDate(t *testing.T) {
	s := open(t, t.TempDir())
	write(t, s, Draft{Date: "2026-01-01", Content: "今天下雨。雨很大，雨伞坏了。"})
	write(t, s, Draft{Date: "2026-01-02", Content: "还是下雨"})
	write(t, s, Draft{Date: "2026-01-03", Content: "Sunny. 没有雨"})
	write(t, s, Draft{Date: "2026-01-04", Content: "nothing", Tags: []string{"雨天"}, Mood: "Calm"})
	for query, want := range map[string][]string{
		"雨":     {"2026-01-01", "2026-01-04", "2026-01-03", "2026-01-02"},
		"下雨":    {"2026-01-02", "2026-01-01"},
		"下 雨":   {"2026-01-01", "2026-01-02"},
		"雨 坏了":  {"2026-01-01"},
		"SUNNY": {"2026-01-03"},
		"calm":  {"2026-01-04"},
		"雪":     nil,
	} {
		if got := search(t, s, query); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
	f, err := s.Search(t.Context(), "雨", 1)
	if err != nil || f.Total != 4 || len(f.Matches) != 1 || f.Matches[0].Hits != 3 || f.Matches[0].Snippet != "今天下雨。雨很大，雨伞坏了。" {
		t.Errorf("with a limit: %+v, %v", f, err)
	}
	for _, query := range []string{"", "  ", strings.Repeat("x", maxQuery+1), "a b c d e f g h i j k l m n o p q"} {
		if _, err := s.Search(t.Context(), query, 10); code(err) != "DIARY_INVALID_QUERY" {
			t.Errorf("%q: got %v", query, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, "雨", 10); err == nil {
		t.Error("a cancelled search went on")
	}
}

func TestEditsFromOutsideAreSeen(t *testing.T) {
	s := open(t, t.TempDir())
	const date = "2026-11-29"
	// Two edits within the grain of the file system's clock, as long as each other.
	now := time.Now()
	for _, text := range []string{"red", "sky"} {
		edit(t, s, date, text)
		if err := os.Chtimes(s.store.path(date), now, now); err != nil {
			t.Fatal(err)
		}
		if got := search(t, s, text); len(got) != 1 {
			t.Fatalf("%s was not seen: %v", text, got)
		}
	}
	edit(t, s, "2026-11-30", "by hand")
	if got := search(t, s, "hand"); !slices.Equal(got, []string{"2026-11-30"}) {
		t.Errorf("a new file: %v", got)
	}
	write(t, s, Draft{Date: date, Content: "blue"})
	if got := content(t, s, date); got != "sky\n\nblue" {
		t.Errorf("appended to an edited entry: %q", got)
	}
	if err := os.Remove(s.store.path(date)); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s, "", ""); !slices.Equal(got, []string{"2026-11-30"}) {
		t.Errorf("after a removal: %v", got)
	}
}

func TestAnOldFileIsReadOnceUntilItChanges(t *testing.T) {
	s := open(t, t.TempDir())
	const date = "2026-11-29"
	edit(t, s, date, "red")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.store.path(date), old, old); err != nil {
		t.Fatal(err)
	}
	if got := search(t, s, "red"); len(got) != 1 {
		t.Fatal(got)
	}
	// The same size and time: only a second reading could see this.
	edit(t, s, date, "sky")
	if err := os.Chtimes(s.store.path(date), old, old); err != nil {
		t.Fatal(err)
	}
	if got := search(t, s, "red"); len(got) != 1 {
		t.Error("the file was read again")
	}
	edit(t, s, date, "sky")
	if got := search(t, s, "sky"); len(got) != 1 {
		t.Error("the change was not seen")
	}
}

func TestWhatIsNoEntryIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".tmp-123", "notes.md", "2026-02-30.md", "2026-11-29.md.bak", "2026-11-28.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "2026-11-27.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "2026-11-26.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if got := list(t, s, "", ""); got != nil {
		t.Errorf("listed %v", got)
	}
	for _, date := range []string{"2026-11-27", "2026-11-26"} {
		if e, err := s.Read(date); code(err) != "DIARY_STORAGE" {
			t.Errorf("%s: read %+v, %v", date, e, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".tmp-123")); !os.IsNotExist(err) {
		t.Errorf("the rest of a killed write is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.md")); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNoTextOrTooLargeIsNeverOverwrittenByAppending(t *testing.T) {
	s := open(t, t.TempDir())
	edit(t, s, "2026-11-29", "caf\xe9")
	edit(t, s, "2026-11-30", strings.Repeat("x", maxFile+1))
	for date, want := range map[string]string{"2026-11-29": "DIARY_NOT_TEXT", "2026-11-30": "DIARY_TOO_LARGE"} {
		before, err := os.ReadFile(s.store.path(date))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(Draft{Date: date, Content: "more", Mode: Append}); code(err) != want {
			t.Errorf("%s: got %v, want %s", date, err, want)
		}
		if after, err := os.ReadFile(s.store.path(date)); err != nil || string(after) != string(before) {
			t.Errorf("%s was changed", date)
		}
	}
	if got := content(t, s, "2026-11-29"); got != "caf\uFFFD" {
		t.Errorf("read %q", got)
	}
	f, err := s.Search(t.Context(), "caf", 10)
	if err != nil || f.Total != 1 || f.Skipped != 1 {
		t.Errorf("searched: %+v, %v", f, err)
	}
	p, err := s.List(t.Context(), "", "", "", 10)
	if err != nil || p.Total != 2 || p.Entries[0].Problem == "" || p.Entries[1].Problem != "" {
		t.Errorf("listed: %+v, %v", p, err)
	}
	write(t, s, Draft{Date: "2026-11-30", Content: "new", Mode: Replace})
}

func TestAFolderThatIsGoneIsAFailureThatMayPass(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "entries")
	s := open(t, dir)
	write(t, s, Draft{Date: "2026-11-29", Content: "one"})
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, write1 := s.Write(Draft{Date: "2026-11-29", Content: "two", Mode: Append})
	_, read := s.Read("2026-11-29")
	_, list := s.List(t.Context(), "", "", "", 10)
	_, search := s.Search(t.Context(), "one", 10)
	for _, err := range []error{write1, read, list, search, s.Delete("2026-11-29")} {
		if code(err) != "DIARY_STORAGE" || strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	write(t, s, Draft{Date: "2026-11-29", Content: "two"})
	if got := content(t, s, "2026-11-29"); got != "one\n\ntwo" {
		t.Errorf("afterwards: %q", got)
	}
}

func TestManyMayWriteAndSearchAtOnce(t *testing.T) {
	s := open(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 10 {
				write(t, s, Draft{Date: "2026-11-29", Content: fmt.Sprintf("<%d-%d>", i, j)})
				if _, err := s.Search(t.Context(), "<", 10); err != nil {
					t.Error(err)
				}
				if _, err := s.List(t.Context(), "", "", "", 10); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := strings.Count(content(t, s, "2026-11-29"), "<"); got != 80 {
		t.Errorf("%d of 80 paragraphs are there", got)
	}
}

// fill makes n entries of about 600 characters, half of them Chinese.
func fill(b *testing.B, n int) *Service {
	b.Helper()
	s := open(b, b.TempDir())
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"今天", "郁金香", "下雨", "散步", "garden", "Meeting", "coffee", "，", "。\n", "工作", " "}
	day, old := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Now().Add(-time.Hour)
	for range n {
		var text strings.Builder
		for range 200 {
			text.WriteString(words[rng.IntN(len(words))])
		}
		date := day.Format(entry.DateForm)
		e := entry.Entry{Date: date, Content: text.String(), Created: day, Updated: day, Tags: []string{"test"}}
		file, err := e.Encode()
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(s.store.path(date), file, 0o600); err != nil { // not synced: 10,000 of them
			b.Fatal(err)
		}
		if err := os.Chtimes(s.store.path(date), old, old); err != nil {
			b.Fatal(err)
		}
		day = day.AddDate(0, 0, 1)
	}
	return s
}

func BenchmarkTenThousandEntries(b *testing.B) {
	s := fill(b, 10_000)
	ask := func(b *testing.B, s *Service) {
		f, err := s.Search(b.Context(), "郁金香 COFFEE", 10)
		if err != nil || len(f.Matches) != 10 {
			b.Fatal(f, err)
		}
	}
	b.Run("FirstSearch", func(b *testing.B) {
		for b.Loop() {
			ask(b, open(b, s.store.dir))
		}
	})
	b.Run("Search", func(b *testing.B) {
		ask(b, s)
		for b.Loop() {
			ask(b, s)
		}
	})
	b.Run("List", func(b *testing.B) {
		for b.Loop() {
			if p, err := s.List(b.Context(), "", "", "", 30); err != nil || p.Total != 10_000 {
				b.Fatal(err)
			}
		}
	})
	b.Run("Replace", func(b *testing.B) {
		for b.Loop() {
			write(b, s, Draft{Date: "2010-01-01", Content: "x", Mode: Replace})
		}
	})
}

func TestChangesAreToldOnceAndOnesThatFailAreNot(t *testing.T) {
	dir, notes := t.TempDir(), t.TempDir()
	var told []string
	keys := map[string]bool{}
	again := func(fail error) *Service {
		t.Helper()
		s := open(t, dir)
		if err := s.Tell(notes, func(key string, news json.RawMessage) error {
			if fail == nil {
				told, keys[key] = append(told, string(news)), true
			}
			return fail
		}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := again(errors.New("there is no room"))
	w := write(t, s, Draft{Date: "2026-11-01", Content: "one", Mode: Create})
	if _, err := s.Write(Draft{Date: "2026-11-01", Content: "two", Mode: Create}); err == nil {
		t.Fatal("written twice")
	}
	s = again(nil) // as after a crash
	if err := s.Delete("2026-11-01"); err != nil {
		t.Fatal(err)
	}
	again(nil)
	want := []string{
		fmt.Sprintf(`{"type":"diary.written","summary":"diary: 2026-11-01, 3 characters","data":{"date":"2026-11-01","mode":"create","new":true,"characters":3,"size_bytes":%d}}`, w.SizeBytes),
		`{"type":"diary.deleted","summary":"diary: 2026-11-01 is deleted","data":{"date":"2026-11-01"}}`,
	}
	if !slices.Equal(told, want) || len(keys) != 2 {
		t.Errorf("told %q under %d keys\nwant %q", told, len(keys), want)
	}
}

func TestTheFirstLineIsTheFirstThatSaysSomething(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"\n\n## Garden \nx":                 "Garden",
		"a\tb\x00c":                         "a b c",
		"###\n今天":                           "今天",
		strings.Repeat("字", maxFirstLine):   strings.Repeat("字", maxFirstLine),
		strings.Repeat("字", maxFirstLine+1): strings.Repeat("字", maxFirstLine) + "…",
	} {
		if got := textsearch.FirstLine(text, maxFirstLine); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
