package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fakeCluster says what a test wants of one node.
type fakeCluster struct {
	is  Membership
	err error
	// after is what the cluster says once it was told to drain or remove the node; nil: the same.
	after  map[string]Membership
	orders error // the answer to an order
	asked  []string
}

func (f *fakeCluster) Join(_ context.Context, node Node, until time.Time) (taskcatalog.ClusterJoin, error) {
	f.asked = append(f.asked, "join "+node.Name)
	if !until.Equal(now.Add(life)) {
		return taskcatalog.ClusterJoin{}, errors.New("the end is another")
	}
	return taskcatalog.ClusterJoin{Node: node.Name, Controller: "ctl:6817", Auth: "munge", Key: []byte("planted-key")}, f.err
}

func (f *fakeCluster) Membership(_ context.Context, node Node) (Membership, error) {
	f.asked = append(f.asked, "look "+node.Name)
	return f.is, f.err
}

func (f *fakeCluster) order(what, node string) error {
	f.asked = append(f.asked, what+" "+node)
	if is, ok := f.after[what]; ok {
		f.is = is
	}
	return f.orders
}

func (f *fakeCluster) Joined(_ context.Context, node Node) error { return f.order("joined", node.Name) }

func (f *fakeCluster) Drain(_ context.Context, node Node, order DrainOrder) (Membership, error) {
	if !order.At.Equal(now) {
		return Membership{}, errors.New("the time is another")
	}
	force := ""
	if order.ForceAfter > 0 {
		force = " by force after " + order.ForceAfter.String()
	}
	if err := f.order("drain for "+order.Reason+force+":", node.Name); err != nil {
		return Membership{}, err
	}
	return f.is, nil
}

func (f *fakeCluster) Remove(_ context.Context, node Node) error { return f.order("remove", node.Name) }

type site struct {
	clusters map[string]broker.Cluster
	secrets  keeper
	signed   taskcatalog.Task
	fake     *fakeCluster
	taken    string // the name in clusters that another node has
}

func (s *site) Cluster(_ context.Context, name string) (broker.Cluster, error) {
	c, ok := s.clusters[name]
	if !ok {
		return c, broker.Errorf(broker.NotFound, "cluster_not_found", "none")
	}
	return c, nil
}

func (s *site) Node(_ context.Context, id string) (broker.Node, error) {
	return broker.Node{ID: id, Hostname: "GPU-7.example"}, nil
}

func (s *site) MemberNameTaken(_ context.Context, nodeID, name string) (bool, error) {
	return nodeID == "n-1" && s.taken == name, nil
}

const plan = `{"operation_id":"op-1","attempt":1,"operation":"slurm.node.bootstrap@v1","project_id":"p-1","steps":[
{"id":"token","kind":"credential.mint","with":{"type":"cluster_join_token","scope":"lab"}},
{"id":"join","kind":"cluster.join","with":{"cluster":"slurm","credential":{"from":"steps.token"}}},
{"id":"verify","kind":"cluster.verify","with":{"cluster":"slurm","name":"lab"}},
{"id":"leave","kind":"cluster.leave","with":{"cluster":"slurm","name":"lab"}}]}`

