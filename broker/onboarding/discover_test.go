package onboarding_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/test/maassim"
)

// All keys must name the same machine, and the machine must be free to be changed.
func TestEveryKeyMustLeadToTheSameMachine(t *testing.T) {
	const mac1, mac2 = "02:00:5e:00:01:01", "02:00:5e:00:02:01"
	type there struct {
		box      int
		hostname string
		status   maassim.Status
	}
	for name, row := range map[string]struct {
		there []there
		mac   string
		claim bool   // auto_claim_single_new_machine
		meant string // hostname; empty: refused; + is a new machine
	}{
		"nothing is known":                                  {nil, "", false, "+"},
		"by all":                                            {[]there{{1, "c01", maassim.Ready}}, mac1, false, "c01"},
		"New, by its BMC":                                   {[]there{{1, "sly-owl", maassim.New}}, "", false, "sly-owl"},
		"New, by BMC and MAC":                               {[]there{{1, "sly-owl", maassim.New}}, mac1, false, "sly-owl"},
		"Ready, by its BMC alone":                           {[]there{{1, "sly-owl", maassim.Ready}}, "", false, ""},
		"by its name alone":                                 {[]there{{2, "c01", maassim.Ready}}, "", false, ""},
		"New, by its name alone":                            {[]there{{2, "c01", maassim.New}}, "", false, ""},
		"the MAC is another's":                              {[]there{{1, "c01", maassim.Ready}, {2, "c02", maassim.Ready}}, mac2, false, ""},
		"the MAC is nobody's":                               {[]there{{1, "c01", maassim.Ready}}, "02:00:5e:99:99:99", false, ""},
		"name and BMC swapped":                              {[]there{{1, "c02", maassim.Ready}, {2, "c01", maassim.Ready}}, "", false, ""},
		"a New one stands about":                            {[]there{{2, "sly-owl", maassim.New}}, "", false, "+"},
		"a New one stands about, and is claimed":            {[]there{{2, "sly-owl", maassim.New}}, "", true, "+"}, // by its BMC, another machine
		"a MAC leads to a machine whose BMC is not the one": {[]there{{2, "sly-owl", maassim.New}}, mac2, false, ""},
	} {
		// play arranges the machines of an old list, if there is one, and then the others.
		play := func(t *testing.T, listed, others []there) {
			w := newWorld(t, "3.6")
			w.profile.Policy.AutoClaimSingleNewMachine = row.claim
			come := func(some []there) {
				for _, m := range some {
					w.region.Arrange(maassim.Arranged{Hostname: m.hostname, Hardware: w.box(m.box), Status: m.status, Uncommissioned: m.status == maassim.New})
				}
			}
			lists, most := new(int), 0
			if w.only = []string{"create_or_find_in_maas"}; listed == nil {
				w.boot()
			} else {
				come(listed)
				lists, most = w.listed(), 1
			}
			come(others)
			w.box(1)
			s, before := w.asked(1), len(w.writes())
			s.PXEMAC = row.mac
			r := w.enter("r", s)
			if *lists > most {
				t.Errorf("%d lists", *lists)
			}
			if row.meant == "" {
				if r.Status != chain.FailedManual || r.Failure.Code != "machine_ambiguous" || len(w.writes()) > before {
					t.Errorf("%s %+v, changes %v", r.Status, r.Failure, w.writes()[before:])
				}
				return
			}
			m, _ := w.region.Machine(stateOf(t, r).SystemID)
			if r.Status != chain.Completed || (row.meant == "+") != stateOf(t, r).Created || row.meant != "+" && m.Hostname != row.meant {
				t.Errorf("%s %+v: %+v", r.Status, r.Failure, m)
			}
		}
		t.Run(name, func(t *testing.T) { play(t, nil, row.there) })
		for n := range len(row.there) + 1 {
			t.Run(fmt.Sprintf("%s, with %d in an old list", name, n), func(t *testing.T) { play(t, append([]there{}, row.there[:n]...), row.there[n:]) })
		}
	}
}

