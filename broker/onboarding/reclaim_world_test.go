package onboarding_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// turnover is the state of a run over an existing node, as other packages have it: the MAAS side is
// a part of this state.
type turnover struct {
	Machine onboarding.Onboarding `json:"machine"`
}

func machineOf(t *turnover) *onboarding.Onboarding { return &t.Machine }

func inside(stages ...chain.Stage[onboarding.Onboarding]) (out []chain.Stage[turnover]) {
	for _, s := range stages {
		out = append(out, chain.Within(s, machineOf))
	}
	return out
}

// reimage and removal are the MAAS sides of a reimage and of a full decommission.
func reimage(l *onboarding.Chains) chain.Chain[turnover] {
	return reclaiming(l, "turnover/reimage", append([]chain.Stage[onboarding.Onboarding]{l.LoadSite(), l.ReleaseMachine()}, l.Redeployment()...)...)
}

func removal(l *onboarding.Chains) chain.Chain[turnover] {
	return reclaiming(l, "turnover/removal", l.LoadSite(), l.ReleaseMachine(), l.PowerOff(), l.RemoveRecord())
}

func reclaiming(l *onboarding.Chains, kind string, stages ...chain.Stage[onboarding.Onboarding]) chain.Chain[turnover] {
	probe := chain.Within(chain.Stage[onboarding.Onboarding]{Name: "probe", Do: l.Probe}, machineOf)
	return chain.Chain[turnover]{Kind: kind, Probe: probe.Do, Stages: inside(stages...)}
}

// reclaim is a run over node n-0001, whose machine is box 1, described in one line.
type reclaim struct {
	name    string
	version string // empty: 3.6
	kind    string // empty: reimage
	there   func(a *maassim.Arranged, w *world)
	with    func(q *onboarding.ReclaimRequest)
	strict  bool // no fallback to a release without erase
	faults  []maassim.Fault
	setup   func(w *world)
	acts    string // "- resume" when the run has stopped, "@stage cancel" when the run reaches a stage; a word with ( acts on the world
	story   string
	ends    chain.Status
	class   broker.FailureClass
	code    string
	machine maassim.Status
	check   func(t *testing.T, w *world, s onboarding.Onboarding)
}

// node1 arranges node n-0001, retired and held by run t1, and its machine, which run r0 of
// onboarding deployed.
func (w *world) node1(there func(*maassim.Arranged, *world)) string {
	w.t.Helper()
	a := maassim.Arranged{
		Hostname: "c01", Hardware: w.box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", HWSync: true, Token: true, PowerOn: true,
		Annotations: map[string]string{"hostler-node": "n-0001", "hostler-run": "r0"},
	}
	if there != nil {
		there(&a, w)
	}
	systemID := w.region.Arrange(a)
	id, err := w.book.Prepare(ctx, onboarding.NewNode{RunID: "r0", Site: "dc1", Hostname: "c01", SKU: w.sku.ID, MAASSystemID: systemID})
	if err != nil || id != "n-0001" {
		w.t.Fatal(id, err)
	}
	w.book.Come(id)
	w.book.Turn(id, "t1")
	return systemID
}

func (w *world) reclaims(id, kind, systemID string, with func(*onboarding.ReclaimRequest)) error {
	w.t.Helper()
	req := onboarding.ReclaimRequest{NodeID: "n-0001", Hostname: "c01", MAASSystemID: systemID, Epoch: 1}
	if kind == "reimage" {
		req.Keeps, req.Redeploys = broker.Retired, true
	}
	if with != nil {
		with(&req)
	}
	state, locks, err := onboarding.NewReclaim(w.site, w.profile, w.sku, req)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.engine.Start(ctx, chain.Start{ID: id, Kind: "turnover/" + kind, Site: w.site.Name, State: turnover{state}, Locks: append(locks, "node/n-0001")})
	return err
}

func (w *world) turned(id string) onboarding.Onboarding {
	w.t.Helper()
	var s turnover
	if err := json.Unmarshal(w.run(id).State, &s); err != nil {
		w.t.Fatal(err)
	}
	return s.Machine
}

var removalStages = strings.Fields("load_site_config release_maas_node power_off_maas_node remove_maas_record")

var reimageStages = append([]string{"load_site_config", "release_maas_node"}, stages[5:]...)

