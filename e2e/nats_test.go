//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aurorabot-dev/platform/amp"
	"github.com/aurorabot-dev/platform/bridge/bus"
	"github.com/aurorabot-dev/platform/bridge/bustest"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/bridge/journal/space"
	"github.com/aurorabot-dev/platform/bridge/natsbus"
)

// natsCluster is three nats-server processes.
type natsCluster struct {
	t     *testing.T
	exe   string
	nodes map[string]*natsNode
}

type natsNode struct {
	name, config string
	url          string
	cmd          *exec.Cmd
}

const natsPatience = 2 * time.Minute // for what takes a moment on a machine with time

func startCluster(t *testing.T) *natsCluster {
	t.Helper()
	dir := t.TempDir()
	c := &natsCluster{t: t, exe: filepath.Join(dir, "nats-server"), nodes: map[string]*natsNode{}}
	build := exec.Command("go", "build", "-o", c.exe, "github.com/nats-io/nats-server/v2")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building nats-server: %v\n%s", err, out)
	}
	ports := freePorts(t, 6)
	routes := fmt.Sprintf("nats://127.0.0.1:%d, nats://127.0.0.1:%d, nats://127.0.0.1:%d", ports[3], ports[4], ports[5])
	for i, name := range []string{"a", "b", "c"} {
		n := &natsNode{name: name, config: filepath.Join(dir, name+".conf"), url: fmt.Sprintf("nats://127.0.0.1:%d", ports[i])}
		config := fmt.Sprintf("server_name: %s\nlisten: 127.0.0.1:%d\njetstream { store_dir: %q }\n"+
			"cluster { name: test, listen: 127.0.0.1:%d, routes: [%s] }\nlog_file: %q\n",
			name, ports[i], filepath.Join(dir, name), ports[i+3], routes, filepath.Join(dir, name+".log"))
		if err := os.WriteFile(n.config, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		c.nodes[name] = n
		c.start(name)
	}
	t.Cleanup(func() {
		for name := range c.nodes {
			c.kill(name)
		}
		if t.Failed() {
			for name := range c.nodes {
				if log, err := os.ReadFile(filepath.Join(dir, name+".log")); err == nil {
					t.Logf("log of %s ends:\n%s", name, log[max(0, len(log)-4000):])
				}
			}
		}
	})
	return c
}

// freePorts finds ports that nobody listens on.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // after all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (c *natsCluster) start(name string) {
	c.t.Helper()
	n := c.nodes[name]
	n.cmd = exec.Command(c.exe, "-c", n.config)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *natsCluster) kill(name string) {
	n := c.nodes[name]
	if n.cmd == nil {
		return
	}
	n.cmd.Process.Kill()
	n.cmd.Wait() // killed
	n.cmd = nil
}

func (c *natsCluster) urls() (urls []string) {
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		urls = append(urls, c.nodes[name].url)
	}
	return urls
}

func (c *natsCluster) admin() jetstream.JetStream {
	c.t.Helper()
	conn, err := nats.Connect(strings.Join(c.urls(), ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		c.t.Fatal(err)
	}
	return js
}

// healthy waits until the stream has a leader and two replicas that are up to
// date, and returns the leader.
func (c *natsCluster) healthy(js jetstream.JetStream) (leader string) {
	c.t.Helper()
	c.eventually("all replicas are current", func() (bool, string) {
		s, err := js.Stream(context.Background(), "AURORA")
		if err != nil {
			return false, err.Error()
		}
		cluster := s.CachedInfo().Cluster
		if cluster == nil || cluster.Leader == "" || len(cluster.Replicas) != 2 {
			return false, fmt.Sprintf("%+v", cluster)
		}
		for _, r := range cluster.Replicas {
			if r.Offline || !r.Current {
				return false, fmt.Sprintf("%+v", r)
			}
		}
		leader = cluster.Leader
		return true, ""
	})
	return leader
}

func (c *natsCluster) eventually(what string, done func() (bool, string)) {
	c.t.Helper()
	for deadline := time.Now().Add(natsPatience); ; time.Sleep(20 * time.Millisecond) {
		ok, why := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain until %s: %s", what, why)
		}
	}
}

