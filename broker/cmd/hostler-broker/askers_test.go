package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
)

// Fifty nodes, and four askers for each of them at three brokers on one PostgreSQL.
const (
	freeNodes = 50
	askers    = 4 * freeNodes
	atOnce    = 30 // askers
	killAfter = 20 // answers: thirty nodes are left
)

// TestAskersGetEachNodeOnceThoughABrokerDies has many projects ask three brokers for the nodes of a SKU at once.
// One broker is killed with SIGKILL in the middle. Whoever has no answer of it asks another broker again, with
// the same idempotency key. Each node has one winner, and whoever lost reads sku_unavailable.
func TestAskersGetEachNodeOnceThoughABrokerDies(t *testing.T) {
	t.Parallel()
	url := storetest.PostgresURL(t)
	a := newProcess(t, `{"require_hw_sync":false}`, func(_ *process, next http.Handler) http.Handler { return next }, func(p *process) {
		p.args = []string{"--db", url}
		if out, err := exec.Command("hostler-broker", "ca", "init", "--data-dir", p.data()).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	c := &contest{brokers: []*process{a, a.replica(), a.replica()}, answers: make([]answer, askers)}
	for i := range freeNodes {
		a.NewNode(t, api.NodeCreate{Hostname: fmt.Sprintf("gpu-%02d", i), Site: "dc1", SKU: "h100.8gpu"}).Settle(t)
	}
	for i := range 8 {
		c.tenants = append(c.tenants, newAsker(t, a, i))
	}
	c.dying = c.brokers[1]
	var work errgroup.Group
	work.SetLimit(atOnce)
	for i := range askers {
		work.Go(func() error { c.ask(t, i); return nil })
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	c.judge(t)
}

// asker is a project that asks.
type asker struct{ path, token, key string }

func newAsker(t *testing.T, p *process, i int) asker {
	t.Helper()
	org := fmt.Sprint("org", i)
	servertest.Must[api.Organisation](t, p.Broker, http.MethodPost, "/organisations", api.OrganisationCreate{Name: org})
	project := servertest.Must[api.Project](t, p.Broker, http.MethodPost, "/organisations/"+org+"/projects", api.ProjectCreate{Name: "lab"})
	path := "/projects/" + project.ID
	servertest.Must[api.Quota](t, p.Broker, http.MethodPut, path+"/quotas/h100.8gpu", api.QuotaPut{Nodes: askers, GPUs: 0})
	member := servertest.Must[api.Member](t, p.Broker, http.MethodPost, path+"/members", api.MemberAdd{Subject: "ada", Role: "project_member"})
	key := servertest.Must[api.SSHKey](t, p.Broker, http.MethodPost, "/members/"+member.ID+"/keys", api.SSHKeyAdd{
		PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK9GqgcwekczAtWZH/06w3NEqSOM/gQEv/9skqX8t3LB",
	})
	return asker{path + "/allocations", p.NewToken(t, api.TokenCreate{Name: fmt.Sprint("of-", org), Role: "project_member", Project: project.ID}), key.ID}
}

// answer is what an asker was told in the end.
type answer struct {
	status int
	code   string
	won    api.Allocation
	tries  int
}

// contest is the askers' contest for the nodes.
type contest struct {
	brokers []*process
	tenants []asker
	dying   *process
	answers []answer

	mu       sync.Mutex
	answered int
	kill     sync.Once
}

// ask asks one broker after the other until one has answered.
func (c *contest) ask(t *testing.T, i int) {
	who, got := c.tenants[i%len(c.tenants)], &c.answers[i]
	for ; got.status == 0 || got.status == http.StatusServiceUnavailable; got.tries++ {
		if got.tries > 20 {
			t.Errorf("asker %d has no answer", i)
			return
		}
		p := c.brokers[(i+got.tries)%len(c.brokers)]
		got.status, got.code, got.won = who.post(p, fmt.Sprint("ask-", i))
		c.mu.Lock()
		c.answered++
		due := c.answered == killAfter
		c.mu.Unlock()
		if due {
			c.kill.Do(c.dying.kill)
		}
	}
}

// post asks for a node. The status is 0 if there is no answer.
func (a asker) post(p *process, key string) (status int, code string, won api.Allocation) {
	body, err := json.Marshal(api.AllocationCreate{SKU: "h100.8gpu", Nodes: 1, SSHKeyIDs: []string{a.key}})
	if err != nil {
		return 0, err.Error(), won
	}
	req, err := http.NewRequest(http.MethodPost, p.OperatorURL()+api.Path(a.path), bytes.NewReader(body))
	if err != nil {
		return 0, err.Error(), won
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(p.Roots, nil, p.Now)}}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return 0, "", won
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusCreated {
		err = json.NewDecoder(res.Body).Decode(&won)
	} else {
		var no api.Problem
		err = json.NewDecoder(res.Body).Decode(&no)
		code = no.Code
	}
	if err != nil { // the broker died in the answer
		return 0, "", api.Allocation{}
	}
	return res.StatusCode, code, won
}

// judge compares what the askers were told with what is on record.
func (c *contest) judge(t *testing.T) {
	t.Helper()
	var winners []string
	again, late := 0, 0
	for i, got := range c.answers {
		if got.tries > 1 {
			again++
		}
		switch {
		case got.status == http.StatusCreated:
			winners = append(winners, got.won.ID)
			if got.tries > 1 {
				late++
			}
		case got.code != "sku_unavailable":
			t.Errorf("asker %d was told %d %s", i, got.status, got.code)
		}
	}
	var kept []string
	var nodes []string
	for _, one := range servertest.Must[api.PlatformAllocationList](t, c.brokers[0].Broker, http.MethodGet, "/allocations?limit=1000", nil).Items {
		kept, nodes = append(kept, one.ID), append(nodes, one.NodeIDs...)
	}
	slices.Sort(winners)
	slices.Sort(kept)
	slices.Sort(nodes)
	if !slices.Equal(winners, kept) {
		t.Errorf("%d askers won, and %d allocations are on record:\n%v\n%v", len(winners), len(kept), winners, kept)
	}
	if distinct := len(slices.Compact(slices.Clone(nodes))); len(winners) != freeNodes || len(nodes) != freeNodes || distinct != freeNodes {
		t.Errorf("%d askers won %d nodes, %d of them distinct; want %d", len(winners), len(nodes), distinct, freeNodes)
	}
	if again == 0 || late == 0 {
		t.Error("nobody asked another broker and won: the broker died too late")
	}
	t.Logf("%d askers asked again, and %d of them won", again, late)
}
