package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aurorabot-dev/platform/apps/weather/phrases"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Codes of the failures that a caller may meet.
const (
	codeCityMissing  = "WEATHER_CITY_MISSING"          // no city given, none configured
	codeCityNotFound = "WEATHER_CITY_NOT_FOUND"        // no place of that name
	codeTimeout      = "WEATHER_PROVIDER_TIMEOUT"      // retryable
	codeUnreachable  = "WEATHER_PROVIDER_UNREACHABLE"  // retryable
	codeRateLimited  = "WEATHER_PROVIDER_RATE_LIMITED" // retryable, data says when
	codeProvider     = "WEATHER_PROVIDER_ERROR"        // retryable if the provider said 5xx
)

// Config is the configuration file. The zero value of a field is not its
// default; start from DefaultConfig.
type Config struct {
	DefaultCity  string            `json:"default_city"`  // used when a question names none
	Language     string            `json:"language"`      // of answers, such as zh or en; "" follows the city's name
	Units        string            `json:"units"`         // metric or imperial
	Aliases      map[string]string `json:"aliases"`       // further names of cities, in any case
	GeocodingURL string            `json:"geocoding_url"` // base of /v1/search
	ForecastURL  string            `json:"forecast_url"`  // base of /v1/forecast

	RequestSeconds  float64 `json:"request_seconds"`  // bounds one request to the provider
	DeadlineSeconds float64 `json:"deadline_seconds"` // bounds one answer, retries included
}

// DefaultConfig asks the public Open-Meteo service and knows no default city.
func DefaultConfig() Config {
	return Config{
		Units:           "metric",
		GeocodingURL:    "https://geocoding-api.open-meteo.com",
		ForecastURL:     "https://api.open-meteo.com",
		RequestSeconds:  8,
		DeadlineSeconds: 25,
	}
}

// aliases are names that people use and gazetteers do not know.
var aliases = map[string]string{
	"魔都": "上海", "帝都": "北京", "羊城": "广州", "蓉城": "成都", "山城": "重庆",
	"nyc": "New York", "sf": "San Francisco", "l.a.": "Los Angeles",
}

// Service answers questions about the weather. It is safe for concurrent use.
type Service struct {
	cfg       Config
	aliases   map[string]string
	provider  *openMeteo
	places    *cache[[]Place]
	forecasts *cache[*forecast]
	now       func() time.Time
}

// NewService checks cfg and makes a Service.
func NewService(cfg Config) (*Service, error) {
	if cfg.Units != "metric" && cfg.Units != "imperial" {
		return nil, fmt.Errorf("units is %q, want metric or imperial", cfg.Units)
	}
	if cfg.RequestSeconds <= 0 || cfg.DeadlineSeconds <= 0 {
		return nil, errors.New("request_seconds and deadline_seconds must be above zero")
	}
	provider, err := newOpenMeteo(cfg, http.DefaultTransport)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, aliases: map[string]string{}, provider: provider, now: time.Now}
	for _, names := range []map[string]string{aliases, cfg.Aliases} {
		for name, city := range names {
			s.aliases[strings.ToLower(name)] = city
		}
	}
	clock := func() time.Time { return s.now() }
	s.places = newCache[[]Place](500, 0, 30*24*time.Hour, clock)
	s.places.ttlOf = func(found []Place) time.Duration {
		if len(found) == 0 { // a place may have been typed wrong, or the gazetteer been broken
			return 10 * time.Minute
		}
		return 24 * time.Hour
	}
	s.forecasts = newCache[*forecast](200, 10*time.Minute, 6*time.Hour, clock)
	return s, nil
}

// Query is a question to GetWeather.
type Query struct {
	City     string `json:"city,omitempty" jsonschema:"City in any language, such as 上海 or Paris. Where several have the name, append a country or region: Springfield, Illinois. Leave it out for the configured default city." minLength:"1" maxLength:"100"`
	Days     int    `json:"days,omitempty" jsonschema:"How many days to forecast, today included." minimum:"1" maximum:"7" default:"1"`
	Units    string `json:"units,omitempty" jsonschema:"metric (°C, km/h, mm) or imperial (°F, mph, inch). Leave it out for the configured one." enum:"metric,imperial"`
	Language string `json:"language,omitempty" jsonschema:"Language of the answer as a code such as zh or en. Leave it out to follow the city's name." pattern:"^[A-Za-z]{2,3}(-[A-Za-z0-9]+)*$"`
}

// Report is the answer of GetWeather.
type Report struct {
	City      string    `json:"city" jsonschema:"the name of the place, with region and country"`
	Place     Place     `json:"place"`
	Units     Units     `json:"units"`
	Current   Current   `json:"current"`
	Days      []Day     `json:"days"`
	FetchedAt time.Time `json:"fetched_at" jsonschema:"when the provider said so"`
	Stale     bool      `json:"stale" jsonschema:"the provider cannot be asked right now; this is its last word"`
	Source    string    `json:"source"`
	Report    string    `json:"report" jsonschema:"all of it as text"`
}

