package main

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// tenantSite is a broker with an active allocation of a node, and a member with a client.yaml that has no
// right of an operator.
type tenantSite struct {
	realSite
	allocation, token string
}

func newTenantSite(t *testing.T) *tenantSite {
	b := servertest.Start(t, func(c *server.Config) { c.Often = 20 * time.Millisecond })
	servertest.Must[api.SKU](t, b, http.MethodPost, "/skus", map[string]any{"id": "h100.8gpu", "images": []string{"ubuntu/noble"}})
	node := b.NewNode(t, api.NodeCreate{Hostname: "gpu-07", Site: "dc1", SKU: "h100.8gpu"}).Settle(t)
	servertest.Must[api.Organisation](t, b, http.MethodPost, "/organisations", api.OrganisationCreate{Name: "acme"})
	project := servertest.Must[api.Project](t, b, http.MethodPost, "/organisations/acme/projects", api.ProjectCreate{Name: "lab"})
	token := b.NewToken(t, api.TokenCreate{Name: "ada", Role: "project_member", Project: project.ID})
	member := servertest.Must[api.MemberList](t, b, http.MethodGet, "/projects/lab/members", nil).Items[0]
	key := servertest.Must[api.SSHKey](t, b, http.MethodPost, "/members/"+member.ID+"/keys", api.SSHKeyAdd{
		PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIA2gT4F2m5C1yqXZ7u0cSxkq1sBzqH4q5l0S9m3v0aA",
	})
	servertest.Must[api.Quota](t, b, http.MethodPut, "/projects/lab/quotas/h100.8gpu", api.QuotaPut{Nodes: 1, GPUs: 8})
	made := servertest.Must[api.Allocation](t, b, http.MethodPost, "/projects/lab/allocations",
		api.AllocationCreate{SKU: "h100.8gpu", Nodes: 1, SSHKeyIDs: []string{key.ID}})
	node.Provision(t, made.ID)
	return &tenantSite{realSite{t, b, node}, made.ID, token}
}

func (s *tenantSite) asMember(args ...string) *exec.Cmd {
	cmd := s.command(args...)
	cmd.Env = append(cmd.Env, "HOSTLER_TOKEN="+s.token)
	return cmd
}

// A member's terminal goes the way of an operator's, over the same relay, and names no node.
func TestAMembersTerminalThroughARealBroker(t *testing.T) {
	s := newTenantSite(t)
	n := onTerminal(t, s.asMember("allocation", "ssh", s.allocation, "--via", "broker"))
	node, p := s.node.OpenTerminal(t)
	if p.Username != broker.AllocationAccount || p.AllowRoot || p.AllocationID != s.allocation || len(p.Command) != 0 {
		t.Errorf("%+v", p)
	}
	n.shows("as tenant on a node of allocation " + s.allocation + "; what it shows is recorded")
	node.Send(t, frame.Ack{Limit: 1 << 16}, frame.Data{Bytes: []byte("$ ")})
	n.shows("$ ")
	n.types("exit\r")
	if d := servertest.Until[frame.Data](t, node); string(d.Bytes) != "exit\r" {
		t.Errorf("%q", d.Bytes)
	}
	node.Send(t, frame.Ack{Taken: 5, Limit: 1 << 16}, frame.EOF{Offset: 2}, frame.Exit{Status: 5})
	n.ends(5)
	out, err := s.asMember("terminal", "show", p.SessionID).CombinedOutput()
	if err != nil || !strings.Contains(string(out), s.allocation) || strings.Contains(string(out), s.node.NodeID) || strings.Contains(string(out), "dc1") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = s.asMember("terminal", "list", "-q").CombinedOutput()
	if err != nil || string(out) != p.SessionID+"\n" {
		t.Errorf("%v: %s", err, out)
	}
	if got := s.says("recording", "verify", p.SessionID); !strings.Contains(got, "complete") {
		t.Errorf("%q", got)
	}
}

// A session that was left is taken up again, and ends with the allocation.
func TestAMembersTerminalEndsWithTheAllocation(t *testing.T) {
	s := newTenantSite(t)
	n := onTerminal(t, s.asMember("allocation", "ssh", s.allocation, "--via", "broker"))
	node, p := s.node.OpenTerminal(t)
	node.Send(t, frame.Data{Bytes: []byte("$ ")})
	n.shows("$ ")
	n.types("~d")
	n.ends(0)
	n = onTerminal(t, s.asMember("terminal", "attach", p.SessionID))
	n.shows("$ ")
	servertest.Must[api.PlatformAllocation](t, s.Broker, http.MethodPost, "/allocations/"+s.allocation+"/force-release", api.ReasonBody{Reason: "of gpu-07"})
	n.ends(exitRefused)
	n.shows("error: allocation_not_active: session " + p.SessionID + " on a node of allocation " + s.allocation + " has ended")
	if shown := n.shown(); strings.Contains(shown, s.node.NodeID) || strings.Contains(shown, "recording play") {
		t.Errorf("%q", shown)
	}
}
