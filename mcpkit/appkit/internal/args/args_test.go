package args

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type place struct {
	Name string  `json:"name" pattern:"^[a-z]+$" jsonschema:"its name"`
	Lat  float64 `json:"lat,omitempty" minimum:"-90" maximum:"90"`
}

type query struct {
	Days   int              `json:"days,omitempty" minimum:"1" maximum:"7" default:"2"`
	Units  *string          `json:"units,omitempty" enum:"metric,imperial" default:"metric"`
	Level  int              `json:"level,omitempty" enum:"1,2,3"`
	Places []place          `json:"places,omitempty" minItems:"1" maxItems:"2"`
	Named  map[string]place `json:"named,omitempty"`
	At     time.Time        `json:"at,omitzero" format:"date-time"`
}

func TestTagsBecomeKeywordsHoweverDeep(t *testing.T) {
	s, err := Schema[query]()
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	const place = `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
		"name":{"type":"string","pattern":"^[a-z]+$","description":"its name"},
		"lat":{"type":"number","minimum":-90,"maximum":90}}}`
	if err := json.Unmarshal([]byte(`{"type":"object","additionalProperties":false,"properties":{
		"days":{"type":"integer","minimum":1,"maximum":7,"default":2},
		"units":{"type":["null","string"],"enum":["metric","imperial"],"default":"metric"},
		"level":{"type":"integer","enum":[1,2,3]},
		"places":{"type":["null","array"],"minItems":1,"maxItems":2,"items":`+place+`},
		"named":{"type":"object","additionalProperties":`+place+`},
		"at":{"type":"string","format":"date-time"}}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestAToolWithoutArgumentsHasTheSchemaThatTheSpecificationNames(t *testing.T) {
	in, err := For[struct{}]()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(in.Schema); err != nil || string(text) != `{"type":"object","additionalProperties":false}` {
		t.Errorf("schema %s, %v", text, err)
	}
	for _, raw := range []string{"", "null", "{}"} {
		if err := in.Decode(json.RawMessage(raw), &struct{}{}); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestAllMisfitsAreListed(t *testing.T) {
	in, err := For[query]()
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		`{"days":9,"places":[{"name":"A","lat":91}],"x":1}`: "invalid arguments: days: maximum: got 9, want 7; places.0.lat: maximum: got 91, want 90; " +
			"places.0.name: 'A' does not match pattern '^[a-z]+$'; x: is not a known argument",
		`{"places":[]}`:         "invalid arguments: places: minItems: got 0, want 1",
		`{"named":{"a":{}}}`:    "invalid arguments: named.a.name: is required",
		`{"days":1e999999999}`:  "invalid arguments: the exponent of 1e999999999 is out of range",
		`{"days":1e-999999999}`: "invalid arguments: the exponent of 1e-999999999 is out of range",
		`{"days":`:              "invalid arguments: must be JSON: unexpected EOF",
		`{"at":"noon"}`:         `invalid arguments: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`,
	} {
		var misfits Misfits
		if err := in.Decode(json.RawMessage(raw), &query{}); !errors.As(err, &misfits) || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", raw, err, want)
		}
	}
}

func FuzzWhatIsAcceptedFitsItsSchema(f *testing.F) {
	for _, seed := range []string{`{"days":3.0}`, `{"level":2,"units":null}`, `{"places":[{"name":"a","lat":1e1}]}`, `[]`, `{"days":1e5000}`} {
		f.Add([]byte(seed))
	}
	in, err := For[query]()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var q, again query
		if err := in.Decode(raw, &q); err != nil {
			return
		}
		if q.Days < 1 || q.Days > 7 {
			t.Errorf("%s was accepted with %d days", raw, q.Days)
		}
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Decode(text, &again); err != nil {
			t.Errorf("%s was decoded to %s, which is refused: %v", raw, text, err)
		}
	})
}
