package cputime

import (
	"runtime"
	"testing"
	"time"
)

func TestWorkCountsAndWaitingDoesNot(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is not measured here")
	}
	x := 0
	work := func() {
		for i := range 10_000_000 {
			x += i * x
		}
	}
	once := Of(work)
	if twice := Of(func() { work(); work(); work() }); once <= 0 || twice <= once {
		t.Errorf("work took %v, three times as much %v", once, twice)
	}
	woken := make(chan bool)
	time.AfterFunc(2*once, func() { close(woken) })
	if idle := Of(func() { <-woken }); idle >= once {
		t.Errorf("waiting for twice the time of some work took %v, the work %v", idle, once)
	}
}
