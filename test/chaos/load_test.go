//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/fleet"
	"github.com/hostler/hostler/test/maassim"
)

const operators = 4

// seen holds the events as operators and nodes saw them.
type seen struct {
	mu       sync.Mutex
	accepted map[string]string        // task by its id: the node
	refused  map[string]int           // by the refusal's text
	events   map[string][]fleet.Event // by task
}

func newSeen() *seen {
	return &seen{accepted: map[string]string{}, refused: map[string]int{}, events: map[string][]fleet.Event{}}
}

func (s *seen) saw(e fleet.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[e.TaskID] = append(s.events[e.TaskID], e)
}

// setUp makes a site with nodes in service.
func (s *scene) setUp(nodes int, script fleet.Script) (ids []string) {
	s.t.Helper()
	b := servertest.Attach(s.t, filepath.Join(s.brokers[0].dir, "data"), "https://"+net.JoinHostPort(world, operatorPort), "https://"+net.JoinHostPort(world, agentPort), time.Now)
	post := func(method, path, body string) {
		s.t.Helper()
		servertest.Must[json.RawMessage](s.t, b, method, path, json.RawMessage(body))
	}
	post(http.MethodPost, "/maas-sites", fmt.Sprintf(`{"name":"dc1","region_code":"eu-1","api_base_url":"http://%s:%s/MAAS","pxe_iface":"ens19","pxe_vlan_vid":46,"node_pxe_iface":"eno8303"}`, world, maasPort))
	post(http.MethodPost, "/maas-sites/dc1/credentials", fmt.Sprintf(`{"maas_token":%q,"power_user":"root","power_password":"a-bmc"}`, s.region.APIKey()))
	// The fleet's own site has no MAAS.
	post(http.MethodPost, "/maas-sites", `{"name":"dc2","region_code":"eu-2","status":"disabled","api_base_url":"http://dc2.invalid/MAAS","pxe_iface":"ens19","pxe_vlan_vid":46,"node_pxe_iface":"eno8303"}`)
	post(http.MethodPost, "/skus", `{"id":"h100.8gpu","nics":["eno8303","eno8403"],"gpu_vendor":"nvidia","gpu_model":"H100","gpu_count":8,"gpu_memory_bytes":85899345920}`)
	post(http.MethodPatch, "/maas-sites/dc1/profiles/default", `{"require_hw_sync":false,"enable_phase2_roce":false,"batch_max_parallel":500}`)
	s.fleet = fleet.New(fleet.Site{Broker: "https://" + net.JoinHostPort(world, agentPort), CASHA256: s.root, Script: script})
	s.fleet.Saw = s.seen.saw
	var tokens []string
	for n := range nodes {
		var boot *api.NodeBootstrap
		s.insist(s.t.Context(), "create a node", func() (err error) {
			boot, err = s.api.CreateNode(s.t.Context(), api.NodeCreate{Hostname: fmt.Sprintf("n%03d", n), Site: "dc2", Bootstrap: "command"})
			return err
		})
		tokens, ids = append(tokens, boot.Token), append(ids, boot.Node.ID)
	}
	s.fleet.Join(s.lives, tokens)
	return ids
}

// insist repeats f while the brokers are unavailable, until f succeeds, ctx ends, or f is refused
// for good.
func (s *scene) insist(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		e := broker.AsError(err)
		switch {
		case err == nil:
			return nil
		case e.Kind != broker.Unavailable && e.Kind != broker.TooMany:
			return err
		case !after(ctx, 200*time.Millisecond+rand.N(time.Second)):
			return ctx.Err()
		}
	}
}

// operate enqueues tasks, each under its own idempotency key, until ctx ends. An operator repeats
// each request until it is answered.
func (s *scene) operate(ctx context.Context, nodes []string) {
	var work sync.WaitGroup
	for who := range operators {
		work.Go(func() {
			for n := 0; after(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond)); n++ {
				node := nodes[rand.N(len(nodes))]
				var k *api.Task
				err := s.insist(s.lives, "enqueue", func() (err error) {
					k, err = s.api.Enqueue(s.lives, node, api.TaskCreate{Type: "node.heartbeat_check", IdempotencyKey: fmt.Sprintf("operator-%d-%d", who, n)})
					return err
				})
				s.seen.mu.Lock()
				if err == nil {
					s.seen.accepted[k.ID] = node
				} else {
					s.seen.refused[err.Error()]++
				}
				s.seen.mu.Unlock()
			}
		})
	}
	work.Wait()
}

var enrolToken = regexp.MustCompile(`hsn_[A-Za-z0-9_-]{43}`)

// onboard begins a batch of onboardings, and starts the agents of deployed machines until ctx ends.
func (s *scene) onboard(ctx context.Context, machines int) (batch string) {
	s.t.Helper()
	order := api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu", Reason: "chaos"}
	for n := range machines {
		h := maassim.Box(n + 1)
		h.BMC.User, h.BMC.Password = "root", "a-bmc"
		s.region.PlugIn(h)
		order.Nodes = append(order.Nodes, api.OnboardingMachine{Hostname: fmt.Sprintf("c%03d", n), IPMIIP: h.BMC.Address})
	}
	begun, err := s.api.StartOnboardingBatch(s.t.Context(), order)
	must(s.t, err)
	go func() {
		up := map[string]bool{}
		for after(ctx, time.Second) {
			for _, m := range s.region.Machines() {
				token := string(enrolToken.Find(m.UserData))
				if m.HostUp && m.Status == maassim.Deployed && !up[m.SystemID] && token != "" {
					up[m.SystemID] = true
					s.fleet.JoinMachine(s.lives, token, fleet.Machine{Hostname: m.Hostname, SystemID: m.SystemID, Facts: servertest.H100s(8)})
				}
			}
		}
	}()
	return begun.BatchID
}
