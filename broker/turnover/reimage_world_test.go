package turnover_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/onboarding/onboardingtest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/test/maassim"
)

// kept is a keeper of secrets in memory.
type kept map[string][]byte

func (k kept) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := k[path]; ok {
		return slices.Clone(v), nil
	}
	return nil, broker.Errorf(broker.NotFound, "secret_not_found", "there is no secret %s", path)
}

func (k kept) Put(_ context.Context, path string, v []byte) error {
	k[path] = slices.Clone(v)
	return nil
}

// site is a world whose node was onboarded from bare metal in a simulated region.
type site struct {
	*world
	region *maassim.Region
	place  turnover.Place
	serial string
	id     string // of the node
}

// newSite onboards a machine, and lets its node in.
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{world: &world{t: t, clock: chaintest.NewClock(), policy: broker.DefaultPolicy()}}
	s.region = &maassim.Region{
		Version: "3.6", Seed: 7, Now: s.clock.Now,
		Sleep:    func(_ context.Context, d time.Duration) error { s.clock.Advance(d); return nil },
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/22", Gateway: "10.10.0.1", DHCP: true}, {Fabric: "roce", CIDR: "172.30.9.60/31"}},
	}
	book := &onboardingtest.Book{Now: s.clock.Now, ID: node}
	s.place.Site = broker.NewSite("site-1")
	s.place.Site.Name, s.place.Site.APIBaseURL, s.place.Site.PXEIface, s.place.Site.NodePXEIface, s.place.Site.PXEVLANVID = "dc1", maassim.URL, "ens19", "eno8303", 46
	book.PutSite(s.place.Site)
	s.place.Profile = broker.NewProfile("profile-1", s.place.Site.ID, "default")
	s.place.Policy = s.place.Site.PolicyOf(s.place.Profile)
	s.place.SKU = broker.NewSKU()
	s.place.SKU.ID, s.place.SKU.NICs = "h100.8gpu", []string{"eno8303", "eno8403"}
	secrets := kept{}
	key, err := maas.ParseKey(s.region.APIKey())
	if err == nil {
		err = maas.PutToken(ctx, secrets, s.place.Site, key)
	}
	if err != nil {
		t.Fatal(err)
	}
	box := maassim.Box(1)
	box.BMC.User, box.BMC.Password = "root", "bmc-secret"
	power, err := maas.NewPower(box.BMC.User, box.BMC.Password)
	if err == nil {
		err = maas.PutPower(ctx, secrets, s.place.Site.PowerPath, power)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.region.PlugIn(box)
	s.serial = box.Serial

	s.book = turnovertest.New(t, s.clock.Now)
	t.Cleanup(s.judgesTheSameAgain)
	s.store = chaintest.NewMemory(s.clock.Now)
	s.lossy = &chaintest.Lossy{Store: s.store}
	onboards := onboarding.Chains{
		Regions: &maas.Sites{Secrets: secrets, Now: s.clock.Now, Transport: func(broker.Site) http.RoundTripper { return s.region.RoundTripper() }},
		Records: book, Nodes: book,
	}
	redeploying := onboards
	redeploying.Nodes = turnovertest.ReimageNodes{Book: s.book}
	kinds := append((&turnover.Chains{Nodes: s.book, MAAS: &redeploying}).All(), onboards.Onboarding())
	if s.engine, err = chain.New(s.lossy, classes(), chain.Options{Owner: "broker"}, kinds...); err != nil {
		t.Fatal(err)
	}

	state, locks, err := onboarding.New(s.place.Site, s.place.Profile, s.place.SKU, onboarding.Request{Hostname: "c01", IPMIIP: box.BMC.Address})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.engine.Start(ctx, chain.Start{ID: "r-0", Kind: onboarding.Kind, Site: "dc1", Subject: "c01", State: state, Locks: locks, RequestedBy: "ada"}); err != nil {
		t.Fatal(err)
	}
	if r := s.settle("r-0", func(m maassim.Machine) { book.Enroll(m.UserData) }); r.Status != chain.Completed {
		t.Fatalf("the onboarding is %s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	made := book.All()[0]
	s.id = made.ID
	s.book.Add(s.id, 8)
	s.book.Change(s.id, func(m *turnovertest.Machine) {
		m.Hostname, m.MAASSystemID, m.SKU = made.Hostname, made.MAASSystemID, made.SKU
	})
	return s
}

// settle runs until nothing is due any more; boots is called for each machine that is up.
func (s *site) settle(id string, boots func(maassim.Machine)) chain.Record {
	s.t.Helper()
	for range 20000 {
		for _, m := range s.region.Machines() {
			if m.HostUp && m.Status == maassim.Deployed {
				boots(m)
			}
		}
		worked, err := s.engine.Step(ctx)
		if err != nil && !errors.Is(err, chaintest.ErrKilled) && !errors.Is(err, chain.ErrLost) {
			s.t.Fatal(err)
		}
		if worked || err != nil {
			continue
		}
		next, err := s.store.NextDue(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if next.IsZero() {
			if r := s.run(id); !r.Status.Moving() {
				return r
			}
			next = s.clock.Now().Add(time.Second)
		}
		s.clock.AdvanceTo(next)
	}
	r := s.run(id)
	s.t.Fatalf("run %s is %s at %s: %s", id, r.Status, r.Stage, r.Waiting)
	return r
}

// turnOver starts a run, and settles it.
func (s *site) turnOver(req turnover.Request) chain.Record {
	s.t.Helper()
	if req.Reason == "" {
		req.Reason = "the tenant left"
	}
	s.runs++
	id := "r-" + string(rune('0'+s.runs))
	req.Ends = s.book.Machine(s.id).Live()
	state, locks, err := turnover.New(s.book.Machine(s.id).Node, s.place, req)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.engine.Start(ctx, chain.Start{ID: id, Kind: req.Mode.Kind(), Site: "dc1", Subject: "c01", State: state, Locks: locks, RequestedBy: "ada"}); err != nil {
		s.t.Fatal(err)
	}
	return s.goOn(id)
}

func (s *site) goOn(id string) chain.Record {
	s.t.Helper()
	return s.settle(id, func(m maassim.Machine) { s.book.Boot(m.UserData) })
}

// order sends an operator's action, and settles the run.
func (s *site) order(id string, a chain.Action) chain.Record {
	s.t.Helper()
	if _, err := s.engine.Act(ctx, chain.Order{ID: id, Actor: ada, Action: a, Reason: "because"}); err != nil {
		s.t.Fatal(err)
	}
	return s.goOn(id)
}

// machine is the node's machine, as MAAS has it.
func (s *site) machine() maassim.Machine {
	s.t.Helper()
	for _, m := range s.region.Machines() {
		if m.Serial == s.serial {
			return m
		}
	}
	return maassim.Machine{}
}

// is checks the node's state.
func (s *site) is(status broker.NodeStatus, owed bool) {
	s.t.Helper()
	if m := s.book.Machine(s.id); m.Status != status || m.TurnoverOwed != owed {
		s.t.Errorf("the node is %s (%s), turnover owed %v; want %s, %v", m.Status, m.StatusReason, m.TurnoverOwed, status, owed)
	}
}
