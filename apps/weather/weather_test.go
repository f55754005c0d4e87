package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/aurorabot-dev/platform/apps/weather/phrases"
	"github.com/aurorabot-dev/platform/mcpkit/appkit"
	"github.com/aurorabot-dev/platform/mcpkit/appkit/appkittest"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is a server on the loopback that answers in the formats that
// Open-Meteo documents, or as a test has it.
type provider struct {
	*httptest.Server
	today time.Time // the first day of its forecasts

	mu       sync.Mutex
	asked    []string
	override http.HandlerFunc // nil for the documented answers
}

func newProvider(t *testing.T) *provider {
	p := &provider{today: time.Date(2026, 6, 17, 0, 0, 0, 0, time.UTC)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.URL.String())
		h := p.override
		p.mu.Unlock()
		if h == nil {
			h = p.documented
		}
		h(w, r)
	}))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return p
}

func (p *provider) answer(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.override = h
}

func (p *provider) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func (p *provider) config() Config {
	cfg := DefaultConfig()
	cfg.GeocodingURL, cfg.ForecastURL = p.URL, p.URL
	return cfg
}

// documented knows 上海, Shanghai and Springfield.
func (p *provider) documented(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	q := r.URL.Query()
	switch r.URL.Path {
	case "/v1/search":
		name := q.Get("name")
		switch {
		case (name == "上海" || name == "Shanghai") && q.Get("language") == "zh":
			fmt.Fprint(w, `{"results":[{"id":1796236,"name":"上海","latitude":31.22222,"longitude":121.45806,"elevation":12.0,
				"feature_code":"PPLA","country_code":"CN","timezone":"Asia/Shanghai","population":24874500,"country":"中国","admin1":"上海"}],"generationtime_ms":0.6}`)
		case name == "上海" || name == "Shanghai":
			fmt.Fprint(w, `{"results":[{"id":1796236,"name":"Shanghai","latitude":31.22222,"longitude":121.45806,"timezone":"Asia/Shanghai","country":"China","admin1":"Shanghai"}],"generationtime_ms":0.6}`)
		case strings.HasPrefix(name, "Springfield"):
			fmt.Fprint(w, `{"results":[{"name":"Springfield","latitude":37.21533,"longitude":-93.29824,"timezone":"America/Chicago","country":"United States","admin1":"Missouri"},
				{"name":"Springfield","latitude":39.80172,"longitude":-89.64371,"timezone":"America/Chicago","country":"United States","admin1":"Illinois"}]}`)
		default:
			fmt.Fprint(w, `{"generationtime_ms":0.4}`) // no results, no key
		}
	case "/v1/forecast":
		if q.Get("latitude") == "" || q.Get("timezone") != "auto" || q.Get("forecast_days") != "8" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":true,"reason":"Parameter 'latitude' is missing"}`)
			return
		}
		var days []string
		for i := range 8 {
			days = append(days, p.today.AddDate(0, 0, i).Format(`"2006-01-02"`))
		}
		temperature := 23.4
		if q.Get("temperature_unit") == "fahrenheit" {
			temperature = 74.1
		}
		fmt.Fprintf(w, `{"latitude":31.2,"longitude":121.4,"generationtime_ms":0.1,"utc_offset_seconds":28800,"timezone":"Asia/Shanghai",
			"timezone_abbreviation":"GMT+8","elevation":12.0,"current_units":{"temperature_2m":"°C"},
			"current":{"time":"2026-06-17T14:30","interval":900,"temperature_2m":%v,"apparent_temperature":25.1,"relative_humidity_2m":60,"weather_code":2,"wind_speed_10m":12.3},
			"daily":{"time":[%s],
			"weather_code":[61,3,0,95,45,71,80,1],"temperature_2m_max":[27,28,29,30,31,32,33,34],"temperature_2m_min":[20,21,22,23,24,25,26,27],
			"precipitation_sum":[4.2,0,0,12,0,1,2,0],"precipitation_probability_max":[60,null,0,90,0,10,20,0],"wind_speed_10m_max":[15,16,17,18,19,20,21,22]}}`, temperature, strings.Join(days, ","))
	default:
		http.NotFound(w, r)
	}
}

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.t = c.t.Add(d) }

