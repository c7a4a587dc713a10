package maassim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"
	"github.com/canonical/gomaasclient/entity/node"

	"github.com/hostler/hostler/test/maassim"
)

// Of several concurrent claims of a machine exactly one succeeds.
func TestAllocateIsAnExclusiveClaim(t *testing.T) {
	r, _, _ := start(t, "3.6")
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Ready})
	var group sync.WaitGroup
	codes := make(chan int, 8)
	for n := range 8 {
		key := r.AddUser(fmt.Sprint("user", n), true)
		group.Go(func() {
			res, _ := send(t, r, key, http.MethodPost, "machines/?op=allocate", url.Values{"system_id": {id}})
			codes <- res.StatusCode
		})
	}
	group.Wait()
	close(codes)
	won := 0
	for code := range codes {
		if code == http.StatusOK {
			won++
		} else if code != http.StatusConflict {
			t.Errorf("code %d", code)
		}
	}
	if won != 1 || r.Happened(id, "allocate") != 1 {
		t.Errorf("%d of 8 got it", won)
	}
}

// Equal seeds, clocks and calls make equal regions.
func TestARegionFollowsFromItsSeed(t *testing.T) {
	tell := func(seed uint64) string {
		clock := newClock()
		r := &maassim.Region{Seed: seed, Now: clock.Now, OAuthNow: wallClock}
		c := dial(t, r, r.APIKey())
		for n := range 3 {
			_, m := enroll(t, r, clock, c, n)
			if _, err := c.Machine.Deploy(m.SystemID, nil); err != nil {
				t.Fatal(err)
			}
		}
		clock.pass(time.Hour)
		return r.APIKey() + fmt.Sprintf("%+v %+v", r.Machines(), r.History(""))
	}
	first := tell(1)
	if again := tell(1); again != first {
		t.Error("the same seed made two regions")
	}
	if tell(2) == first {
		t.Error("two seeds made one region")
	}
}

// Due returns the time of the next event, so that a simulation may jump there.
func TestDueTellsWhenSomethingHappens(t *testing.T) {
	r, clock, id := allocated(t, "3.6")
	if at, due := r.Due(); due {
		t.Fatalf("something is due at %v", at)
	}
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", nil)
	steps := 0
	for at, due := r.Due(); due; at, due = r.Due() {
		clock.pass(at.Sub(clock.Now()))
		r.Tick()
		steps++
	}
	if m, _ := r.Machine(id); m.Status != maassim.Deployed || !m.HostUp || steps > 5 {
		t.Errorf("%v, up %v after %d steps", m.Status, m.HostUp, steps)
	}
}

func TestListsAreFiltered(t *testing.T) {
	r, _, c := start(t, "3.6")
	one := r.Arrange(maassim.Arranged{Hostname: "one", Hardware: maassim.Box(1), Status: maassim.Ready})
	two := r.Arrange(maassim.Arranged{Hostname: "two", Hardware: maassim.Box(2), Status: maassim.Deployed, Owner: "admin", Pool: "gpu"})
	six := r.Arrange(maassim.Arranged{Hostname: "six", Hardware: maassim.Box(6), Status: maassim.FailedDeployment, Owner: "ann"})
	for _, tc := range []struct {
		by   entity.MachinesParams
		want []string
	}{
		{entity.MachinesParams{}, []string{one, two, six}},
		{entity.MachinesParams{ID: []string{six, one, "zzzzzz"}}, []string{one, six}},
		{entity.MachinesParams{Status: []string{"deployed", "failed_deployment"}}, []string{two, six}},
		{entity.MachinesParams{NotStatus: []string{"deployed"}}, []string{one, six}},
		{entity.MachinesParams{Pool: []string{"gpu"}}, []string{two}},
		{entity.MachinesParams{Owner: []string{"ann"}}, []string{six}},
		{entity.MachinesParams{Hostname: []string{"one"}}, []string{one}},
		{entity.MachinesParams{MACAddress: []string{maassim.Box(2).NICs[1].MAC}}, []string{two}},
	} {
		machines, err := c.Machines.Get(&tc.by)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range machines {
			got = append(got, m.SystemID)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.by, got, tc.want)
		}
	}
	for _, query := range []string{"status=Deployed", "mem=5"} {
		if res, body := send(t, r, r.APIKey(), http.MethodGet, "machines/?"+query, nil); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
}

