package strict

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type config struct {
	Listen string            `json:"listen"`
	Wait   Duration          `json:"wait,omitempty"`
	Limit  *Size             `json:"limit,omitempty"`
	Ratio  float64           `json:"ratio,omitempty"`
	On     bool              `json:"on,omitempty"`
	Count  int               `json:"count,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Rules  []rule            `json:"rules,omitempty"`
}

type rule struct {
	Name string `json:"name"`
}

func report(d *Document) string {
	d.Sort()
	var b strings.Builder
	for _, f := range d.Faults {
		fmt.Fprintln(&b, f)
	}
	for _, w := range d.Warnings {
		fmt.Fprintln(&b, "warning:", w)
	}
	return b.String()
}

func TestADocumentFillsAStructAndLeavesTheRestAlone(t *testing.T) {
	yaml := "listen: ':80'\nwait: 1.5\nlimit: 2KiB\nratio: 1e-1\non: true\ncount: 0x10\nlabels: {a: b}\nrules: [{name: x}]\n"
	json := "\t{\"listen\": \":80\", \"wait\": 1.5, \"limit\": \"2KiB\", \"ratio\": 1e-1, \"on\": true, \"count\": 16, \"labels\": {\"a\": \"b\"}, \"rules\": [{\"name\": \"x\"}]}"
	limit := Size(2048)
	want := config{":80", Duration{1500 * time.Millisecond}, &limit, 0.1, true, 16, map[string]string{"a": "b"}, []rule{{"x"}}}
	for _, d := range []*Document{YAML("a", []byte(yaml), Options{}), JSON("a", []byte(json), Options{})} {
		var got config
		d.Decode(&got)
		if diff := cmp.Diff(want, got); diff != "" || len(d.Faults) > 0 {
			t.Errorf("%s(-want +got)\n%s", report(d), diff)
		}
	}
	kept := config{Count: 7, Labels: map[string]string{"old": "x"}}
	d := YAML("a", []byte("listen: x\ncount:\nlabels: ~\n"), Options{})
	d.Decode(&kept)
	if diff := cmp.Diff(config{Listen: "x", Count: 7, Labels: map[string]string{"old": "x"}}, kept); diff != "" {
		t.Errorf("%s(-want +got)\n%s", report(d), diff)
	}
}

func TestFaultsOfJSONHaveTheirPlacesInTheFileAsItIs(t *testing.T) {
	for in, want := range map[string]string{
		"{\n\t// lisen\n\t\"lisen\": \"天\", /* é */ \"count\": \"x\",\n}": "f:1:1: listen: required key is missing\nf:3:2: lisen: unknown key; did you mean \"listen\"?\nf:3:33: count: want a whole number, got the string \"x\"\n",
		"\xef\xbb\xbf{\"listen\": 1}":                                     "f:1:12: listen: want a string, got the number 1; write \"1\"\n",
		"{\"a\":":                                                         "f:1:6: the document ends too early\n",
		"":                                                                "f:1:1: the file is empty\n",
		"[1 2]":                                                           "f:1:4: invalid character '2' after array element\n",
		"{} []":                                                           "f:1:4: there is text after the document\n",
		"/* a */ /* b */ *":                                               "f:1:17: invalid character '*' looking for beginning of value\n",
		"{\"listen\": tru}":                                               "f:1:12: invalid character '}' in literal true (expecting 'e')\n",
		"null":                                                            "f:1:1: the file is empty\n",
		strings.Repeat("/*x", MaxSize/3):                                  "f:1:1: invalid character '/' looking for beginning of value\n",
		strings.Repeat("[", 200):                                          "f:1:102: values are nested too deeply\n",
		strings.Repeat(" ", MaxSize+1):                                    "f:1:1: the file is larger than 1048576 bytes\n",
		`{"listen": "// not, a comment,]", "rules": [{"name": "a"}, {}, null]}`: "f:1:60: rules[1].name: required key is missing\nf:1:64: rules[2]: want a value, got nothing; write \"\" for an empty string\n",
	} {
		d := JSON("f", []byte(in), Options{})
		var c config
		d.Decode(&c)
		if diff := cmp.Diff(want, report(d)); diff != "" {
			t.Errorf("%.60q (-want +got)\n%s", in, diff)
		}
	}
}

func TestLooseDocumentsWarnWhereStrictOnesFail(t *testing.T) {
	in := "listen: 80\nextra: 1\non: 'true'\n"
	d := YAML("f", []byte(in), Options{Loose: true})
	var c config
	d.Decode(&c)
	if want := "warning: f:2:1: extra: unknown key, ignored\n"; report(d) != want || c.Listen != "80" || !c.On {
		t.Errorf("got %+v and\n%s", c, report(d))
	}
	d = YAML("f", []byte(in), Options{})
	if d.Decode(&config{}); len(d.Faults) != 3 {
		t.Errorf("strictly:\n%s", report(d))
	}
}

func TestAWarningOfTheStringFunctionKeepsTheValue(t *testing.T) {
	d := YAML("f", []byte("listen: a\nlabels: {x: b, y: c}\n"), Options{String: func(s string) (string, error) {
		switch s {
		case "a":
			return "A", Warning("odd")
		case "b":
			return "", errors.New("bad")
		}
		return strings.ToUpper(s), nil
	}})
	var c config
	d.Decode(&c)
	if diff := cmp.Diff(config{Listen: "A", Labels: map[string]string{"y": "C"}}, c); diff != "" {
		t.Error(diff)
	}
	if want := "f:2:13: labels.x: bad\nwarning: f:1:9: listen: odd\n"; report(d) != want {
		t.Errorf("got\n%s", report(d))
	}
}

func TestAliasesCannotMultiplyTheWork(t *testing.T) {
	var b strings.Builder
	b.WriteString("x-rule: &r {name: x}\nlisten: x\nx-list: &l [" + strings.Repeat("*r,", 400) + "]\nlabels: &self {a: *self}\nrules: [")
	b.WriteString(strings.Repeat("*r,", 110_000) + "]\n")
	d := YAML("f", []byte(b.String()), Options{})
	var c config
	d.Decode(&c)
	if got := report(d); !strings.Contains(got, "too large when its aliases are followed") || strings.Count(got, "\n") > 3 {
		t.Errorf("got\n%s", got)
	}
}

func TestTheNearestKeyIsTheOneThatWasMeant(t *testing.T) {
	known := []string{"command", "commands", "env", "health_timeout", "backoff_seconds", "max_backoff_seconds", "url"}
	for in, want := range map[string]string{
		"comand": "command", "Commands": "commands", "health-timeout": "health_timeout", "helath_timeout": "health_timeout",
		"backoff": "backoff_seconds", "evn": "env", "uri": "url", "wombat": "", "x": "", strings.Repeat("a", 1000): "",
	} {
		if got := Nearest(in, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", in, got, want)
		}
	}
}

func TestDurationsAndSizesSurviveBeingWritten(t *testing.T) {
	for in, want := range map[string]time.Duration{"10": 10 * time.Second, "0.25": 250 * time.Millisecond, "2m": 2 * time.Minute, "0": 0} {
		var d, back Duration
		if err := d.UnmarshalText([]byte(in)); err != nil || d.Duration != want {
			t.Errorf("%s is %v, %v", in, d, err)
		}
		text, _ := d.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != d {
			t.Errorf("%s came back as %v, %v", text, back, err)
		}
	}
	for in, want := range map[string]Size{"0": 0, "1000": 1000, "16MiB": 16 << 20, "3 KiB": 3072} {
		var z, back Size
		if err := z.UnmarshalText([]byte(in)); err != nil || z != want {
			t.Errorf("%s is %v, %v", in, z, err)
		}
		text, _ := z.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != z {
			t.Errorf("%s came back as %v, %v", text, back, err)
		}
	}
	for _, bad := range []string{"", "-1", "-1s", "NaN", "inf", "1e300", "soon", "1 GB", "9999999999GiB"} {
		if err := new(Duration).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("the span %q is accepted", bad)
		}
		if err := new(Size).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("the size %q is accepted", bad)
		}
	}
}

func TestADocumentOfCommentsAloneLeavesTheDefaults(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing is set\n", "---\n", "null\n"} {
		o := struct {
			Wait int `json:"wait,omitempty"`
		}{Wait: 7}
		d := YAML("f", []byte(text), Options{})
		if d.Decode(&o); len(d.Faults) > 0 || o.Wait != 7 {
			t.Errorf("%q: wait %d, %s", text, o.Wait, report(d))
		}
		var c config // one of its keys is required
		d = YAML("f", []byte(text), Options{})
		if d.Decode(&c); len(d.Faults) != 1 || d.Faults[0].Message != "the file is empty" {
			t.Errorf("%q, with a required key: %s", text, report(d))
		}
	}
}
