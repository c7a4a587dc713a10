package maassim_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

// The power calls change a machine's power, and fail with a wrong password.
func TestPower(t *testing.T) {
	r, clock, c := start(t, "3.6")
	box, m := enroll(t, r, clock, c, 1)
	state := func(want string) {
		t.Helper()
		if s, err := c.Machine.GetPowerState(m.SystemID); err != nil || s.State != want {
			t.Errorf("power %v, %v, want %s", s, err, want)
		}
	}
	state("off")
	if _, err := c.Machine.PowerOn(m.SystemID, nil); err == nil || !strings.Contains(err.Error(), "it hasn't been allocated") {
		t.Errorf("%v", err)
	}
	if _, err := c.Machines.Allocate(&entity.MachineAllocateParams{SystemID: m.SystemID}); err != nil {
		t.Fatal(err)
	}
	if on, err := c.Machine.PowerOn(m.SystemID, nil); err != nil || on.StatusName != "Deploying" {
		t.Errorf("power_on of an allocated machine: %v, %v", on, err)
	}
	clock.pass(time.Hour)
	state("on")
	if _, err := c.Machine.PowerOn(m.SystemID, nil); err != nil || r.Happened(box.Serial, "hard reset") != 1 {
		t.Errorf("%v, %d resets", err, r.Happened(box.Serial, "hard reset"))
	}
	if seen, _ := r.Machine(m.SystemID); seen.HostUp {
		t.Error("up right after a reset")
	}
	clock.pass(maassim.Usual.PhoneHome)
	if seen, _ := r.Machine(m.SystemID); !seen.HostUp {
		t.Error("not up again")
	}
	if _, err := c.Machine.Update(m.SystemID, &entity.MachineUpdateParams{PowerType: "ipmi", PowerParametersSkipCheck: true}, map[string]any{"power_parameters_power_pass": "wrong"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Machine.GetPowerState(m.SystemID); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	if m, _ := r.Machine(m.SystemID); m.PowerState != "error" || !m.On {
		t.Errorf("%s, on %v", m.PowerState, m.On)
	}
	if _, err := c.Machine.Update(m.SystemID, &entity.MachineUpdateParams{}, map[string]any{"power_parameters_power_pass": box.BMC.Password}); err != nil {
		t.Fatal(err)
	}
	state("on")
	all, err := c.Machine.GetPowerParameters(m.SystemID)
	if err != nil || all["power_address"] != box.BMC.Address || all["power_pass"] != box.BMC.Password {
		t.Errorf("%v, %v", all, err)
	}
	manual, err := c.Machines.Create(&entity.MachineCreateParams{PowerType: "manual", Architecture: "amd64/generic", MACAddresses: []string{"02:00:00:00:00:09"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if off, err := c.Machine.PowerOff(manual.SystemID, nil); err != nil || off.SystemID != "" {
		t.Errorf("power_off of a manual machine: %v, %v", off, err)
	}
}

// A machine enters and leaves rescue mode, is tested, locked and unlocked, and erases its disks at
// its release.
func TestRescueTestLockAndErase(t *testing.T) {
	r, clock, c := start(t, "3.4")
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", PowerOn: true})
	is := func(want maassim.Status) {
		t.Helper()
		if got := status(t, r, id); got != want {
			t.Errorf("in %v, want %v", got, want)
		}
	}
	must := func(_ *entity.Machine, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(c.Machine.RescueMode(id))
	is(maassim.EnteringRescueMode)
	clock.pass(maassim.Usual.Rescue)
	is(maassim.RescueMode)
	must(c.Machine.ExitRescueMode(id))
	is(maassim.Deployed)
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=test", nil)
	is(maassim.Testing)
	clock.pass(maassim.Usual.Test)
	is(maassim.Deployed)
	must(c.Machine.Lock(id, ""))
	if _, err := c.Machine.Release(id, &entity.MachineReleaseParams{}); err == nil {
		t.Error("a locked machine was released")
	}
	must(c.Machine.Unlock(id, ""))
	must(c.Machine.Release(id, &entity.MachineReleaseParams{Erase: true}))
	is(maassim.DiskErasing)
	clock.pass(maassim.Usual.Erase)
	is(maassim.Releasing)
	must(c.Machine.Release(id, &entity.MachineReleaseParams{Erase: true}))
	clock.pass(maassim.Usual.PowerOff)
	is(maassim.Ready)
	must(c.Machine.Release(id, &entity.MachineReleaseParams{Erase: true}))
	is(maassim.Ready)
	if n := r.Happened(id, "erase"); n != 1 {
		t.Errorf("erased %d times", n)
	}
}

// A machine commissioned with enable_ssh stays on.
func TestCommissioningLeavesTheMachineOnForSSH(t *testing.T) {
	for _, ssh := range []bool{true, false} {
		r, clock, c := start(t, "3.6")
		id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.New, Uncommissioned: true})
		if _, err := c.Machine.Commission(id, &entity.MachineCommissionParams{EnableSSH: ssh}); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Hour)
		if m, _ := r.Machine(id); m.Status != maassim.Ready || m.On != ssh {
			t.Errorf("%v, on %v", m.Status, m.On)
		}
	}
}

// The Date header shows the region's wall clock, so a client can compute the clock's error.
func TestAnswersAreDated(t *testing.T) {
	off := newClock()
	r := &maassim.Region{OAuthNow: off.Now}
	res, _ := send(t, r, "", http.MethodGet, "version/", nil)
	if date, err := http.ParseTime(res.Header.Get("Date")); err != nil || !date.Equal(off.Now()) {
		t.Errorf("%v, %v", date, err)
	}
}
