package admit

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/bridge/journal"
)

func TestHealthCountsFromTheLastTimeThatItWasBetterOrWorse(t *testing.T) {
	j := openJournal(t, t.TempDir())
	h := NewHealth(nil)
	began := h.State(j).Since
	if was := h.Set(nil); was != nil || h.State(j) != (State{nil, began}) {
		t.Errorf("well and well again: was %v, is %+v", was, h.State(j))
	}
	if was := h.Set(io.EOF); was != nil || h.State(j).Err != io.EOF || !h.State(j).Since.After(began) {
		t.Errorf("degraded: was %v, is %+v", was, h.State(j))
	}
	since := h.State(j).Since
	if was := h.Set(io.ErrNoProgress); was != io.EOF || h.State(j) != (State{io.ErrNoProgress, since}) {
		t.Errorf("degraded for another reason: was %v, is %+v", was, h.State(j))
	}
}

func TestOnlyTheFirstProblemsAreKept(t *testing.T) {
	h := NewHealth(nil, "found at the start")
	for range 2 * maxProblems {
		h.Note("again")
	}
	got := h.Problems()
	if len(got) != maxProblems || got[0] != "found at the start" {
		t.Errorf("%d problems, the first is %q", len(got), got[0])
	}
	got[0] = "changed"
	if !slices.Contains(h.Problems(), "found at the start") {
		t.Error("who reads the problems can change them")
	}
}

func TestAnErrorOfACallSaysWhyNothingMoves(t *testing.T) {
	closed, full, late := errors.New("closed"), errors.New("full"), errors.New("late")
	well, ill := State{}, State{Err: full, Since: time.Now()}
	if err := ill.Explain(nil, "bus", closed); err != nil {
		t.Errorf("no error: %v", err)
	}
	if err := well.Explain(late, "bus", closed); err != late {
		t.Errorf("while all is well: %v", err)
	}
	if err := ill.Explain(late, "bus", closed); !errors.Is(err, late) || !errors.Is(err, full) {
		t.Errorf("while degraded: %v", err)
	}
	if err := ill.Explain(journal.ErrClosed, "bus", closed); !errors.Is(err, closed) || errors.Is(err, full) {
		t.Errorf("when closed: %v", err)
	}
}