func newSite(t *testing.T, plan string) *site {
	t.Helper()
	s := &site{secrets: keeper{}, fake: &fakeCluster{is: Membership{State: Member, Words: "IDLE"}}, clusters: map[string]broker.Cluster{}}
	s.signed = taskcatalog.Task{TaskID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "operation.run", Params: json.RawMessage(plan)}
	for name, project := range map[string]string{"lab": "p-1", "other": "p-2", "platform": ""} {
		c := broker.Cluster{
			Name: name, Backend: "slurm", URL: "https://slurm.example", ProjectID: project, Controller: "ctl:6817", JoinAuth: "munge",
			VaultPath: broker.ClusterPath(name), Generation: "g",
		}
		s.clusters[name] = c
		if err := Put(t.Context(), s.secrets, c, Access{Token: "planted-token", JoinSecret: []byte("planted-key")}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *site) ask(t *testing.T, credentialType, step string) (broker.Minted, error) {
	t.Helper()
	steps := &Steps{
		Records: s, Secrets: s.secrets, Now: func() time.Time { return now },
		Signed: func(envelope []byte) (*taskcatalog.Task, error) {
			if string(envelope) != "signed" {
				return nil, errors.New("no signature")
			}
			return &s.signed, nil
		},
		Backends: map[string]func(broker.Cluster, Access) Adapter{"slurm": func(broker.Cluster, Access) Adapter { return s.fake }},
	}
	return steps.Of(t.Context(), broker.Task{ID: "t-1", NodeID: "n-1", NodeEpoch: 2, Type: "operation.run", Envelope: []byte("signed")}, credentialType, step)
}

func TestAStepIsAnsweredByTheCluster(t *testing.T) {
	s := newSite(t, plan)
	s.fake.is = Membership{State: Absent}
	got, err := s.ask(t, "cluster_join_token", "token")
	var join taskcatalog.ClusterJoin
	if err != nil || json.Unmarshal([]byte(got.Secret), &join) != nil || join.Node != "gpu-7" || join.Controller != "ctl:6817" ||
		join.Auth != "munge" || string(join.Key) != "planted-key" || !got.Expires.Equal(now.Add(life)) || got.Opens != "join cluster lab as gpu-7" {
		t.Errorf("%+v %+v %v", got, join, err)
	}
	s.fake.is = Membership{State: Member, Words: "IDLE"}
	got, err = s.ask(t, "cluster_membership", "verify")
	var is taskcatalog.ClusterMembership
	if err != nil || json.Unmarshal([]byte(got.Secret), &is) != nil || is.State != "member" || is.Words != "IDLE" || is.Controller != "ctl:6817" || is.Node != "gpu-7" || strings.Contains(got.Secret, "planted") {
		t.Errorf("%+v %v", got, err)
	}
	if strings.Join(s.fake.asked, ", ") != "look gpu-7, join gpu-7, look gpu-7, joined gpu-7" {
		t.Errorf("asked %v", s.fake.asked)
	}
}

// A record of the node's name that nothing proves to be of the node gets no order, and proves no membership.
func TestARecordThatNothingProvesStopsForAPerson(t *testing.T) {
	for kind, step := range map[string]string{"cluster_membership": "verify", "cluster_leave": "leave"} {
		s := newSite(t, plan)
		s.fake.is = Membership{State: Foreign, Words: "Ready,no label x", Prove: "put a label there"}
		got, err := s.ask(t, kind, step)
		if err == nil || broker.AsError(err).Code != "cluster_node_unproven" || broker.AsError(err).Kind != broker.Refused || got.Secret != "" ||
			strings.Join(s.fake.asked, ", ") != "look gpu-7" {
			t.Fatalf("%s: %+v %v, asked %v", kind, got, err, s.fake.asked)
		}
		for _, word := range []string{"node n-1", "gpu-7 of cluster lab", "Ready,no label x", "put a label there", "nothing was changed"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", kind, err, word)
			}
		}
	}
}

func TestAStepIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		plan, kind, step, code string
		broken                 func(*site)
	}{
		"that is not in the plan":            {plan, "cluster_join_token", "nothing", "credential_refused", nil},
		"that joins by itself":               {plan, "cluster_join_token", "join", "credential_refused", nil},
		"that only verifies":                 {plan, "cluster_join_token", "verify", "credential_refused", nil},
		"that verifies, and asks to leave":   {plan, "cluster_leave", "verify", "credential_refused", nil},
		"that leaves, and asks to verify":    {plan, "cluster_membership", "leave", "credential_refused", nil},
		"to leave another project's cluster": {strings.ReplaceAll(plan, `"lab"`, `"other"`), "cluster_leave", "leave", "cluster_not_found", nil},
		"to leave by a name of another node": {plan, "cluster_leave", "leave", "cluster_name_taken", func(s *site) { s.taken = "gpu-7" }},
		"that mints and asks":                {plan, "cluster_membership", "token", "credential_refused", nil},
		"of another type":                    {plan, "s3_read", "verify", "credential_refused", nil},
		"whose token nobody takes":           {strings.Replace(plan, `{"from":"steps.token"}`, `"x"`, 1), "cluster_join_token", "token", "credential_refused", nil},
		"whose token another kind takes":     {strings.Replace(plan, "cluster.join", "file.render", 1), "cluster_join_token", "token", "credential_refused", nil},
		"of a cluster that is not there":     {strings.ReplaceAll(plan, `"lab"`, `"none"`), "cluster_join_token", "token", "cluster_not_found", nil},
		"of another project's cluster":       {strings.ReplaceAll(plan, `"lab"`, `"other"`), "cluster_join_token", "token", "cluster_not_found", nil},
		"of the platform's cluster":          {strings.ReplaceAll(plan, `"lab"`, `"platform"`), "cluster_membership", "verify", "cluster_not_found", nil},
		"of the platform itself":             {strings.Replace(plan, `"project_id":"p-1",`, "", 1), "cluster_membership", "verify", "cluster_not_found", nil},
		"of another backend":                 {strings.ReplaceAll(plan, `"slurm"`, `"k8s"`), "cluster_membership", "verify", "cluster_not_found", nil},
		"without the cluster's secrets":      {plan, "cluster_join_token", "token", "cluster_secret_missing", func(s *site) { clear(s.secrets) }},
		"while the cluster is away": {plan, "cluster_membership", "verify", "cluster_unreachable", func(s *site) {
			s.fake.err = broker.Errorf(broker.Unavailable, "cluster_unreachable", "away")
		}},
		"to join by a name of another node":   {plan, "cluster_join_token", "token", "cluster_name_taken", func(s *site) { s.taken = "gpu-7" }},
		"to verify by a name of another node": {plan, "cluster_membership", "verify", "cluster_name_taken", func(s *site) { s.taken = "gpu-7" }},
		"of an envelope of another task":      {plan, "cluster_join_token", "token", "credential_refused", func(s *site) { s.signed.TaskID = "t-2" }},
		"of an envelope of another node":      {plan, "cluster_join_token", "token", "credential_refused", func(s *site) { s.signed.NodeID = "n-2" }},
		"of an envelope of another epoch":     {plan, "cluster_join_token", "token", "credential_refused", func(s *site) { s.signed.NodeEpoch = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, row.plan)
			if row.broken != nil {
				row.broken(s)
			}
			got, err := s.ask(t, row.kind, row.step)
			if err == nil || broker.AsError(err).Code != row.code || got.Secret != "" || strings.Contains(err.Error(), "planted") {
				t.Errorf("%v, want %s", err, row.code)
			}
		})
	}
	// A cluster of another project and one that is not there differ in nothing.
	_, there := newSite(t, strings.ReplaceAll(plan, `"lab"`, `"other"`)).ask(t, "cluster_join_token", "token")
	_, none := newSite(t, strings.ReplaceAll(plan, `"lab"`, `"none"`)).ask(t, "cluster_join_token", "token")
	if there.Error() != none.Error() {
		t.Errorf("%v differs from %v", there, none)
	}
}

