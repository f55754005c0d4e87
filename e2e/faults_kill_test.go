//go:build e2e

package e2e

import (
	"math/rand/v2"
	"testing"
	"time"
)

// kills is how many rounds of kills each test goes through: 500 in a long run.
func kills() int { return 10 * long }

func TestKillsOfProducerAndConsumerAtRandomMomentsLoseAndRepeatNothing(t *testing.T) {
	variants := []struct {
		name  string
		spec  producerSpec
		taker taker
	}{
		{"batches to the independent consumer", producerSpec{Batch: 32}, python},
		{"many publishers to a consumer that moves", producerSpec{}, moves},
		{"many publishers to a consumer that deletes", producerSpec{}, deletes},
	}
	share := (kills() + len(variants) - 1) / len(variants)
	for _, v := range variants {
		for left := share; left > 0; left -= 25 { // in parts, so that folders stay small
			t.Run(v.name, func(t *testing.T) {
				r := newRig(t, ground(t), v.spec, v.taker)
				r.watchToo()
				r.killRounds(min(left, 25))
				r.mustBeClean(false)
			})
		}
	}
}

// killRounds kills the producer, the consumer or both, again and again.
func (r *rig) killRounds(rounds int) {
	r.t.Helper()
	r.produce()
	r.consume(0)
	for range rounds {
		if rand.IntN(4) > 0 { // else also while they start
			r.ackedMore(1 + rand.IntN(60))
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		which := 1 + rand.IntN(3)
		if which&1 != 0 {
			r.alive(r.producer)
			r.producer.kill()
		}
		if which&2 != 0 {
			r.alive(r.consumer)
			r.consumer.kill()
		}
		if which&1 != 0 {
			r.produce()
		}
		if which&2 != 0 {
			r.consume(0)
		}
	}
}

// alive fails when a process ended by itself.
func (r *rig) alive(p *process) {
	r.t.Helper()
	if p.ended() {
		r.t.Fatalf("the %s ended by itself: %v %s", p.name, p.err, p.errors())
	}
}

// A claim that comes back when its lease runs out comes late, and once.
func TestKillsOfConsumersThatHoldLeasesLoseAndRepeatNothing(t *testing.T) {
	for left := kills() / 2; left > 0; left -= 25 {
		r := newRig(t, ground(t), producerSpec{Batch: 8}, leases)
		r.killRounds(min(left, 25))
		v := r.end(false)
		late := v.Order
		v.Order = 0
		if !v.clean() || v.Acked == 0 {
			t.Errorf("%v", v)
		}
		t.Logf("%s; %d came late", v.counts(), late)
	}
}

// The same rounds with a producer that forgets its ids must be caught.
func TestTheJudgesCatchAnInboxThatForgetsIDs(t *testing.T) {
	for name, spec := range map[string]producerSpec{"batches": {Batch: 32, Forget: true}, "many publishers": {Forget: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ground(t), spec, moves)
			r.produce()
			r.consume(0)
			for range 2 {
				r.deliveredMore(200)
				r.producer.kill()
				r.complete()
				r.taken() // so that what comes now comes back
				r.produce()
			}
			r.deliveredMore(200)
			v := r.end(false)
			if v.PublishedTwice == 0 {
				t.Fatalf("events published again by a producer without memory went unnoticed: %v", v)
			}
			t.Log("caught: ", v.counts())
		})
	}
}
