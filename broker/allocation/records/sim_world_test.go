//go:build !race

package records

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki/pkitest"
)

// simulation is a site whose nodes go from tenant to tenant, driven by chance. The store, the task queue
// and the chains are the product's. The nodes are simulated, and keep a ledger of what happened on them.
type simulation struct {
	t       testing.TB
	seed    uint64
	by      *rand.Rand
	db      *store.DB
	clock   *storetest.Clock
	dir     string                   // of the database
	raw     *sql.DB                  // the database itself
	read    string                   // its rows at the last look
	claims  func(*certificate.Clean) // false statements of a certificate; nil: none
	brokers []*replica
	made    int // brokers so far
	runs    int // so far

	bound    broker.OperationBindings // of the SKU or of all projects
	images   bool                     // projects ask for images
	imagesBy *rand.Rand               // draws them; nil: not drawn yet

	site     broker.Site
	limit    int // of turnovers that nobody has requested
	projects []*project
	reserved []broker.Reservation
	machines []*machine
	presence *presence.Watch

	plan     []event // future events, the next first
	happened []string
	counts   map[string]int
	told     bool
	calmed   bool          // no more troubles
	within   bool          // another broker's step, within a call of this broker
	strict   bool          // the policy asks for more than a turnover of these nodes gives
	valid    time.Duration // of certificates, by the policy
	blind    bool          // certificates are not judged again

	// The ledger.
	policies map[string]bool                  // by run: whether the policy was strict when it began
	copies   map[string]broker.TurnoverPolicy // by run: the policy itself
	proofs   map[string]*proven
	known    map[string]*claim // allocations
	ids      []string          // of allocations, in the order of the requests

	heard, looked, followed, swept time.Time // when these last happened
}

// project is a tenant.
type project struct {
	id, key string
	quota   int
}

// proven is a certificate that a turnover gave to a node.
type proven struct {
	id, node string
	at       time.Time
	meets    bool
	covers   []string // allocations with traces on the node
	handed   bool     // the node was handed out on it
}

// claim is what the simulation knows of an allocation.
type claim struct {
	code   string // of its failure
	passed bool   // its release goes on without the operation of its end

	id      string
	project *project
	nodes   []string
	image   string // that was asked for
	status  broker.AllocationStatus
	from    time.Time // when it became active; zero: never
	to      time.Time // when it was active no longer
	meddled bool      // an operator has acted on its run or its tasks
}

type event struct {
	at time.Time
	do func()
}

// authority signs for all simulations: a new one for each takes longer than a seed.
var authority = struct {
	sync.Once
	*pkitest.Authority
}{}

// empty is a database with the schema, which each simulation gets a copy of.
var empty struct {
	sync.Once
	file []byte
}

func newSimulation(t testing.TB, seed uint64, with func(*simulation)) *simulation {
	s := &simulation{
		t: t, seed: seed, by: rand.New(rand.NewPCG(seed, 11)), clock: storetest.NewClock(), counts: map[string]int{},
		policies: map[string]bool{}, copies: map[string]broker.TurnoverPolicy{}, proofs: map[string]*proven{}, known: map[string]*claim{},
	}
	authority.Do(func() { authority.Authority = pkitest.NewAt(t, s.clock.Now()) })
	s.open()
	s.presence = &presence.Watch{DB: s.db, Now: s.clock.Now, Log: zap.NewNop()}
	s.place()
	s.tenants()
	for n := range 2 + s.by.IntN(2) {
		s.join(fmt.Sprintf("n-abcdefghijklmno%c", 'a'+n))
	}
	s.brokers = append(s.brokers, s.replica())
	if s.chance(60) {
		s.brokers = append(s.brokers, s.replica())
	}
	s.people()
	s.troubles()
	s.binds()
	if with == nil {
		with = (*simulation).reservations
	}
	with(s)
	return s
}

// open makes an empty database in a folder of its own, which close removes: ten thousand seeds need more
// room than there is.
func (s *simulation) open() {
	s.t.Helper()
	empty.Do(func() {
		var err error
		empty.file, err = os.ReadFile(strings.TrimPrefix(storetest.URL(s.t, "sqlite"), "sqlite:"))
		s.must(err)
	})
	var err error
	if s.dir, err = os.MkdirTemp("", "hostler-sim-"); err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.dir, "hostler.db")
	s.must(os.WriteFile(path, empty.file, 0o600))
	if s.db, err = store.Open(ctx, store.Options{URL: "sqlite:" + path, Now: s.clock.Now, Judge: s.judges}); err != nil {
		s.t.Fatal(err)
	}
	if s.raw, err = sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"); err != nil {
		s.t.Fatal(err)
	}
	s.raw.SetMaxOpenConns(1)
}

