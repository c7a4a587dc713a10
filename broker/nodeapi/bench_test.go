package nodeapi

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

const pollersEnv = "HOSTLER_TEST_POLLERS"

// pollers is what the process with the nodes is told.
type pollers struct {
	Addr, Pin string
	Now       time.Time
	Nodes     []struct{ ID, Chain, Key string }
}

// TestMain lets this binary be that process: its memory must not be counted.
func TestMain(m *testing.M) {
	if os.Getenv(pollersEnv) == "" {
		os.Exit(m.Run())
	}
	if err := runPollers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runPollers connects each node, lets it poll, and stays until stdin ends.
func runPollers() error {
	in := json.NewDecoder(os.Stdin)
	var p pollers
	if err := in.Decode(&p); err != nil {
		return err
	}
	for _, n := range p.Nodes {
		cert, err := tls.X509KeyPair([]byte(n.Chain), []byte(n.Key))
		if err != nil {
			return err
		}
		config := pki.PinnedConfig(p.Pin, "127.0.0.1", func() time.Time { return p.Now })
		config.Certificates = []tls.Certificate{cert}
		conn, err := tls.Dial("tcp", p.Addr, config)
		if err != nil {
			return err
		}
		go pollForEver(conn, n.ID)
	}
	_ = in.Decode(new(struct{})) // until the other side is done
	return nil
}

func pollForEver(conn *tls.Conn, id string) {
	answers := bufio.NewReader(conn)
	for {
		if _, err := fmt.Fprintf(conn, "GET /internal/v1/nodes/%s/tasks/wait?lanes=exclusive,concurrent HTTP/1.1\r\nHost: broker\r\nHostler-Agent-Version: 1.0.0\r\nHostler-Trust-Version: 1\r\n\r\n", id); err != nil {
			return
		}
		for line := "-"; line != "\r\n"; {
			var err error
			if line, err = answers.ReadString('\n'); err != nil {
				return
			}
		}
	}
}

// BenchmarkMemoryOfAThousandWaitingAgents says what one agent that waits costs
// the broker: resident memory and Go's own account of it, over real mTLS.
func BenchmarkMemoryOfAThousandWaitingAgents(bench *testing.B) {
	const agents = 1000
	b := newBroker(bench)
	p := pollers{Addr: b.addr, Pin: b.trust.RootSHA256(), Now: b.clock.Now()}
	for range agents {
		id, chain, key := b.quietMember()
		p.Nodes = append(p.Nodes, struct{ ID, Chain, Key string }{id, chain, key})
	}
	tell := must(json.Marshal(p))(bench)
	for bench.Loop() {
		resident, inUse := memory(bench)
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), pollersEnv+"=1")
		other.Stderr = os.Stderr
		stdin := must(other.StdinPipe())(bench)
		must0(bench, other.Start())
		_, err := bytes.NewReader(tell).WriteTo(stdin)
		must0(bench, err)
		for b.waitingPolls() < agents {
			time.Sleep(10 * time.Millisecond)
		}
		residentThen, inUseThen := memory(bench)
		bench.ReportMetric(float64(residentThen-resident)/agents/1024, "rss-KiB/agent")
		bench.ReportMetric(float64(inUseThen-inUse)/agents/1024, "go-KiB/agent")
		must0(bench, stdin.Close())
		must0(bench, other.Wait())
		for b.waitingPolls() > 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// quietMember is an active node with nothing to do.
func (b *testBroker) quietMember() (id, chain, key string) {
	b.t.Helper()
	id, token := b.create(store.NewNode{})
	signer := must(pki.GenerateKey(pki.Ed25519))(b.t)
	csr := must(pki.ParseCSR(must(pki.NewCSR(signer))(b.t)))(b.t)
	enrolled := must(b.db.Enroll(b.t.Context(), store.EnrollInput{
		TokenHash: pki.HashToken(token), PublicKeyDigest: must(pki.PublicKeyDigest(signer.Public()))(b.t), TrustVersion: 1,
		Issue: func(n broker.Node, epoch int64) (store.IssuedCert, error) {
			return b.issue(csr, pki.NodeIdentity{NodeID: n.ID, Epoch: epoch})
		},
	}))(b.t)
	must(b.db.Transition(b.t.Context(), admin, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(b.t)
	return id, enrolled.Cert.PEM, string(must(pki.MarshalKey(signer))(b.t))
}

// memory returns the resident set of this process, and what Go has in use of
// heap and stacks, after what is garbage has gone.
func memory(t testing.TB) (resident, inUse int64) {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	statm := strings.Fields(string(must(os.ReadFile("/proc/self/statm"))(t)))
	pages := must(strconv.ParseInt(statm[1], 10, 64))(t)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return pages * int64(os.Getpagesize()), int64(m.HeapInuse + m.StackInuse)
}