// Text is the report for a person.
func (r Report) Text() string { return r.Report }

// Place is a place on the map.
type Place struct {
	Name      string  `json:"name"`
	Region    string  `json:"region,omitempty"`
	Country   string  `json:"country,omitempty"`
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
	Timezone  string  `json:"timezone,omitempty"`

	Areas      []string `json:"-"` // what it lies in, by name, and the code of its country
	Population float64  `json:"-"` // 0 where the provider knows none
}

func (p Place) String() string {
	parts := slices.DeleteFunc([]string{p.Name, p.Region, p.Country}, func(s string) bool { return s == "" })
	return strings.Join(slices.Compact(parts), ", ")
}

// Units are the units of a report's numbers.
type Units struct {
	Temperature   string `json:"temperature"`
	Wind          string `json:"wind"`
	Precipitation string `json:"precipitation"`
}

// Current is the weather now. Null is what the provider does not know.
type Current struct {
	Time        string   `json:"time" jsonschema:"local time at the place"`
	Condition   string   `json:"condition"`
	Code        int      `json:"code" jsonschema:"WMO weather code"`
	Temperature *float64 `json:"temperature"`
	FeelsLike   *float64 `json:"feels_like"`
	Humidity    *float64 `json:"humidity" jsonschema:"percent"`
	Wind        *float64 `json:"wind"`
}

// Day is the forecast for a day.
type Day struct {
	Date          string   `json:"date"`
	Condition     string   `json:"condition"`
	Code          int      `json:"code" jsonschema:"WMO weather code"`
	Low           *float64 `json:"low"`
	High          *float64 `json:"high"`
	Precipitation *float64 `json:"precipitation"`
	RainChance    *float64 `json:"rain_chance" jsonschema:"percent"`
	Wind          *float64 `json:"wind" jsonschema:"strongest of the day"`
}

// GetWeather answers q. Its errors are *fault.Error with the codes above.
func (s *Service) GetWeather(ctx context.Context, q Query) (Report, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	city := s.city(q.City)
	if city == "" {
		return Report{}, fault.New(codeCityMissing, "no city was named and no default city is configured")
	}
	language := s.language(q.Language, q.City+city)
	units := q.Units
	if units == "" {
		units = s.cfg.Units
	}

	places, err := s.search(ctx, city, language)
	if err != nil {
		return Report{}, err
	}
	f, err := s.forecasts.get(ctx, fmt.Sprintf("%.4f,%.4f,%s", places[0].Latitude, places[0].Longitude, units),
		func(ctx context.Context) (*forecast, error) { return s.provider.forecast(ctx, places[0], units) })
	if err != nil {
		return Report{}, err
	}
	return s.report(places[0], f.value, q.Days, language, f.at, f.stale), nil
}

// CityQuery is a question to FindCity.
type CityQuery struct {
	Name     string `json:"name" jsonschema:"City name in any language, or a postal code. A country or region may follow after a comma." minLength:"1" maxLength:"100"`
	Language string `json:"language,omitempty" jsonschema:"Language of the answer as a code such as zh or en. Leave it out to follow the name." pattern:"^[A-Za-z]{2,3}(-[A-Za-z0-9]+)*$"`
}

// Places is the answer of FindCity, the likeliest place first.
type Places struct {
	Places []Place `json:"places"`
}

// Text is one place a line.
func (p Places) Text() string {
	lines := make([]string, len(p.Places))
	for i, place := range p.Places {
		lines[i] = fmt.Sprintf("%s (%.2f, %.2f)", place, place.Latitude, place.Longitude)
	}
	return strings.Join(lines, "\n")
}

// FindCity answers q. Its errors are those of GetWeather.
func (s *Service) FindCity(ctx context.Context, q CityQuery) (Places, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	city := s.city(q.Name)
	places, err := s.search(ctx, city, s.language(q.Language, q.Name+city))
	return Places{places}, err
}

func (s *Service) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, seconds(s.cfg.DeadlineSeconds))
}

// city is the name to search for: the default for none, an alias resolved.
func (s *Service) city(name string) string {
	name = strings.Join(strings.Fields(name), " ")
	if name == "" {
		name = s.cfg.DefaultCity
	}
	if city, ok := s.aliases[strings.ToLower(name)]; ok {
		return city
	}
	return name
}

// language is the first that is given of the question's, the configured and the
// city name's own, by its script: English for Latin letters.
func (s *Service) language(asked, name string) string {
	for _, l := range []string{asked, s.cfg.Language} {
		if l != "" {
			primary, _, _ := strings.Cut(strings.ToLower(l), "-")
			return primary
		}
	}
	for _, script := range []struct {
		language string
		tables   []*unicode.RangeTable
	}{
		{"ja", []*unicode.RangeTable{unicode.Hiragana, unicode.Katakana}}, // beside Chinese characters
		{"ko", []*unicode.RangeTable{unicode.Hangul}},
		{"zh", []*unicode.RangeTable{unicode.Han}},
		{"ru", []*unicode.RangeTable{unicode.Cyrillic}},
	} {
		if strings.ContainsFunc(name, func(r rune) bool { return unicode.In(r, script.tables...) }) {
			return script.language
		}
	}
	return "en"
}

