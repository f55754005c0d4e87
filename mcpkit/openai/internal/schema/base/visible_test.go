package base

import "testing"

func TestVisibleKeepsWritingsThatNeedJoiners(t *testing.T) {
	for in, want := range map[string]string{
		"a\u200bb\u202ec\U000e0041": "abc",
		"👩\u200d💻":                  "👩\u200d💻",
		"می\u200cخواهم":             "می\u200cخواهم",
		"pa\u200dss":                "pass",
		"line\n\ttab\x1b[31m":       "line\n\ttab[31m",
		"❤\ufe0f":                   "❤\ufe0f",
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