func (c reclaim) tell(t *testing.T) {
	version, kind := c.version, c.kind
	if version == "" {
		version = "3.6"
	}
	if kind == "" {
		kind = "reimage"
	}
	w := newWorld(t, version)
	w.profile.Policy.ReleaseFallbackNoErase = !c.strict
	systemID := w.node1(c.there)
	if c.setup != nil {
		c.setup(w)
	}
	w.region.Inject(c.faults...)
	if err := w.reclaims("t1", kind, systemID, c.with); err != nil {
		t.Fatal(err)
	}
	list := reimageStages
	if kind == "removal" {
		list = removalStages
	}
	c.play(w)
	r, s := w.run("t1"), w.turned("t1")
	if got, want := w.story("t1"), wantOf(list, c.story); got != want {
		t.Errorf("the story is\n%s\nwant\n%s", got, want)
	}
	if r.Status != c.ends {
		t.Errorf("it is %s at %s: %+v; waits for %q", r.Status, r.Stage, r.Failure, r.Waiting)
	}
	if r.Status.Stopped() && (r.Failure.Class != chain.Class(c.class) || c.code != "" && r.Failure.Code != c.code || r.NextAction == "") {
		t.Errorf("it failed of %s %s: %s; next %q", r.Failure.Class, r.Failure.Code, r.Failure.Message, r.NextAction)
	}
	m := w.machine(maassim.Box(1).Serial)
	if c.machine == noMachine {
		if m.SystemID != "" {
			t.Errorf("MAAS has the machine: %+v", m)
		}
	} else if m.Status != c.machine {
		t.Errorf("the machine is %s of %q", m.Status, m.Owner)
	}
	if c.check != nil {
		c.check(t, w, s)
	}
}

// play runs to the end, with the acts of people meanwhile.
func (c reclaim) play(w *world) {
	acts := strings.Fields(c.acts)
	serial := maassim.Box(1).Serial
	perform := func(moments ...string) bool {
		if len(acts) == 0 || !slices.Contains(moments, acts[0]) {
			return false
		}
		what := acts[1]
		acts = acts[2:]
		systemID := w.machine(serial).SystemID
		w.clock.Advance(time.Millisecond)
		switch what {
		case "relent(":
			w.region.Relent()
		case "abort(", "release(", "unlock(", "mark_broken(":
			w.call("POST", "machines/"+systemID+"/?op="+strings.TrimSuffix(what, "("), "")
		case "stuck(1", "stuck(-1": // the machine runs, and its BMC does not act
			_ = w.region.ByHand(maassim.PoweredOnByHand, systemID)
			times, _ := strconv.Atoi(what[len("stuck("):])
			w.region.Inject(fault(maassim.PowerFails, "", times))
		case "undead(": // the machine runs, and somebody switches it on again after every power-off
			_ = w.region.ByHand(maassim.PoweredOnByHand, systemID)
			w.region.Inject(fault(maassim.PoweredOnByHand, "power_off", -1))
		case "mute(": // the BMC's login is lost
			w.call("PUT", "machines/"+systemID+"/", "power_parameters_power_pass=lost&power_parameters_skip_check=true")
		case "manual(":
			w.call("PUT", "machines/"+systemID+"/", "power_type=manual")
		case "delete(":
			_ = w.region.ByHand(maassim.DeletedByHand, systemID)
		case "taken(":
			_ = w.region.ByHand(maassim.TakenByHand, systemID)
		case "on(":
			_ = w.region.ByHand(maassim.PoweredOnByHand, systemID)
		case "off(":
			_ = w.region.ByHand(maassim.PoweredOffByHand, systemID)
		default:
			w.act("t1", chain.Action(what))
		}
		return true
	}
	watch := func() {
		if r := w.run("t1"); r.Status == chain.Running {
			perform("@"+r.Stage, strings.ReplaceAll("#"+w.machine(serial).Status.String(), " ", "_"))
		}
	}
	for w.settle(watch); perform("-"); {
		w.settle(watch)
	}
	if len(acts) > 0 {
		w.t.Errorf("not done: %v", acts)
	}
}

func hardware(w *world, what string) int { return w.region.Happened(maassim.Box(1).Serial, what) }

// erasedHow returns MAAS's latest way of erasing the disks; empty: MAAS never erased them.
func (w *world) erasedHow() (how string) {
	for _, c := range w.region.History(w.machine(maassim.Box(1).Serial).SystemID) {
		if c.What == "erase" {
			how = c.To
		}
	}
	return how
}
