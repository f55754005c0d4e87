package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	maxBody = 2 << 20 // bytes; a real answer has a few thousand
	// The free service works on one request per address at a time and refuses
	// those that find more than a few waiting.
	maxRequests  = 4
	retryPause   = 300 * time.Millisecond
	forecastDays = 8 // one more than is promised: today may end while an answer is cached
)

// openMeteo asks the two services of Open-Meteo, as documented at
// https://open-meteo.com/en/docs and https://open-meteo.com/en/docs/geocoding-api.
// It connects to nothing else: redirections are not followed.
type openMeteo struct {
	geocoding, weather *url.URL
	client             *http.Client
	timeout            time.Duration // of one request, body included
	slots              chan struct{}
}

func newOpenMeteo(cfg Config, transport http.RoundTripper) (*openMeteo, error) {
	o := &openMeteo{
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		timeout: seconds(cfg.RequestSeconds),
		slots:   make(chan struct{}, maxRequests),
	}
	var err error
	if o.geocoding, err = base("geocoding_url", cfg.GeocodingURL); err != nil {
		return nil, err
	}
	o.weather, err = base("forecast_url", cfg.ForecastURL)
	return o, err
}

func base(key, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, fmt.Errorf("%s: %q is not the URL of a web service", key, text)
	}
	return u, nil
}

// search returns the places of a name, the likeliest first; none is no error.
func (o *openMeteo) search(ctx context.Context, name, language string) ([]Place, error) {
	var answer struct {
		Results []struct {
			Name      string   `json:"name"`
			Latitude  *float64 `json:"latitude"`
			Longitude *float64 `json:"longitude"`
			Timezone  string   `json:"timezone"`
			Country   string   `json:"country"`
			Admin1    string   `json:"admin1"`
			Admin2    string   `json:"admin2"`
			Code      string   `json:"country_code"`
			People    float64  `json:"population"`
		} `json:"results"`
	}
	err := o.get(ctx, o.geocoding.JoinPath("v1/search"), url.Values{
		"name": {name}, "count": {"10"}, "language": {language}, "format": {"json"},
	}, &answer)
	if err != nil {
		return nil, err
	}
	var places []Place
	for _, r := range answer.Results {
		if r.Latitude == nil || r.Longitude == nil || r.Name == "" {
			return nil, unusable("a place without name or coordinates")
		}
		places = append(places, Place{
			Name: r.Name, Region: r.Admin1, Country: r.Country,
			Latitude: *r.Latitude, Longitude: *r.Longitude, Timezone: r.Timezone,
			Areas: []string{r.Admin1, r.Admin2, r.Country, r.Code}, Population: r.People,
		})
	}
	return places, nil
}

// forecast is what the provider says of one place; conditions are not in words yet.
type forecast struct {
	units   Units
	current Current
	days    []Day
	offset  time.Duration // of the place's local time
}

func (o *openMeteo) forecast(ctx context.Context, p Place, units string) (*forecast, error) {
	query := url.Values{
		"latitude":      {strconv.FormatFloat(p.Latitude, 'f', -1, 64)},
		"longitude":     {strconv.FormatFloat(p.Longitude, 'f', -1, 64)},
		"current":       {"temperature_2m,apparent_temperature,relative_humidity_2m,weather_code,wind_speed_10m"},
		"daily":         {"weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum,precipitation_probability_max,wind_speed_10m_max"},
		"timezone":      {"auto"},
		"forecast_days": {strconv.Itoa(forecastDays)},
	}
	f := &forecast{units: Units{"°C", "km/h", "mm"}}
	if units == "imperial" {
		query.Set("temperature_unit", "fahrenheit")
		query.Set("wind_speed_unit", "mph")
		query.Set("precipitation_unit", "inch")
		f.units = Units{"°F", "mph", "inch"}
	}
	var answer struct {
		Offset  int `json:"utc_offset_seconds"`
		Current *struct {
			Time        string   `json:"time"`
			Temperature *float64 `json:"temperature_2m"`
			FeelsLike   *float64 `json:"apparent_temperature"`
			Humidity    *float64 `json:"relative_humidity_2m"`
			Code        *float64 `json:"weather_code"`
			Wind        *float64 `json:"wind_speed_10m"`
		} `json:"current"`
		Daily struct {
			Time   []string   `json:"time"`
			Code   []*float64 `json:"weather_code"`
			High   []*float64 `json:"temperature_2m_max"`
			Low    []*float64 `json:"temperature_2m_min"`
			Rain   []*float64 `json:"precipitation_sum"`
			Chance []*float64 `json:"precipitation_probability_max"`
			Wind   []*float64 `json:"wind_speed_10m_max"`
		} `json:"daily"`
	}
	if err := o.get(ctx, o.weather.JoinPath("v1/forecast"), query, &answer); err != nil {
		return nil, err
	}
	c, d := answer.Current, answer.Daily
	if c == nil || len(d.Time) == 0 {
		return nil, unusable("a forecast without current weather or days")
	}
	f.offset = time.Duration(answer.Offset) * time.Second
	f.current = Current{Time: c.Time, Code: code(c.Code), Temperature: c.Temperature,
		FeelsLike: c.FeelsLike, Humidity: c.Humidity, Wind: c.Wind}
	for i, date := range d.Time {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			return nil, unusable("a forecast for the day " + strconv.Quote(date))
		}
		f.days = append(f.days, Day{Date: date, Code: code(at(d.Code, i)), Low: at(d.Low, i), High: at(d.High, i),
			Precipitation: at(d.Rain, i), RainChance: at(d.Chance, i), Wind: at(d.Wind, i)})
	}
	return f, nil
}