// The differences between the versions that a client sees.
func TestVersionsDiffer(t *testing.T) {
	for version, want := range map[string]struct {
		full, owner     string
		fields          []string
		zone            bool
		eraseByItsMeans maassim.Status
		afterBrokenFan  maassim.Status // a deployment whose power fails, at once
	}{
		"3.4": {"3.4.10", "", nil, false, maassim.Releasing, maassim.Allocated},
		"3.5": {"3.5.13", "", []string{"error_description"}, false, maassim.DiskErasing, maassim.Allocated},
		"3.6": {"3.6.5", "admin", []string{"error_description", "enable_kernel_crash_dump"}, true, maassim.DiskErasing, maassim.Deploying},
	} {
		t.Run(version, func(t *testing.T) {
			r, _, c := start(t, version)
			id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", HWSync: true, PowerOn: true})
			var told struct{ Version string }
			read(t, r, "version/", &told)
			if told.Version != want.full {
				t.Errorf("version %s", told.Version)
			}
			var body map[string]any
			read(t, r, "machines/"+id+"/", &body)
			for _, field := range []string{"error_description", "enable_kernel_crash_dump"} {
				if _, has := body[field]; has != slices.Contains(want.fields, field) {
					t.Errorf("%s: %v", field, has)
				}
			}
			if stamp := body["last_sync"].(string); (stamp[len(stamp)-1] == 'Z') != want.zone {
				t.Errorf("last_sync %s", stamp)
			}
			m, err := c.Machine.MarkBroken(id, "fan")
			if err != nil || m.Owner != want.owner || m.Status != node.StatusBroken {
				t.Errorf("broken: %v of %q, %v", m.Status, m.Owner, err)
			}
			if m, err = c.Machine.MarkFixed(id, ""); err != nil || m.Status != node.StatusDeployed {
				t.Errorf("fixed: %v, %v", m.Status, err)
			}
			again := r.Arrange(maassim.Arranged{Hardware: maassim.Box(2), Status: maassim.Deployed, Owner: "admin", PowerOn: true})
			if _, err := c.Machine.Release(again, &entity.MachineReleaseParams{QuickErase: true}); err != nil {
				t.Fatal(err)
			}
			if got := status(t, r, again); got != want.eraseByItsMeans {
				t.Errorf("quick_erase alone: %v", got)
			}
			third := r.Arrange(maassim.Arranged{Hardware: maassim.Box(3), Status: maassim.Ready})
			r.Inject(maassim.Fault{Kind: maassim.PowerFails, Machine: third})
			_, err = c.Machine.Deploy(third, nil)
			if got := status(t, r, third); got != want.afterBrokenFan || (err == nil) != (version == "3.6") {
				t.Errorf("a deployment without power: %v, %v", got, err)
			}
		})
	}
}

// A release whose power-off fails leaves the machine Deployed, but the fields of its system are
// lost.
func TestAReleaseThatFailsLosesTheSystemsFields(t *testing.T) {
	r, _, c := start(t, "3.4")
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/jammy", HWSync: true, PowerOn: true})
	r.Inject(maassim.Fault{Kind: maassim.PowerFails})
	if _, err := c.Machine.Release(id, &entity.MachineReleaseParams{}); err == nil {
		t.Fatal("released")
	}
	m, err := c.Machine.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	if m.Status != node.StatusDeployed || m.Owner != "admin" || m.OSystem != "" || m.EnableHwSync || m.HwSyncInterval != 0 || m.StatusMessage == "Deployed" {
		t.Errorf("%v of %s, %q, sync %v, message %q", m.Status, m.Owner, m.OSystem, m.EnableHwSync, m.StatusMessage)
	}
}