func newService(t *testing.T, cfg Config) (*Service, *clock) {
	t.Helper()
	s, err := NewService(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{t: time.Date(2026, 6, 17, 6, 30, 0, 0, time.UTC)} // 14:30 in Shanghai
	s.now = c.now
	return s, c
}

func get(t *testing.T, s *Service, q Query) Report {
	t.Helper()
	r, err := s.GetWeather(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAReportSaysTheWeatherInTheLanguageOfTheCity(t *testing.T) {
	s, _ := newService(t, newProvider(t).config())
	zh := get(t, s, Query{City: "上海", Days: 2})
	if want := "上海, 中国:现在多云,23.4°C,体感 25.1°C,湿度 60%,风速 12.3 km/h。\n" +
		"2026-06-17:小雨,20~27°C,降水概率 60%,降水量 4.2 mm。\n" +
		"2026-06-18:阴,21~28°C,降水概率 ?,降水量 0 mm。"; zh.Report != want {
		t.Errorf("got\n%s\nwant\n%s", zh.Report, want)
	}
	en := get(t, s, Query{City: "Shanghai", Units: "imperial"})
	if want := "Shanghai, China: now partly cloudy, 74.1°F, feels like 25.1°F, humidity 60%, wind 12.3 mph.\n" +
		"2026-06-17: light rain, 20 to 27°F, chance of rain 60%, amount 4.2 inch."; en.Report != want {
		t.Errorf("got\n%s\nwant\n%s", en.Report, want)
	}
	if en.Stale || len(en.Days) != 1 || zh.Days[1].RainChance != nil || en.Place.Timezone != "Asia/Shanghai" {
		t.Errorf("got %+v", en)
	}
	if r := get(t, s, Query{City: "上海", Language: "en-GB"}); r.City != "Shanghai, China" {
		t.Errorf("in English it is %q", r.City)
	}
}

func TestAliasesDefaultsAndEndingsLeadToTheCity(t *testing.T) {
	cfg := newProvider(t).config()
	cfg.DefaultCity = "Home"
	cfg.Aliases = map[string]string{"home": "Shanghai"}
	s, _ := newService(t, cfg)
	for _, city := range []string{"", "  ", "HOME", " 上海市 ", "魔都", "上海"} {
		if r := get(t, s, Query{City: city, Language: "en"}); r.City != "Shanghai, China" {
			t.Errorf("%q led to %q", city, r.City)
		}
	}
	if r := get(t, s, Query{City: "魔都"}); r.City != "上海, 中国" {
		t.Errorf("the language did not follow the alias: %q", r.City)
	}
}

func TestSevenDaysCanBeHadAlsoAfterMidnightFromTheCache(t *testing.T) {
	p := newProvider(t)
	s, c := newService(t, p.config())
	c.add(9*time.Hour + 25*time.Minute) // 23:55 in Shanghai
	get(t, s, Query{City: "Shanghai"})
	c.add(7 * time.Minute)
	r := get(t, s, Query{City: "Shanghai", Days: 7})
	if len(r.Days) != 7 || r.Days[0].Date != "2026-06-18" {
		t.Errorf("%d days from %s, want 7 from 2026-06-18", len(r.Days), r.Days[0].Date)
	}
	if n := len(p.requests()); n != 2 {
		t.Errorf("%d requests, want 2: the second answer was to come from the cache", n)
	}
}

func TestCitiesOfOneNameAreListed(t *testing.T) {
	s, _ := newService(t, newProvider(t).config())
	got, err := s.FindCity(t.Context(), CityQuery{Name: "Springfield"})
	if err != nil {
		t.Fatal(err)
	}
	want := "Springfield, Missouri, United States (37.22, -93.30)\nSpringfield, Illinois, United States (39.80, -89.64)"
	if got.Text() != want {
		t.Errorf("got\n%s\nwant\n%s", got.Text(), want)
	}
}

// failure asks s and returns the failure it must give.
func failure(t *testing.T, s *Service, q Query) *fault.Error {
	t.Helper()
	r, err := s.GetWeather(t.Context(), q)
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("got %+v, %v; want a fault", r, err)
	}
	return f
}

func TestFailuresOfTheProviderHaveACodeAndSayWhetherToRetry(t *testing.T) {
	block := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		handler   http.HandlerFunc
		code      string
		retryable bool
		requests  int
		message   string
	}{
		"no answer": {block, codeTimeout, true, 2, "in time"},
		"an answer that drips": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		}, codeTimeout, true, 2, "in time"},
		"an error of its own": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>")
		}, codeProvider, true, 2, "HTTP 502"},
		"a reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, codeUnreachable, true, 2, "reached"},
		"a cut answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"results":[`)
		}, codeUnreachable, true, 2, "reached"},
		"too many questions": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":true,"reason":"Minutely API request limit exceeded."}`)
		}, codeRateLimited, true, 1, "Minutely API request limit exceeded.; try again in 60 seconds"},
		"too many questions until a date": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "Wed, 17 Jun 2026 07:00:00 GMT")
			w.WriteHeader(http.StatusTooManyRequests)
		}, codeRateLimited, true, 1, "try again after 2026-06-17T07:00:00Z"},
		"a refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":true,"reason":"no\nsuch %s"}`, strings.Repeat("x", 5000))
		}, codeProvider, false, 1, "HTTP 400: no such xxx"},
		"a page instead of JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>log in</html>") }, codeProvider, false, 1, "documented JSON"},
		"another JSON":           {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"results":"none"}`) }, codeProvider, false, 1, "documented JSON"},
		"a place nowhere":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"results":[{"name":"X"}]}`) }, codeProvider, false, 1, "coordinates"},
		"a flood": {func(w http.ResponseWriter, _ *http.Request) {
			for sent := 0; ; sent += 1 << 20 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return // the client has had enough
				}
				if sent > 64<<20 {
					t.Error("the client reads without end")
					return
				}
			}
		}, codeProvider, false, 1, "2 MB"},
		"a redirection": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, codeProvider, false, 1, "HTTP 302"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			p.answer(c.handler)
			cfg := p.config()
			if c.code == codeTimeout {
				cfg.RequestSeconds = 0.1
			}
			s, _ := newService(t, cfg)
			f := failure(t, s, Query{City: "Shanghai"})
			if f.Code != c.code || f.Retryable != c.retryable || !strings.Contains(f.Message, c.message) || len(f.Message) > 400 {
				t.Errorf("got %s, retryable %v, %q; want %s, %v, …%s…", f.Code, f.Retryable, f.Message, c.code, c.retryable, c.message)
			}
			if n := len(p.requests()); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

func TestAForecastThatLacksItsPartsIsAFailureAndMissingNumbersAreNot(t *testing.T) {
	p := newProvider(t)
	s, c := newService(t, p.config())
	get(t, s, Query{City: "Shanghai", Units: "imperial"}) // the place is known from now on
	for _, body := range []string{`{}`, `null`, `[]`, `{"current":{}}`, `{"current":{},"daily":{"time":["soon"]}}`, `{"current":{"temperature_2m":"hot"}}`} {
		p.answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if f := failure(t, s, Query{City: "Shanghai"}); f.Code != codeProvider || f.Retryable {
			t.Errorf("%s: got %v", body, f)
		}
	}
	c.add(time.Minute)
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"current":{"time":"x","weather_code":123},"daily":{"time":["2026-06-17"],"weather_code":[]}}`)
	})
	r := get(t, s, Query{City: "Shanghai"})
	if !strings.Contains(r.Report, "unknown weather, ?, feels like ?") || r.Days[0].High != nil {
		t.Errorf("got %+v", r)
	}
}