// A node that was a member once may still be one in the cluster's records, which would confirm a join
// that has not happened.
func TestANodeJoinsOnlyWhereTheClusterHasNoRecordOfIt(t *testing.T) {
	for state, joins := range map[State]bool{
		Absent: true, Down: true, Member: false, Foreign: false, Joining: false, Draining: false, Drained: false, Unknown: false, "": false,
	} {
		s := newSite(t, plan)
		s.fake.is = Membership{State: state, Words: "IDLE+DYNAMIC_NORM"}
		got, err := s.ask(t, "cluster_join_token", "token")
		switch {
		case joins && (err != nil || got.Secret == ""):
			t.Errorf("%q: %v", state, err)
		case !joins && (err == nil || broker.AsError(err).Code != "cluster_member_stale" || got.Secret != "" || slices.Contains(s.fake.asked, "join gpu-7")):
			t.Errorf("%q: %v, asked %v", state, err, s.fake.asked)
		case !joins && (!strings.Contains(err.Error(), "IDLE+DYNAMIC_NORM") || strings.Contains(err.Error(), "gpu-7")):
			t.Errorf("%q: %v", state, err)
		}
	}
	s := newSite(t, plan)
	s.fake.err = broker.Errorf(broker.Unavailable, "cluster_unreachable", "away")
	if got, err := s.ask(t, "cluster_join_token", "token"); err != s.fake.err || got.Secret != "" {
		t.Errorf("without an answer: %v", err)
	}
}