// streamOf reads all that the stream holds, in its order.
func streamOf(t *testing.T, js jetstream.JetStream) (all []*amp.Envelope) {
	t.Helper()
	s, err := js.Stream(t.Context(), "AURORA")
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, FilterSubject: "aurora.>"})
	if err != nil {
		t.Fatal(err)
	}
	want := s.CachedInfo().State.Msgs
	for uint64(len(all)) < want {
		batch, err := consumer.Fetch(500, jetstream.FetchMaxWait(natsPatience))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			e, err := amp.Parse(m.Data())
			if err != nil {
				t.Fatal(err)
			}
			if id := m.Headers().Get(jetstream.MsgIDHeader); id != e.Header.MessageID {
				t.Fatalf("message %s has the id %s", e.Header.MessageID, id)
			}
			all = append(all, e)
			if uint64(len(all)) == want {
				break
			}
		}
		if err := batch.Error(); err != nil && uint64(len(all)) < want {
			t.Fatal(err)
		}
	}
	return all
}

// natsLoad publishes from several sources until told to stop, each event twice
// now and then, and remembers what was acknowledged.
type natsLoad struct {
	mu    sync.Mutex
	acked map[string]bool
	stop  atomic.Bool
	wg    sync.WaitGroup
}

func startLoad(t *testing.T, b bus.Bus) *natsLoad {
	l := &natsLoad{acked: map[string]bool{}}
	for p := range 4 {
		l.wg.Go(func() {
			for i := 0; !l.stop.Load(); i++ {
				e := bustest.Event(fmt.Sprint("app", p), "test.event", i)
				e.Header.MessageID = fmt.Sprintf("p%d-%06d", p, i)
				for range 1 + i%2 {
					if _, err := b.Publish(context.Background(), bus.Item{Envelope: e}); err != nil {
						if !errors.Is(err, natsbus.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
				l.mu.Lock()
				l.acked[e.Header.MessageID] = true
				l.mu.Unlock()
			}
		})
	}
	return l
}

func TestACommittedEventSurvivesTheDeathOfEachLeaderAndOfTheWholeCluster(t *testing.T) {
	cluster := startCluster(t)
	js := cluster.admin()
	b, err := natsbus.Open(t.Context(), natsbus.Options{URLs: cluster.urls(), Replicas: 3, Retry: 50 * time.Millisecond, CloseTimeout: natsPatience,
		AckTimeout: 2 * time.Second, MaxLag: 20_000,
		Journal: journal.Options{Dir: filepath.Join(t.TempDir(), "journal"), Space: space.Reserve{Bytes: 1, Percent: 1e-9, Inodes: 1e-9}}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	load := startLoad(t, b)
	defer load.wg.Wait()
	defer load.stop.Store(true)
	flows := func(what string) {
		t.Helper()
		before := b.Counters().Delivered
		cluster.eventually("messages flow "+what, func() (bool, string) {
			return b.Counters().Delivered > before+1000, fmt.Sprint(b.Counters(), b.State().Err)
		})
	}
	rounds := 2 + long
	for round := range rounds {
		flows("before the kill")
		leader := cluster.healthy(js)
		cluster.kill(leader)
		flows("without " + leader)
		if round == rounds-1 { // and the last time, all of them
			for name := range cluster.nodes {
				cluster.kill(name)
			}
			backlog := b.Counters().Backlog
			cluster.eventually("events wait", func() (bool, string) { return b.Counters().Backlog > backlog+500, fmt.Sprint(b.Counters()) })
			for name := range cluster.nodes {
				cluster.start(name)
			}
		} else {
			cluster.start(leader)
		}
		cluster.healthy(js)
	}
	flows("at the end")
	load.stop.Store(true)
	load.wg.Wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	cluster.healthy(js)

	count, lastSeq := map[string]int{}, map[string]uint64{}
	for _, e := range streamOf(t, js) {
		count[e.Header.MessageID]++
		app := e.Header.Source.App
		if e.Header.Seq != lastSeq[app]+1 {
			t.Errorf("%s: seq %d comes after %d", app, e.Header.Seq, lastSeq[app])
		}
		lastSeq[app] = e.Header.Seq
		if e.Header.MessageID[3:] != fmt.Sprintf("%06s", e.Payload.Data) {
			t.Errorf("%s holds %s", e.Header.MessageID, e.Payload.Data)
		}
	}
	lost, twice := 0, 0
	for id := range load.acked {
		if count[id] == 0 {
			lost++
		}
	}
	for _, n := range count {
		if n > 1 {
			twice++
		}
	}
	if lost+twice > 0 || len(count) != len(load.acked) {
		t.Errorf("%d acknowledged, %d in the stream: %d lost, %d twice; problems %q", len(load.acked), len(count), lost, twice, b.Problems())
	}
	t.Logf("%d events, %d leaders killed, then the cluster: %d lost, %d twice; problems %q", len(load.acked), rounds, lost, twice, b.Problems())
}