func TestOneFailureIsGotOverByAskingAgain(t *testing.T) {
	p := newProvider(t)
	s, _ := newService(t, p.config())
	var once sync.Once
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		first := false
		once.Do(func() { first = true })
		if first {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		p.documented(w, r)
	})
	get(t, s, Query{City: "Shanghai"})
	if n := len(p.requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestTheWholeAnswerHasADeadline(t *testing.T) {
	p := newProvider(t)
	p.answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cfg := p.config()
	cfg.DeadlineSeconds = 0.2 // less than one request may take
	s, _ := newService(t, cfg)
	if f := failure(t, s, Query{City: "Shanghai"}); f.Code != codeTimeout {
		t.Errorf("got %v", f)
	}
	if n := len(p.requests()); n != 1 {
		t.Errorf("%d requests, want 1: no time was left for another", n)
	}
}

func TestAProviderThatIsNotThereIsUnreachable(t *testing.T) {
	p := newProvider(t)
	s, _ := newService(t, p.config())
	p.Close()
	if f := failure(t, s, Query{City: "Shanghai"}); f.Code != codeUnreachable || !f.Retryable {
		t.Errorf("got %v", f)
	}
}

func TestAnUnknownCityIsAFailureThatIsRememberedForAWhile(t *testing.T) {
	p := newProvider(t)
	s, c := newService(t, p.config())
	for range 2 {
		if f := failure(t, s, Query{City: "Atlantis"}); f.Code != codeCityNotFound || f.Retryable || !strings.Contains(f.Message, "Atlantis") {
			t.Errorf("got %v", f)
		}
	}
	c.add(11 * time.Minute)
	failure(t, s, Query{City: "Atlantis"})
	if n := len(p.requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if f := failure(t, s, Query{}); f.Code != codeCityMissing {
		t.Errorf("got %v", f)
	}
}

func TestAnswersAreCachedAndGivenOutStaleWhenTheProviderFails(t *testing.T) {
	p := newProvider(t)
	s, c := newService(t, p.config())
	first := get(t, s, Query{City: "Shanghai"})
	c.add(9 * time.Minute)
	if again := get(t, s, Query{City: "Shanghai"}); len(p.requests()) != 2 || again.Stale {
		t.Errorf("asked %v, stale %v", p.requests(), again.Stale)
	}
	c.add(2 * time.Minute)
	get(t, s, Query{City: "Shanghai"})
	if n := len(p.requests()); n != 3 {
		t.Errorf("%d requests, want 3: the forecast was old, the place was not", n)
	}

	p.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	c.add(time.Hour)
	stale := get(t, s, Query{City: "Shanghai"})
	if !stale.Stale || !strings.Contains(stale.Report, "2026-06-17 06:41 UTC") {
		t.Errorf("got %+v", stale)
	}
	stale.Stale, stale.FetchedAt, stale.Report = first.Stale, first.FetchedAt, first.Report
	if diff := cmp.Diff(first, stale); diff != "" {
		t.Errorf("the stale answer is another (-first +stale):\n%s", diff)
	}
	c.add(6 * time.Hour)
	if f := failure(t, s, Query{City: "Shanghai"}); f.Code != codeProvider {
		t.Errorf("got %v", f)
	}
	p.answer(nil)
	if r := get(t, s, Query{City: "Shanghai"}); r.Stale {
		t.Error("the provider is back and the answer stale")
	}
}

func TestQuestionsAtTheSameTimeShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache[int](2, time.Hour, time.Hour, time.Now)
		release, loads := make(chan struct{}), 0
		for range 20 {
			go func() {
				got, err := c.get(t.Context(), "k", func(context.Context) (int, error) {
					loads++ // the race detector objects to a second one at the same time
					<-release
					return 7, nil
				})
				if err != nil || got.value != 7 {
					t.Errorf("got %v, %v", got.value, err)
				}
			}()
		}
		synctest.Wait() // all are waiting now
		close(release)
		synctest.Wait()
		if loads != 1 {
			t.Errorf("loaded %d times, want once", loads)
		}
	})
}

