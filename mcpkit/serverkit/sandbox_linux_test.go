package serverkit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/sandbox"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit/internal/proc"
)

// confine gives a spec a sandbox in which the folder of its record is writable.
func confine(t *testing.T, spec Spec, limits sandbox.Limits) Spec {
	t.Helper()
	if err := sandbox.Available(); err != nil && os.Getuid() == 0 {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	spec.Sandbox = &sandbox.Profile{Network: sandbox.NetworkAll, Limits: limits}
	if record := getenv(spec.Env, "RECORD"); record != "" {
		spec.Sandbox.Write = []string{filepath.Dir(record)}
	}
	return spec
}

func TestAConfinedServerIsToldToEndAsAnyOther(t *testing.T) {
	r := newRig(t)
	record := filepath.Join(t.TempDir(), "record")
	spec := confine(t, fake(t, "record-term", "RECORD="+record), sandbox.Limits{})
	spec.Stop = StopPolicy{CloseWait: 50 * time.Millisecond, TermWait: time.Hour}
	r.apply(spec)
	if err := r.Stop(t.Context(), "record-term"); err != nil {
		t.Fatal(err)
	}
	if got := records(t, record); !slices.Equal(got, []string{"eof", "term"}) {
		t.Errorf("the server saw %v", got)
	}
}

func TestTheEndOfAConfinedServerIsExplained(t *testing.T) {
	for name, want := range map[string]Exit{
		"crash-ready": {Cause: causeExit, Code: new(int), Reason: "exited with code 3"},
		"killed":      {Cause: causeSignal, Signal: "SIGKILL", Reason: "ended by SIGKILL"},
	} {
		r := newRig(t)
		spec := confine(t, fake(t, name), sandbox.Limits{})
		spec.Restart.Never = true
		r.apply(spec)
		r.untilTold(name, "started", "crashed", "permanently_failed")
		exit := r.stat(name).LastExit
		if exit.Cause != want.Cause || exit.Signal != want.Signal || exit.Reason != want.Reason || (exit.Code == nil) != (want.Code == nil) {
			t.Errorf("%s: %+v", name, exit)
		}
	}
}

func TestALimitThatIsExceededIsTheCauseOfTheEnd(t *testing.T) {
	r := newRig(t)
	spec := confine(t, fake(t, "grandchild", "RECORD="+filepath.Join(t.TempDir(), "record")), sandbox.Limits{Processes: 1})
	spec.Restart.Never = true
	r.Apply([]Spec{spec})
	r.until("its end", func() bool { return slices.Contains(r.kindsLocked("grandchild"), "permanently_failed") })
	exit := r.stat("grandchild").LastExit
	if exit.Cause != causeLimit || !strings.Contains(exit.Reason, "its limit is 1") {
		t.Errorf("%+v", exit)
	}
}

func TestAStartInASandboxThatCannotBeIsAFailedStart(t *testing.T) {
	r := newRig(t)
	spec := confine(t, fake(t, "good"), sandbox.Limits{})
	spec.Sandbox.Read = []string{"/nowhere"}
	spec.Restart.Never = true
	r.Apply([]Spec{spec})
	r.until("its end", func() bool { return slices.Contains(r.kindsLocked("good"), "permanently_failed") })
	if exit := r.stat("good").LastExit; exit.Cause != causeSpawnFailed || !strings.Contains(exit.Reason, "/nowhere") {
		t.Errorf("%+v", exit)
	}
}

func TestADaemonOfAConfinedServerThatShedEverythingEndsWithIt(t *testing.T) {
	r := newRig(t)
	spec := confine(t, fake(t, "daemonised", "RECORD="+filepath.Join(t.TempDir(), "record")), sandbox.Limits{})
	r.apply(spec)
	within := func() (pids []int) {
		for _, m := range proc.Descend(proc.Scan(""), func(m proc.Member) bool { return m.PID == r.stat("daemonised").PID }) {
			pids = append(pids, m.PID)
		}
		return pids
	}
	// The first process of the sandbox, the server and the daemon, an orphan that the
	// first process has adopted.
	eventually(t, "the daemon", func() bool { return len(within()) == 3 })
	all := within()
	if err := r.Stop(t.Context(), "daemonised"); err != nil {
		t.Fatal(err)
	}
	if !allOver(all) {
		t.Errorf("some of %v are left", all)
	}
}