// A machine that appears during a look is weighed with its real BMC address, not as a machine with
// an unknown BMC.
func TestAMachineThatComesBetweenTwoLooksIsNotTakenForAnother(t *testing.T) {
	for name, row := range map[string]struct {
		box    int
		status maassim.Status
		meant  bool
	}{
		"another":          {2, maassim.New, false},
		"the one, New":     {1, maassim.New, true},
		"the one, Ready":   {1, maassim.Ready, true},
		"another, and old": {2, maassim.Ready, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.listed()
			id, guard := "", w.guard
			w.guard = guardFunc(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Has("hostname") && id == "" { // the addresses have been read
					id = w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: w.box(row.box), Status: row.status, Uncommissioned: row.status == maassim.New})
				}
				return guard.RoundTrip(r)
			})
			w.box(1)
			before := len(w.writes())
			r := w.enter("r", w.asked(1))
			if row.meant {
				if s := stateOf(t, r); r.Status != chain.Completed || s.SystemID != id || s.Created {
					t.Errorf("%s %+v, machine %s of %s", r.Status, r.Failure, s.SystemID, id)
				}
			} else if id == "" || r.Status != chain.FailedManual || r.Failure.Code != "machine_ambiguous" || len(w.writes()) > before {
				t.Errorf("%s %+v, changes %v", r.Status, r.Failure, w.writes()[before:])
			}
		})
	}
}

// A machine's power type may have changed since the list, and with it the meaning of the BMC's
// address.
func TestAMachineThatIsSwitchedInAnotherWaySinceItWasListed(t *testing.T) {
	for name, row := range map[string]struct{ was, is, code string }{
		"it is virtual now":    {"redfish&power_parameters_power_address=bmc-2.example", "virsh&power_parameters_power_address=qemu%2Bssh://host.example/system", ""},
		"it is no more so now": {"virsh&power_parameters_power_address=qemu%2Bssh://host.example/system", "redfish&power_parameters_power_address=bmc-2.example", "bmc_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.region.Arrange(maassim.Arranged{Hostname: hostname(9), Hardware: w.box(9), Status: maassim.Ready}) // found by the earlier run
			id := w.region.Arrange(maassim.Arranged{Hostname: "prod-db", Hardware: w.box(2), Status: maassim.Ready})
			switched := func(how string) {
				w.call("PUT", "machines/"+id+"/", "power_parameters_power_user=root&power_parameters_power_pass=bmc-secret&power_parameters_skip_check=true&power_type="+how)
				w.clock.Advance(2 * time.Second)
			}
			switched(row.was)
			w.listed()
			switched(row.is)
			w.box(1)
			r := w.enter("r", w.asked(1))
			if row.code == "" && r.Status != chain.Completed || row.code != "" && (r.Status != chain.FailedManual || r.Failure.Code != row.code) {
				t.Errorf("%s %+v", r.Status, r.Failure)
			}
		})
	}
}

// A hostname may be given with its domain; MAAS keeps the two apart.
func TestAMachineThatCameSinceIsKnownByItsNameWithoutTheDomain(t *testing.T) {
	w := newWorld(t, "3.6")
	w.listed()
	w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: w.box(2), Status: maassim.Ready})
	w.box(1)
	s, before := w.asked(1), len(w.writes())
	s.Hostname = "c01.maas"
	if r := w.enter("r", s); r.Status != chain.FailedManual || r.Failure.Code != "machine_ambiguous" || len(w.writes()) > before {
		t.Errorf("%s %+v, changes %v", r.Status, r.Failure, w.writes()[before:])
	}
}

// The entry of an old list is not trusted for a machine with a matching key.
func TestAMachineThatWasChangedSinceItWasListedIsFoundAsItIs(t *testing.T) {
	for name, row := range map[string]struct {
		was, is string // hostnames; empty: the machine was deleted
		created bool
	}{
		"it was given its name":  {"sly-owl", "c01", false},
		"it was given another's": {"c01", "sly-owl", false}, // the machine is New, and found by its BMC
		"it was deleted":         {"c01", "", true},
		"nothing changed":        {"c01", "c01", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			id := w.region.Arrange(maassim.Arranged{Hostname: row.was, Hardware: w.box(1), Status: maassim.New, Uncommissioned: true})
			lists := w.listed()
			if row.is == "" {
				w.try("DELETE", "machines/"+id+"/", "")
			} else {
				w.call("PUT", "machines/"+id+"/", "hostname="+row.is)
			}
			w.box(1)
			r := w.enter("r", w.asked(1))
			if s := stateOf(t, r); r.Status != chain.Completed || s.Created != row.created || (s.SystemID == id) == row.created || *lists != 1 {
				t.Errorf("%s %+v, machine %s of %s, created %v, %d lists", r.Status, r.Failure, s.SystemID, id, s.Created, *lists)
			}
		})
	}
}

