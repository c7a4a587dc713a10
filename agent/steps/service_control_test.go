package steps

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAUnitIsControlledAndItsStateIsTheProof(t *testing.T) {
	const unit = "demo.service"
	for _, c := range []struct {
		action      string
		on, enabled bool
		done        bool
		asks        []string
	}{
		{"start", false, false, false, []string{"start demo.service"}},
		{"start", true, false, true, []string{"start demo.service"}},
		{"stop", true, false, false, []string{"stop demo.service"}},
		{"stop", false, false, true, []string{"stop demo.service"}},
		{"restart", true, true, false, []string{"restart demo.service"}}, // the unit that runs may be the one from before
		{"enable", false, false, false, []string{"enable demo.service", "reload"}},
		{"enable", false, true, true, []string{"enable demo.service", "reload"}},
		{"disable", false, true, false, []string{"disable demo.service", "reload"}},
		{"disable", false, false, true, []string{"disable demo.service", "reload"}},
	} {
		h, _ := hosttest.Box(t)
		d := h.Systemd.(*hosttest.Systemd)
		d.On, d.Enabled = map[string]bool{unit: c.on}, map[string]bool{unit: c.enabled}
		d.Obeys = true
		s := aStep(t, h, "service.control", Args{"unit": unit, "action": c.action})
		if look(t, s) != c.done || len(d.Asked) > 0 {
			t.Errorf("%+v: done is %t, and systemd was asked %q", c, !c.done, d.Asked)
		}
		if _, err := do(t, s); err != nil || !slices.Equal(d.Asked, c.asks) {
			t.Errorf("%+v: systemd was asked %q: %v", c, d.Asked, err)
		}
	}
}

// A start whose condition does not hold, and an enable of a unit that is static, end well.
func TestAUnitThatIsNotAsTheActionLeavesItFailsTheStep(t *testing.T) {
	const unit = "demo.service"
	for _, action := range []string{"start", "stop", "restart", "enable", "disable"} {
		h, _ := hosttest.Box(t)
		d := h.Systemd.(*hosttest.Systemd)
		d.On, d.Enabled = map[string]bool{unit: action == "stop"}, map[string]bool{unit: action == "disable"}
		if _, err := do(t, aStep(t, h, "service.control", Args{"unit": unit, "action": action})); taskcatalog.CodeOf(err, "") != CodeUnitState {
			t.Errorf("%s: %v", action, err)
		}
	}
}
