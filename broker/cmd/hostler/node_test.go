package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
	"github.com/hostler/hostler/test/maassim"
)

// scriptNode is a node under the control of a tenant with root: it keeps to the protocol, and
// reports anything the test wants.
type scriptNode struct {
	broker *server.Server
	key    crypto.Signer
	id     string
	epoch  int64
	http   *http.Client
}

// enroll FILE makes a node from the output of hostler node create -o json, and lets the node answer
// tasks until the script ends.
func enroll(ts *testscript.TestScript, _ bool, args []string) {
	var b api.NodeBootstrap
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &b))
	key, err := pki.GenerateKey(pki.Ed25519)
	ts.Check(err)
	csr, err := pki.NewCSR(key)
	ts.Check(err)
	n := &scriptNode{broker: ts.Value("server").(*server.Server), key: key}
	n.http = httpsClient(pki.PinnedConfig(b.CASHA256, "127.0.0.1", time.Now))
	facts := &taskcatalog.Facts{DisksListed: true}
	if b.Node.MAASSystemID != "" {
		for _, d := range maassim.Box(7).Disks {
			facts.Disks = append(facts.Disks, taskcatalog.DiskFacts{Name: d.Name, Serial: d.Serial, SizeBytes: d.Size})
		}
	}
	var joined wire.EnrollReply
	_, err = n.post(context.Background(), "/internal/v1/nodes/enroll", wire.EnrollRequest{
		Token: b.Token, CSR: string(csr), AgentVersion: version, TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{}, Hostname: b.Node.Hostname, MAASSystemID: b.Node.MAASSystemID, Facts: facts, Now: time.Now(),
	}, &joined)
	ts.Check(err)
	chain, err := pki.ParseCerts([]byte(joined.Certificate))
	ts.Check(err)
	cert := &tls.Certificate{PrivateKey: key}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	bundle, err := pki.FirstBundle([]byte(joined.TrustBundle), time.Now())
	ts.Check(err)
	n.id, n.epoch = joined.NodeID, joined.NodeEpoch
	n.http = httpsClient(pki.ClientConfig(bundle.Roots(time.Now()), cert, time.Now))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); n.serve(ctx, ts) }()
	ts.Defer(func() { stop(); <-ended })
}

func httpsClient(c *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
}

// post sends one request; an unsuccessful answer is an error.
func (n *scriptNode) post(ctx context.Context, path string, body, out any) (int, error) {
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		raw, err := taskcatalog.Encode(body)
		if err != nil {
			return 0, err
		}
		method, content = http.MethodPost, bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, n.broker.AgentURL()+path, content)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return 0, err
	case res.StatusCode/100 != 2:
		return res.StatusCode, fmt.Errorf("%s %s: %s", method, path, answer)
	case res.StatusCode == http.StatusNoContent:
		return res.StatusCode, nil
	}
	return res.StatusCode, json.Unmarshal(answer, out)
}

// serve answers tasks until the script ends. It holds a drain until the drain is canceled.
func (n *scriptNode) serve(ctx context.Context, ts *testscript.TestScript) {
	held := map[string]wire.Delivery{}
	for ctx.Err() == nil {
		var got wire.WaitReply
		if _, err := n.post(ctx, "/internal/v1/nodes/"+n.id+"/tasks/wait?lanes=exclusive,concurrent", nil, &got); err != nil {
			if ctx.Err() == nil {
				ts.Logf("node: %v", err)
			}
			return
		}
		for _, d := range got.Tasks {
			task, err := taskOf(d)
			if err == nil && task.Type == "node.drain" {
				held[d.TaskID] = d
				continue
			}
			if err == nil {
				err = n.run(ctx, d, task, taskcatalog.OutcomeSucceeded)
			}
			if err != nil && ctx.Err() == nil {
				ts.Logf("node: %v", err)
			}
		}
		for _, id := range got.Cancel {
			d, ok := held[id]
			if !ok {
				continue
			}
			delete(held, id)
			if task, err := taskOf(d); err == nil {
				_ = n.run(ctx, d, task, taskcatalog.OutcomeCanceled)
			}
		}
	}
}

// taskOf reads a task. Another test checks the broker's signature.
func taskOf(d wire.Delivery) (*taskcatalog.Task, error) {
	var env struct {
		Payload []byte `json:"payload"`
	}
	task := new(taskcatalog.Task)
	if err := json.Unmarshal([]byte(d.Envelope), &env); err != nil {
		return nil, err
	}
	return task, json.Unmarshal(env.Payload, task)
}

func (n *scriptNode) run(ctx context.Context, d wire.Delivery, task *taskcatalog.Task, outcome taskcatalog.Outcome) error {
	base := "/internal/v1/nodes/" + n.id + "/tasks/" + d.TaskID
	_, err := n.post(ctx, base+"/progress", wire.ProgressRequest{
		Attempt: d.Attempt, CurrentStepIndex: 1, TotalSteps: 2, CurrentStepName: "look\x1b[2J", StepStatus: "running", StepStartedAt: time.Now(), StepPercent: 50,
	}, new(wire.ProgressReply))
	if err != nil {
		return err
	}
	result := taskcatalog.ValidateCleanResult{Verdict: taskcatalog.VerdictNotClean, Findings: 1, ChecksMade: 1}
	report := taskcatalog.Report{
		Verdict:  taskcatalog.VerdictNotClean,
		Findings: []taskcatalog.Finding{{Check: "processes", Subject: "4242 \x1b[31msh\u202e", NextAction: "allocation.revoke_user"}},
		Checks:   []taskcatalog.Check{{Name: "processes", Made: true}},
	}
	if strings.Contains(string(task.Params), `"take_baseline":true`) {
		result, report = taskcatalog.ValidateCleanResult{Baseline: &taskcatalog.Baseline{TakenAt: time.Now().UTC()}}, taskcatalog.Report{}
		raw, err := taskcatalog.Encode(result.Baseline)
		if err != nil {
			return err
		}
		result.BaselineDigest = pki.Digest(raw)
	}
	req := wire.ResultRequest{Attempt: d.Attempt, Outcome: outcome}
	if outcome == taskcatalog.OutcomeSucceeded {
		if req.Result, err = taskcatalog.Encode(result); err != nil {
			return err
		}
	} else {
		req.Code, report = taskcatalog.CodeCanceled, taskcatalog.Report{}
	}
	ev := taskcatalog.Evidence{
		TaskID: d.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: n.id, NodeEpoch: n.epoch, BootID: "boot", Nonce: task.Nonce,
		StartedAt: time.Now(), FinishedAt: time.Now(), AgentVersion: version, Outcome: outcome, Code: req.Code, Report: report,
	}
	if req.Result != nil {
		ev.ResultDigest = pki.Digest(req.Result)
	}
	envelope, err := pki.SignEvidence(ev, n.key)
	if err != nil {
		return err
	}
	req.Evidence = string(envelope)
	_, err = n.post(ctx, base+"/result", req, new(wire.ResultReply))
	return err
}
