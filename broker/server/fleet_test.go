package server

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const fleetEnv = "HOSTLER_TEST_FLEET"

// fleet is a process full of nodes. They do what the wire asks of a node, and
// nothing of a machine: mutual TLS, polls, the check of a task's signature,
// signed evidence, results. A process of their own keeps their memory and their
// processor time out of the broker's account.
type fleet struct {
	Address string // of the agents' listener
	Bundle  string // the trust bundle, as it is signed
	Nodes   []fleetNode
}

type fleetNode struct {
	ID         string
	Epoch      int64
	Chain, Key string
}

// TestMain lets this binary be that process.
func TestMain(m *testing.M) {
	if os.Getenv(fleetEnv) == "" {
		os.Exit(m.Run())
	}
	if err := serveFleet(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// start starts the process; it ends when the returned function is called.
func (f fleet) start(b *testing.B) (stop func()) {
	b.Helper()
	tell, err := json.Marshal(f)
	if err != nil {
		b.Fatal(err)
	}
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), fleetEnv+"=1")
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := process.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := stdin.Write(tell); err != nil {
		b.Fatal(err)
	}
	return func() {
		_ = stdin.Close()
		if err := process.Wait(); err != nil {
			b.Errorf("the nodes ended with: %v", err)
		}
	}
}

// serveFleet runs the nodes until in ends.
func serveFleet(in io.Reader) error {
	told := json.NewDecoder(in)
	var f fleet
	if err := told.Decode(&f); err != nil {
		return err
	}
	trust, err := pki.FirstBundle([]byte(f.Bundle), time.Now())
	if err != nil {
		return err
	}
	ended := make(chan error)
	for _, n := range f.Nodes {
		go func() { ended <- n.serve(f.Address, trust) }()
	}
	go func() {
		_ = told.Decode(new(struct{}))
		ended <- nil
	}()
	return <-ended
}

// member is a node with its connection.
type member struct {
	fleetNode
	key     crypto.Signer
	trust   *pki.TrustBundle
	conn    *tls.Conn
	answers *bufio.Reader
}

func (n fleetNode) serve(address string, trust *pki.TrustBundle) error {
	pair, err := tls.X509KeyPair([]byte(n.Chain), []byte(n.Key))
	if err != nil {
		return err
	}
	conn, err := tls.Dial("tcp", address, pki.ClientConfig(trust.Roots(time.Now()), &pair, time.Now))
	if err != nil {
		return err
	}
	m := &member{fleetNode: n, key: pair.PrivateKey.(crypto.Signer), trust: trust, conn: conn, answers: bufio.NewReader(conn)}
	for {
		var reply wire.WaitReply
		if err := m.ask(http.MethodGet, "/tasks/wait?lanes=exclusive,concurrent", nil, &reply); err != nil {
			return err
		}
		for _, d := range reply.Tasks {
			if err := m.run(d); err != nil {
				return err
			}
		}
	}
}

// run answers a heartbeat check.
func (m *member) run(d wire.Delivery) error {
	envelope, err := pki.ParseEnvelope([]byte(d.Envelope))
	if err != nil {
		return err
	}
	task, err := m.trust.VerifyTask(envelope, time.Now())
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	result, err := taskcatalog.Encode(taskcatalog.HeartbeatCheckResult{AgentVersion: "1.0.0", BootID: "boot", UptimeSeconds: 1, Now: now, RootFreeBytes: 1})
	if err != nil {
		return err
	}
	evidence, err := pki.SignEvidence(taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: m.ID, NodeEpoch: m.Epoch, BootID: "boot", Nonce: task.Nonce,
		StartedAt: now, FinishedAt: now, AgentVersion: "1.0.0", Outcome: taskcatalog.OutcomeSucceeded, ResultDigest: pki.Digest(result),
	}, m.key)
	if err != nil {
		return err
	}
	return m.ask(http.MethodPost, "/tasks/"+d.TaskID+"/result", wire.ResultRequest{
		Attempt: d.Attempt, Outcome: taskcatalog.OutcomeSucceeded, Result: result, Evidence: string(evidence),
	}, new(wire.ResultReply))
}

// ask makes a request and reads its answer.
func (m *member) ask(method, path string, body, into any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = taskcatalog.Encode(body); err != nil {
			return err
		}
	}
	request := fmt.Appendf(nil, "%s /internal/v1/nodes/%s%s HTTP/1.1\r\nHost: broker\r\n%s: 1.0.0\r\n%s: 1\r\nContent-Length: %d\r\n\r\n%s",
		method, m.ID, path, wire.HeaderAgentVersion, wire.HeaderTrustVersion, len(sent), sent)
	if _, err := m.conn.Write(request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(m.answers, nil)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusNoContent:
		return nil
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, bytes.TrimSpace(raw))
	}
	return taskcatalog.DecodeStrict(raw, into)
}