// at is a daily value, nil where the provider has none.
func at(values []*float64, i int) *float64 {
	if i < len(values) {
		return values[i]
	}
	return nil
}

// code is a weather code, -1 where the provider has none.
func code(v *float64) int {
	if v == nil {
		return -1
	}
	return int(*v)
}

// get asks for a JSON object, and asks once more when the first try failed in a
// way that may pass at once. Its errors wrap a *fault.Error.
func (o *openMeteo) get(ctx context.Context, u *url.URL, query url.Values, answer any) error {
	u.RawQuery = query.Encode()
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	case <-ctx.Done():
		return timedOut(ctx.Err())
	}
	err := o.try(ctx, u, answer)
	var f *fault.Error
	if err == nil || !errors.As(err, &f) || !f.Retryable || f.Code == codeRateLimited {
		return err
	}
	select {
	case <-time.After(retryPause):
		return o.try(ctx, u, answer)
	case <-ctx.Done():
		return err
	}
}

func (o *openMeteo) try(ctx context.Context, u *url.URL, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	res, err := o.client.Do(req)
	if err != nil {
		return broken(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return broken(err)
	case res.StatusCode == http.StatusTooManyRequests:
		return rateLimited(res.Header.Get("Retry-After"), reason(body))
	case res.StatusCode >= 500:
		return fault.New(codeProvider, "the weather provider has a problem of its own (HTTP %d)", res.StatusCode).Retry()
	case res.StatusCode != http.StatusOK:
		return fault.New(codeProvider, "the weather provider refused the question (HTTP %d%s)", res.StatusCode, reason(body))
	case len(body) > maxBody:
		return unusable("more than 2 MB")
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("%w: %w", unusable("something that is not its documented JSON"), err)
	}
	return nil
}

// reason is what the provider says of a refusal, after a colon; "" for nothing.
// It is a stranger's text for a model to read, so it is kept short and plain.
func reason(body []byte) string {
	var e struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(body, &e) != nil || e.Reason == "" {
		return ""
	}
	text := strings.Join(strings.Fields(e.Reason), " ")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return ": " + text
}

func unusable(what string) *fault.Error {
	return fault.New(codeProvider, "the weather provider answered with %s", what)
}

// rateLimited tells when to come back, as far as the provider does: Retry-After
// is a number of seconds or a date (RFC 9110, section 10.2.3).
func rateLimited(retryAfter, reason string) error {
	e := fault.New(codeRateLimited, "the weather provider has had too many questions%s", reason).Retry()
	if n, err := strconv.Atoi(retryAfter); err == nil && n >= 0 {
		e.Message += fmt.Sprintf("; try again in %d seconds", n)
		e.Data = json.RawMessage(fmt.Sprintf(`{"retry_after_seconds":%d}`, n))
	} else if at, err := http.ParseTime(retryAfter); err == nil {
		e.Message += "; try again after " + at.UTC().Format(time.RFC3339)
		e.Data = json.RawMessage(fmt.Sprintf(`{"retry_after":%q}`, at.UTC().Format(time.RFC3339)))
	}
	return e
}

// broken is the failure for a request that got no whole answer.
func broken(err error) error {
	var n net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || (errors.As(err, &n) && n.Timeout()) {
		return timedOut(err)
	}
	return fmt.Errorf("%w: %w", fault.New(codeUnreachable, "the weather provider cannot be reached").Retry(), err)
}

func timedOut(err error) error {
	return fmt.Errorf("%w: %w", fault.New(codeTimeout, "the weather provider did not answer in time").Retry(), err)
}
