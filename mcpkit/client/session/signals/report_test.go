package signals

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportsComeAtPowersOfTen(t *testing.T) {
	var said []int64
	for n := int64(1); n <= 1000; n++ {
		if powerOfTen(n) {
			said = append(said, n)
		}
	}
	if d := cmp.Diff([]int64{1, 10, 100, 1000}, said); d != "" {
		t.Error(d)
	}
}