// listed has the broker find a machine in a region that takes long to list its machines, so that an
// old list is accepted for more than a minute. Machines that appear later are not in the list.
// lists counts the lists.
func (w *world) listed() (lists *int) {
	w.t.Helper()
	lists = new(int)
	next := w.guarded()
	w.guard = guardFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/machines/") && r.URL.RawQuery == "" {
			*lists++
			w.clock.Advance(20 * time.Second)
		}
		return next.RoundTrip(r)
	})
	w.box(9)
	if r := w.alone("earlier", w.asked(9), "create_or_find_in_maas"); r.Status != chain.Completed || *lists != 1 {
		w.t.Fatalf("%s %+v, %d lists", r.Status, r.Failure, *lists)
	}
	w.clock.Advance(2 * time.Second)
	return lists
}

// A run that begins does not ask a region of many machines for all of them. Yet a run whose create
// call was carried out, though the answer was lost, finds the created machine.
func TestAnOldListIsEnoughToTellOfAMachineOnce(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t, "3.6")
		lists := w.listed()
		w.box(1)
		if lost {
			w.region.Inject(fault(maassim.AnswerLost, "create"))
		}
		r := w.enter("r", w.asked(1))
		if r.Status != chain.Completed || len(w.region.Machines()) != 2 || *lists != 1 {
			t.Errorf("answer lost %v: %s %+v, %d machines, %d lists", lost, r.Status, r.Failure, len(w.region.Machines()), *lists)
		}
	}
}

// A New machine with an unknown BMC may be anybody's: the machine is claimed if no other such
// machine exists and the profile permits it.
func TestASoleNewMachineIsClaimedByPolicyAlone(t *testing.T) {
	for _, row := range []struct {
		machines int
		claim    bool
		code     string // of a refusal
		created  bool
		aborts   bool // the first machine was being commissioned when it was listed
	}{{1, false, "", true, false}, {1, true, "", false, false}, {2, true, "machine_ambiguous", false, false}, {2, false, "", true, false}, {1, true, "", false, true}, {2, true, "machine_ambiguous", false, true}} {
		t.Run(fmt.Sprintf("%d machines, %v", row.machines, row.claim), func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.box(1)
			w.profile.Policy.AutoClaimSingleNewMachine = row.claim
			newcomer := func(n int) string {
				w.call("POST", "machines/", fmt.Sprintf("hostname=sly-%d&power_type=manual&architecture=amd64/generic&commission=false&mac_addresses=02:00:5e:00:%02d:01", n, n+1))
				w.clock.Advance(time.Second)
				all := w.region.Machines()
				return all[len(all)-1].SystemID
			}
			come := 0
			if row.aborts {
				id := newcomer(0)
				w.call("POST", "machines/"+id+"/?op=commission", "")
				w.listed()
				w.call("POST", "machines/"+id+"/?op=abort", "")
				w.clock.Advance(time.Second)
				come = 1
			} else {
				w.listed()
			}
			for ; come < row.machines; come++ {
				newcomer(come)
			}
			r := w.enter("r", w.asked(1))
			if row.code != "" {
				if r.Status != chain.FailedManual || r.Failure.Code != row.code {
					t.Errorf("%s %+v", r.Status, r.Failure)
				}
			} else if r.Status != chain.Completed || stateOf(t, r).Created != row.created {
				t.Errorf("%s %+v, created %v", r.Status, r.Failure, stateOf(t, r).Created)
			}
		})
	}
}