func TestACallerWhoGivesUpDoesNotFailTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache[int](2, time.Hour, time.Hour, time.Now)
		impatient, leave := context.WithCancel(t.Context())
		go func() {
			_, err := c.get(impatient, "k", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			})
			if err == nil {
				t.Error("the caller who gave up got an answer")
			}
		}()
		synctest.Wait() // it is loading
		go func() {
			got, err := c.get(t.Context(), "k", func(context.Context) (int, error) { return 7, nil })
			if err != nil || got.value != 7 {
				t.Errorf("the patient caller got %v, %v", got.value, err)
			}
		}()
		synctest.Wait() // the other waits for it
		leave()
		synctest.Wait()
	})
}

func TestTheCacheIsBoundedAndForgetsWhatWasNotUsed(t *testing.T) {
	c := newCache[string](2, time.Hour, time.Hour, time.Now)
	loads := ""
	for _, key := range strings.Split("a b a c a b", " ") {
		_, err := c.get(t.Context(), key, func(context.Context) (string, error) { loads += key; return key, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if loads != "abcb" || len(c.entries) != 2 || c.recent.Len() != 2 {
		t.Errorf("loaded %s and holds %d; want abcb and 2", loads, len(c.entries))
	}
}

func TestAConfigurationThatCannotWorkIsAnError(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"units":    func(c *Config) { c.Units = "kelvin" },
		"timeout":  func(c *Config) { c.RequestSeconds = 0 },
		"deadline": func(c *Config) { c.DeadlineSeconds = -1 },
		"no url":   func(c *Config) { c.ForecastURL = "api.open-meteo.com" },
		"file url": func(c *Config) { c.GeocodingURL = "file:///etc/passwd" },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := NewService(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheExampleConfigurationIsAccepted(t *testing.T) {
	app, err := appkit.New(manifest, appkit.Options{DataDir: t.TempDir(), ConfigPath: "config.example.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(app); err != nil {
		t.Error(err)
	}
}

func TestOnlyMainKnowsMCP(t *testing.T) {
	for _, file := range []string{"service.go", "openmeteo.go", "cache.go", "phrases/phrases.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if strings.Contains(i.Path.Value, "appkit") || strings.Contains(i.Path.Value, "go-sdk") {
				t.Errorf("%s imports %s", file, i.Path.Value)
			}
		}
	}
}

func TestEveryConditionHasWordsInBothLanguages(t *testing.T) {
	seen := map[string]int{}
	for code := range phrases.Conditions {
		for _, language := range []string{"en", "zh"} {
			text := phrases.Condition(code, language)
			if other, ok := seen[text]; ok || text == "" {
				t.Errorf("code %d in %s is %q, as is %d", code, language, text, other)
			}
			seen[text] = code
		}
	}
	if phrases.Condition(4, "fr") != "unknown weather" || phrases.Condition(-1, "zh") != "未知天气" {
		t.Error("an unknown code has no words")
	}
}

func TestTheProgramAnswersOverStdio(t *testing.T) {
	p := newProvider(t)
	p.today = time.Now().UTC().Add(8 * time.Hour) // in Shanghai
	cfg := p.config()
	cfg.DefaultCity = "上海"
	s := appkittest.StartBinary(t, appkittest.Build(t, "."), appkittest.Settings(cfg))
	appkittest.CheckContract(t, s, manifest)

	r := appkittest.Call[Report](t, s, "get_weather", map[string]any{"days": 3})
	if r.City != "上海, 中国" || len(r.Days) != 3 {
		t.Errorf("got %+v", r)
	}
	if places := appkittest.Call[Places](t, s, "find_city", map[string]any{"name": "Springfield"}); len(places.Places) != 2 {
		t.Errorf("got %+v", places)
	}
	if f := appkittest.CallFails(t, s, "get_weather", map[string]any{"city": "Atlantis"}); f.Code != codeCityNotFound {
		t.Errorf("got %v", f)
	}
	for _, args := range []string{`{"days":8}`, `{"days":0}`, `{"city":""}`, `{"units":"kelvin"}`, `{"language":"../etc"}`, `{"town":"x"}`} {
		appkittest.CallRefused(t, s, "get_weather", json.RawMessage(args))
	}
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	f := appkittest.CallFails(t, s, "get_weather", map[string]any{"city": "Paris"})
	if f.Code != codeRateLimited || !f.Retryable || string(f.Data) != `{"retry_after_seconds":7}` {
		t.Errorf("got %+v, data %s", f, f.Data)
	}
}

func TestThePlaceThatAPersonMeansIsFirst(t *testing.T) {
	springfield := func(state string, people float64) Place {
		return Place{Name: "Springfield", Region: state, Areas: []string{state, "United States", "US"}, Population: people}
	}
	america := []Place{springfield("Missouri", 169176), springfield("Massachusetts", 154341), springfield("Illinois", 116565)}
	capital := Place{Name: "北京", Region: "北京市", Areas: []string{"北京市", "中国", "CN"}, Population: 18960744}
	hamlet := Place{Name: "北京", Region: "重庆市", Areas: []string{"重庆市", "中国", "CN"}}
	for _, tt := range []struct {
		places []Place
		name   string
		areas  []string
		want   string // the region of the first, or empty
	}{
		{america, "Springfield", nil, "Missouri"},
		{america, "springfield", []string{" Illinois"}, "Illinois"},
		{america, "Springfield", []string{"Massachusetts", " USA"}, "Massachusetts"},
		{america, "Springfield", []string{"Narnia"}, ""},
		{[]Place{hamlet, capital}, "北京", nil, "北京市"},
		{[]Place{capital, hamlet}, "北京", []string{"重庆"}, "重庆市"},
		{[]Place{{Name: "Warszawa", Region: "Ohio"}, {Name: "Warsaw", Region: "Mazovia", Population: 1702139}}, "Warszawa", nil, "Mazovia"},
	} {
		got := ""
		if chosen := choose(tt.places, tt.name, tt.areas); len(chosen) > 0 {
			got = chosen[0].Region
		}
		if got != tt.want {
			t.Errorf("%s of %v: got %q, want %q", tt.name, tt.areas, got, tt.want)
		}
	}
	s := &Service{}
	for name, want := range map[string]string{"Москва": "ru", "서울": "ko", "さいたま市": "ja", "東京タワー": "ja", "巴黎，法国": "zh", "Paris": "en"} {
		if got := s.language("", name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
