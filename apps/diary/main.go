// Command aurora-diary is the app im.polaris.diary: a diary with one Markdown
// file per day, which people may read and edit, too.
//
//	im.polaris.diary.write_entry    {"content": "今天种了郁金香。", "tags": ["花园"]}
//	im.polaris.diary.search_entries {"query": "郁金香"}
//
// What was written is the event diary.written, what was asked for is
// diary.queried; both name dates and never hold what the diary says. A tool
// answers once its change is on disk, and a crash leaves an entry old or new,
// whole. Files are in the folder "entries" of the app's data; see [entry.Entry].
//
// main.go adapts the service to MCP and holds no rule of its own; service.go,
// store.go and the packages entry, textsearch and changes know nothing of MCP. A
// change and its event go together: see package changes. The app reads
// {"timezone": "Europe/Berlin"} from its configuration, which says when a day
// ends; without it that is where the machine is.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // the zones are here also where the machine has none

	"github.com/aurorabot-dev/platform/apps/diary/entry"
	"github.com/aurorabot-dev/platform/mcpkit/appkit"
)

//go:embed manifest.yaml
var manifest []byte

const (
	resourceURI  = "aurora://diary/index"
	indexEntries = 100 // of the newest, in the resource
)

func main() { appkit.Main(manifest, setup) }

func setup(app *appkit.App) error {
	cfg := struct {
		Timezone string `json:"timezone"`
	}{Timezone: "Local"}
	if err := app.Config(&cfg); err != nil {
		return err
	}
	zone, err := time.LoadLocation(cfg.Timezone)
	if err != nil {
		return fmt.Errorf("reading the configuration: timezone: %w", err)
	}
	diary, err := Open(filepath.Join(app.DataDir(), "entries"), func() time.Time { return time.Now().In(zone) })
	if err != nil {
		return err
	}
	if err := diary.Tell(filepath.Join(app.DataDir(), "changes"), func(key string, news json.RawMessage) error {
		var data json.RawMessage
		n := News{Data: &data}
		if err := json.Unmarshal(news, &n); err != nil {
			return err
		}
		err := app.Emit(context.Background(), appkit.Event{Type: n.Type, Summary: n.Summary, Data: data, Key: "change " + key})
		if err != nil {
			app.Log.Error("an event waits for the next start", "type", n.Type, "error", err)
		}
		return err
	}); err != nil {
		app.Log.Error("what was changed before the last end is not told", "error", err)
	}
	addTools(app, diary)
	app.AddResource(appkit.Resource{
		URI:         resourceURI,
		Name:        "diary-index",
		Title:       "日记索引 / Diary index",
		Description: "The newest entries: date, size and first line.",
	}, func(ctx context.Context) (any, error) {
		return diary.List(ctx, "", "", "", indexEntries)
	})
	return nil
}

// The results as a sentence for a person.

func (d deleted) Text() string { return "The entry for " + d.Date + " is deleted." }

func (w Written) Text() string {
	return fmt.Sprintf("The entry for %s is written; it has %d characters.", w.Date, w.Characters)
}

func (p Page) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d entries:", len(p.Entries), p.Total)
	for _, e := range p.Entries {
		fmt.Fprintf(&b, "\n%s  %s%s", e.Date, e.FirstLine, e.Problem)
	}
	return b.String()
}

func (f Found) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d entries:", len(f.Matches), f.Total)
	for _, m := range f.Matches {
		fmt.Fprintf(&b, "\n%s  %s", m.Date, m.Snippet)
	}
	return b.String()
}

// queried is the data of diary.queried.
type queried struct {
	Kind  string   `json:"kind"` // read, list or search
	Dates []string `json:"dates"`
	Total int      `json:"total"`
}