// search finds at least one place, or fails. The part of a name before the first comma
// is searched for, and what follows chooses among the places of that name. Gazetteers
// may know 上海 and not 上海市, so a name is tried without such an ending, too.
func (s *Service) search(ctx context.Context, name, language string) ([]Place, error) {
	parts := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(",，、", r) })
	if len(parts) == 0 {
		return nil, fault.New(codeCityNotFound, "there is no place called %q", name)
	}
	head := strings.TrimSpace(parts[0])
	for _, try := range slices.Compact([]string{head, strings.TrimRight(head, "市县縣区區")}) {
		if try == "" {
			continue
		}
		found, err := s.places.get(ctx, strings.ToLower(try)+"\x00"+language,
			func(ctx context.Context) ([]Place, error) { return s.provider.search(ctx, try, language) })
		if err != nil {
			return nil, err
		}
		if chosen := choose(found.value, try, parts[1:]); len(chosen) > 0 {
			return chosen, nil
		}
	}
	return nil, fault.New(codeCityNotFound, "there is no place called %q", name)
}

// manyPeople is the population of a city that a person may mean by another name.
const manyPeople = 100_000

// choose lists the places that lie in the areas, those in most of them first. Among
// equals, inhabited places of exactly the name come before cities of another name,
// which the provider found by a translation, and hamlets come last.
func choose(places []Place, name string, areas []string) []Place {
	type candidate struct {
		Place
		in, tier int
		people   float64
	}
	var list []candidate
	for _, p := range places {
		c := candidate{Place: p, tier: 2}
		for _, area := range areas {
			if p.liesIn(strings.TrimSpace(area)) {
				c.in++
			}
		}
		switch exact := strings.EqualFold(p.Name, name); {
		case exact && p.Population > 0:
			c.tier, c.people = 0, p.Population
		case !exact && p.Population >= manyPeople:
			c.tier = 1
		}
		if c.in > 0 || len(areas) == 0 {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.in, a.in), cmp.Compare(a.tier, b.tier), cmp.Compare(b.people, a.people))
	})
	var out []Place
	for _, c := range list {
		out = append(out, c.Place)
	}
	return out
}

// liesIn reports whether one of the place's areas has a name that begins with area, or
// the other way round: 伊利诺伊 and 伊利诺伊州.
func (p Place) liesIn(area string) bool {
	switch area = strings.ToLower(area); area {
	case "":
		return false
	case "usa":
		area = "us"
	case "uk":
		area = "gb"
	}
	return slices.ContainsFunc(p.Areas, func(name string) bool {
		name = strings.ToLower(name)
		if utf8.RuneCountInString(area) < 2 || utf8.RuneCountInString(name) < 2 {
			return false
		}
		if len(area) == 2 || len(name) == 2 { // a country's code
			return name == area
		}
		return strings.HasPrefix(name, area) || strings.HasPrefix(area, name)
	})
}

// report puts a forecast into words. Days that are over at the place are left out.
func (s *Service) report(place Place, f *forecast, days int, language string, at time.Time, stale bool) Report {
	r := Report{
		City:      place.String(),
		Place:     place,
		Units:     f.units,
		Current:   f.current,
		Days:      []Day{},
		FetchedAt: at.UTC(),
		Stale:     stale,
		Source:    "Weather data by Open-Meteo.com",
	}
	r.Current.Condition = phrases.Condition(f.current.Code, language)
	today := s.now().UTC().Add(f.offset).Format(time.DateOnly)
	for _, d := range f.days {
		if d.Date >= today && len(r.Days) < max(days, 1) {
			d.Condition = phrases.Condition(d.Code, language)
			r.Days = append(r.Days, d)
		}
	}
	r.Report = r.words(language)
	return r
}

func (r Report) words(language string) string {
	w := phrases.Of(language)
	lines := []string{fmt.Sprintf(w.Now, r.City, r.Current.Condition,
		number(r.Current.Temperature, r.Units.Temperature), number(r.Current.FeelsLike, r.Units.Temperature),
		number(r.Current.Humidity, "%"), number(r.Current.Wind, " "+r.Units.Wind))}
	for _, d := range r.Days {
		lines = append(lines, fmt.Sprintf(w.Day, d.Date, d.Condition,
			number(d.Low, ""), number(d.High, r.Units.Temperature),
			number(d.RainChance, "%"), number(d.Precipitation, " "+r.Units.Precipitation)))
	}
	if r.Stale {
		lines = append(lines, fmt.Sprintf(w.Stale, r.FetchedAt.Format("2006-01-02 15:04 MST")))
	}
	return strings.Join(lines, "\n")
}

func number(v *float64, unit string) string {
	if v == nil {
		return "?"
	}
	return fmt.Sprintf("%g%s", *v, unit)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
