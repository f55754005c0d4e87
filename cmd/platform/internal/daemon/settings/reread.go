package settings

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/aurorabot-dev/platform/mcpkit/strict"
)

// Source is where a running platform reads its settings again.
type Source struct {
	File  string                  // looked at for changes
	Read  func() (Options, error) // defaults, file and flags, as at the start
	Level *slog.LevelVar          // of the log; nil where flags or a terminal decide it
}

// AtStart are the keys of platform.yaml, or the parts of it, that take effect when the
// platform starts, each with the reason. A change of them while it runs is a problem
// of the platform's status until it is restarted or the change is taken back.
var AtStart = map[string]string{
	"data":       "everything that the platform keeps is below it",
	"log.format": "the log goes on as it began",
	"tools":      "models have been told the names",
	"calls":      "calls in flight are measured by them",
	"api":        "its address is open",
	"gateway":    "its address is open",
	"auth":       "tokens are sealed with the key, and servers have been told who the platform is",
	"bus":        "events are on their way through it",
	"inbox":      "the inbox is open",
	"nats":       "the connection is open",
	"events":     "events are on their way",
}

// Next reads the settings again; those that run are now. The problems are what
// of them does not take effect, and why. With an error none of them does; the
// error joins every fault with its place in the file.
func (s *Source) Next(now Options) (next Options, problems []string, err error) {
	next, err = s.Read()
	if err == nil {
		err = next.Validate()
	}
	err = located(s.File, err)
	if err == nil {
		next.Data, err = filepath.Abs(next.Data)
	}
	if err != nil {
		return now, nil, err
	}
	for _, key := range changedKeys(reflect.ValueOf(now), reflect.ValueOf(next), "") {
		if why := Reason(key); why != "" {
			problems = append(problems, fmt.Sprintf("%s: %s has changed; restart the platform for it to take effect: %s", s.File, key, why))
		}
	}
	if s.Level != nil {
		level, _ := next.Log.level() // Validate has seen it
		s.Level.Set(level)
	}
	return next, problems, nil
}

// Reason is why a changed key waits for a restart; empty where it does not.
func Reason(key string) string {
	for part := key; ; {
		if why := AtStart[part]; why != "" {
			return why
		}
		i := strings.LastIndexByte(part, '.')
		if i < 0 {
			return ""
		}
		part = part[:i]
	}
}

// changedKeys are the keys whose values differ between two structs, by the names in
// their json tags.
func changedKeys(a, b reflect.Value, at string) (keys []string) {
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		key := strings.TrimPrefix(at+"."+name, ".")
		switch x, y := a.Field(i), b.Field(i); {
		case x.Kind() == reflect.Struct:
			keys = append(keys, changedKeys(x, y, key)...)
		case (x.Kind() == reflect.Slice || x.Kind() == reflect.Map) && x.Len()+y.Len() == 0:
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}

// located gives the faults of Validate, which begin with their keys, their places in
// the file.
func located(file string, err error) error {
	raw, unread := os.ReadFile(file)
	if err == nil || unread != nil {
		return err
	}
	doc := strict.YAML(file, raw, strict.Options{})
	doc.Decode(new(Options)) // for the places alone
	var all *multierror.Error
	for _, fault := range Split(err) {
		key, message, ok := strings.Cut(fault.Error(), ": ")
		if ok && doc.Has(key) {
			line, column := doc.At(key)
			fault = &strict.Fault{File: file, Line: line, Column: column, Key: key, Message: message}
		}
		all = multierror.Append(all, fault)
	}
	return all
}

// State stands for the content of the file, or for why it cannot be read.
func (s *Source) State() [sha256.Size]byte {
	if s == nil {
		return [sha256.Size]byte{}
	}
	raw, err := os.ReadFile(s.File)
	if err != nil {
		raw = []byte(err.Error())
	}
	return sha256.Sum256(raw)
}

// Split lists the single faults of an error that joins them.
func Split(err error) []error {
	var many *multierror.Error
	if errors.As(err, &many) {
		return slices.Clone(many.Errors)
	}
	if err != nil {
		return []error{err}
	}
	return nil
}