// judges is the judge of the store.
func (s *simulation) judges(file []byte, p broker.TurnoverPolicy) []string {
	if s.blind {
		return nil
	}
	return turnover.Lacks(file, p)
}

func (s *simulation) close() {
	s.t.Helper()
	s.must(errors.Join(s.raw.Close(), s.db.Close(), os.RemoveAll(s.dir)))
}

// place makes the site with its policy, and the SKU.
func (s *simulation) place() {
	k := broker.NewSKU()
	k.ID, k.Offer.Images = "h100", skuImages
	_, err := s.db.CreateSKU(ctx, ada, k)
	s.must(err)
	s.site = broker.NewSite("0000-dc1")
	s.site.Name, s.site.APIBaseURL, s.site.PXEIface, s.site.NodePXEIface, s.site.RegionCode = "dc1", "https://maas.example/MAAS", "ens19", "eno1", "eu-1"
	p := broker.NewProfile("1111-default", s.site.ID, broker.DefaultProfile)
	q := &p.Policy
	q.DiskGrade, q.AcceptSystemDisk, q.DrainTimeoutSeconds, q.RetryBackoffSeconds, q.TurnoverAutomatic = "none", true, 120, 5, s.chance(80)
	q.CertificateValidSeconds = pick(s, 3600, 6*3600, 24*3600)
	q.AutomaticTurnoversAtOnce = pick(s, 1, 2, 10, 10)
	s.limit, s.valid = q.AutomaticTurnoversAtOnce, time.Duration(q.CertificateValidSeconds)*time.Second
	_, err = s.db.CreateSite(ctx, broker.System, s.site, p)
	s.must(err)
}

// tenants makes two or three projects with a member, a key and a quota each.
func (s *simulation) tenants() {
	_, err := s.db.CreateOrganisation(ctx, ada, broker.Organisation{ID: "org-1", Name: "acme"})
	s.must(err)
	for i := range 2 + s.by.IntN(2) {
		p := &project{id: fmt.Sprintf("p-%d", i), key: fmt.Sprintf("%s%c", key, 'B'+i), quota: 2 + s.by.IntN(2)}
		_, err = s.db.CreateProject(ctx, ada, broker.Project{ID: p.id, OrganisationID: "org-1", Name: p.id})
		s.must(err)
		_, err = s.db.SetQuota(ctx, ada, broker.Quota{ProjectID: p.id, SKU: "h100", Nodes: p.quota}, "")
		s.must(err)
		_, err = s.db.AddMember(ctx, ada, broker.Member{
			ID: "m-" + p.id, Subject: "eve-" + p.id, Place: broker.Place{OrganisationID: "org-1", ProjectID: p.id}, Role: broker.RoleProjectMember,
		})
		s.must(err)
		_, err = s.db.AddSSHKey(ctx, ada, broker.SSHKey{ID: "k-" + p.id, MemberID: "m-" + p.id, Type: "ssh-ed25519", PublicKey: p.key, Fingerprint: "SHA256:" + p.id})
		s.must(err)
		s.projects = append(s.projects, p)
	}
}

func (s *simulation) machine(id string) *machine {
	return s.machines[slices.IndexFunc(s.machines, func(m *machine) bool { return m.id == id })]
}

func (s *simulation) chance(percent int) bool { return s.by.IntN(100) < percent }

// pick draws an element.
func pick[T any](s *simulation, of ...T) T { return of[s.by.IntN(len(of))] }

// until draws a duration up to a limit.
func (s *simulation) until(most time.Duration) time.Duration {
	return time.Duration(s.by.Int64N(int64(most/time.Second))) * time.Second
}

func (s *simulation) later(d time.Duration, do func()) {
	s.plan = append(s.plan, event{s.clock.Now().Add(d), do})
	slices.SortStableFunc(s.plan, func(a, b event) int { return a.at.Compare(b.at) })
}

// say notes an event for readers of the story.
func (s *simulation) say(format string, args ...any) {
	s.happened = append(s.happened, s.clock.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func (s *simulation) wrong(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("seed %d, %s: %s", s.seed, s.clock.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

func (s *simulation) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("seed %d, %s: %v", s.seed, s.clock.Now().Format(time.TimeOnly), err)
	}
}

// may lets a refusal pass: people and brokers ask for what is not possible at the moment.
func (s *simulation) may(err error) bool {
	s.t.Helper()
	if err == nil {
		return true
	}
	if k := broker.AsError(err).Kind; k == broker.Internal || k == broker.Unavailable {
		s.must(err)
	}
	return false
}