// alien has the region write a field of a machine in a form that this broker cannot read.
func (w *world) alien(hostname, field string) {
	next := w.guarded()
	w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(req)
		if err == nil && req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/machines/") && req.URL.Query().Get("op") == "" {
			var all []map[string]any
			if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
				w.t.Error(err)
			}
			for _, m := range all {
				if m["hostname"] == hostname {
					m[field] = 0.5
				}
			}
			raw, _ := json.Marshal(all)
			res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		}
		return res, err
	})
}

// A BMC that may belong to somebody else's machine is given to no second record: the second record
// would have MAAS switch the machine's power.
func TestAMachineThatMayHaveTheBMCIsNotOverlooked(t *testing.T) {
	deployed := func(w *world, n int) string {
		return w.region.Arrange(maassim.Arranged{Hostname: "prod-db", Hardware: w.box(n), Status: maassim.Deployed, Owner: "bob", Series: "ubuntu/noble", PowerOn: true})
	}
	power := func(w *world, id, how string) {
		w.call("PUT", "machines/"+id+"/", "power_type="+how+"&power_parameters_power_user=root&power_parameters_power_pass=bmc-secret&power_parameters_skip_check=true")
	}
	for _, test := range []struct {
		name  string
		there func(w *world)
		code  string // empty: a record is created, and the machine is onboarded
	}{
		{"it cannot be read, and has that BMC", func(w *world) { deployed(w, 1); w.alien("prod-db", "memory") }, "machine_unreadable"},
		{"it cannot be read, and has another BMC", func(w *world) { deployed(w, 2); w.alien("prod-db", "memory"); w.region.PlugIn(w.box(1)) }, ""},
		{"it cannot be read, and has a BMC by name", func(w *world) {
			power(w, deployed(w, 2), "redfish&power_parameters_power_address=bmc-prod.example")
			w.alien("prod-db", "memory")
		}, "bmc_unknown"},
		{"its BMC is there by name", func(w *world) {
			power(w, deployed(w, 1), "redfish&power_parameters_power_address=bmc-prod.example")
		}, "bmc_unknown"},
		{"its BMC is there by a URL with a name", func(w *world) {
			power(w, deployed(w, 1), "redfish&power_parameters_power_address=https://bmc-prod.example:443/redfish")
		}, "bmc_unknown"},
	} {
		play := func(t *testing.T, w *world) {
			t.Parallel()
			w.profile.Policy.DiscoveryPowerCycle = true
			test.there(w)
			before := len(w.region.Calls())
			r := w.enter("r", w.asked(1))
			if test.code == "" {
				if r.Status != chain.Completed {
					t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
				}
				return
			}
			if r.Status != chain.FailedManual || r.Stage != "create_or_find_in_maas" || r.Failure.Code != test.code {
				t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			for _, c := range w.region.Calls()[before:] {
				if c.Method != http.MethodGet {
					t.Errorf("MAAS was changed: %s %s", c.Method, c.Op)
				}
			}
		}
		t.Run(test.name, func(t *testing.T) { play(t, newWorld(t, "3.6")) })
		t.Run(test.name+", and came after the list", func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.listed()
			play(t, w)
		})
	}
}

// An unreadable machine of an old list, deleted since, obstructs nothing.
func TestAMachineThatCouldNotBeReadAndIsGoneIsForgotten(t *testing.T) {
	for field, most := range map[string]int{"memory": 1, "system_id": 2} { // a machine without an id cannot be read alone
		w := newWorld(t, "3.6")
		id := w.region.Arrange(maassim.Arranged{Hostname: "prod-db", Hardware: w.box(2), Status: maassim.Deployed, Owner: "bob"})
		w.region.Arrange(maassim.Arranged{Hostname: hostname(9), Hardware: w.box(9), Status: maassim.Ready}) // found by the earlier run
		w.alien("prod-db", field)
		lists := w.listed()
		w.try("DELETE", "machines/"+id+"/", "")
		w.box(1)
		if r := w.enter("r", w.asked(1)); r.Status != chain.Completed || *lists != most {
			t.Errorf("%s: %s %+v, %d lists", field, r.Status, r.Failure, *lists)
		}
	}
}