func addTools(app *appkit.App, diary *Service) {
	changed := func(ctx context.Context) {
		if err := app.ResourceChanged(ctx, resourceURI); err != nil {
			app.Log.Debug("a change was not announced", "error", err)
		}
	}
	// What was asked has been asked when this is called, even if the caller has left by
	// now; an event that cannot be kept is no reason to report it otherwise.
	asked := func(ctx context.Context, q queried) {
		e := appkit.Event{Type: "diary.queried", Summary: fmt.Sprintf("diary: %s, %d entries", q.Kind, q.Total), Data: q}
		if err := app.Emit(context.WithoutCancel(ctx), e); err != nil {
			app.Log.Error("an event is lost", "type", e.Type, "error", err)
		}
	}

	appkit.AddTool(app, appkit.Tool{
		Name:        "write_entry",
		Title:       "写日记 / Write an entry",
		Description: "Write into the diary, by default as a new paragraph of today's entry. An entry has at most 100000 characters.",
		Destructive: true,
	}, func(ctx context.Context, in struct {
		Date    string   `json:"date,omitempty" jsonschema:"YYYY-MM-DD; without it today"`
		Content string   `json:"content" jsonschema:"the text, as Markdown"`
		Mode    Mode     `json:"mode,omitempty" jsonschema:"append adds to an entry that is there, replace takes its place, create fails if there is one" enum:"append,replace,create" default:"append"`
		Tags    []string `json:"tags,omitempty" jsonschema:"short words to find it by; append adds them to those it has"`
		Mood    string   `json:"mood,omitempty" jsonschema:"a word or two"`
	}) (Written, error) {
		w, err := diary.Write(Draft{in.Date, in.Content, in.Mode, in.Tags, in.Mood})
		if err == nil {
			changed(ctx)
		}
		return w, err
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "read_entry",
		Title:       "读日记 / Read an entry",
		Description: "Read the diary's entry of a day.",
		ReadOnly:    true,
	}, func(ctx context.Context, in struct {
		Date string `json:"date" jsonschema:"YYYY-MM-DD"`
	}) (entry.Entry, error) {
		e, err := diary.Read(in.Date)
		if err != nil {
			return entry.Entry{}, err
		}
		asked(ctx, queried{"read", []string{e.Date}, 1})
		return *e, nil
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "list_entries",
		Title:       "列出日记 / List entries",
		Description: "List the diary's entries with their first lines, the newest first.",
		ReadOnly:    true,
	}, func(ctx context.Context, in struct {
		From   string `json:"from,omitempty" jsonschema:"YYYY-MM-DD, the first day; without it from the beginning"`
		To     string `json:"to,omitempty" jsonschema:"YYYY-MM-DD, the last day; without it to the end"`
		Limit  int    `json:"limit,omitempty" jsonschema:"how many at most" minimum:"1" maximum:"100" default:"30"`
		Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
	}) (Page, error) {
		p, err := diary.List(ctx, in.From, in.To, in.Cursor, in.Limit)
		if err == nil {
			q := queried{"list", []string{}, p.Total}
			for _, e := range p.Entries {
				q.Dates = append(q.Dates, e.Date)
			}
			asked(ctx, q)
		}
		return p, err
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "search_entries",
		Title:       "搜索日记 / Search entries",
		Description: "Find entries in which all words of a query occur, in text, tags or mood; case and width do not matter. Works within words and for Chinese.",
		ReadOnly:    true,
	}, func(ctx context.Context, in struct {
		Query string `json:"query" jsonschema:"1 to 16 words or parts of words, with blanks between; at most 200 characters"`
		Limit int    `json:"limit,omitempty" jsonschema:"how many at most" minimum:"1" maximum:"50" default:"10"`
	}) (Found, error) {
		f, err := diary.Search(ctx, in.Query, in.Limit)
		if err == nil {
			q := queried{"search", []string{}, f.Total}
			for _, m := range f.Matches {
				q.Dates = append(q.Dates, m.Date)
			}
			asked(ctx, q)
		}
		return f, err
	})

	appkit.AddTool(app, appkit.Tool{
		Name:        "delete_entry",
		Title:       "删除日记 / Delete an entry",
		Description: "Delete the diary's entry of a day for good.",
		Destructive: true,
	}, func(ctx context.Context, in struct {
		Date string `json:"date" jsonschema:"YYYY-MM-DD"`
	}) (deleted, error) {
		err := diary.Delete(in.Date)
		if err == nil {
			changed(ctx)
		}
		return deleted{in.Date}, err
	})
}
