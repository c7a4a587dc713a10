// Package machinestest holds the conformance suite of machines.Power: each implementation runs the
// suite against a simulator that speaks the outside system's protocol.
package machinestest

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/machines"
)

// World is a machine with its BMC, as a test arranges it.
type World interface {
	// Open returns the machine's power with the right password, or with another one.
	Open(t *testing.T, password string) machines.Power
	// Password is the right password.
	Password() string
	// Powered reports whether the machine has power, from the machine's side.
	Powered() bool
	// Ignore makes the BMC accept requests and do nothing.
	Ignore()
	// Unplug takes the BMC off the network.
	Unplug()
	// Serial is the serial number of the machine.
	Serial() string
}

// Power runs the suite. fresh makes a world with a machine that is off.
func Power(t *testing.T, fresh func(t *testing.T) World) {
	t.Run("a machine is switched, and the BMC says so", func(t *testing.T) {
		t.Parallel()
		w := fresh(t)
		p := w.Open(t, w.Password())
		step := func(what string, do func() error, want machines.State) {
			t.Helper()
			if err := do(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got, err := p.State(t.Context()); got != want || err != nil {
				t.Fatalf("%s: the BMC says %s, %v", what, got, err)
			}
			if w.Powered() != (want == machines.On) {
				t.Fatalf("%s: the machine's power is %v", what, w.Powered())
			}
		}
		step("at first", func() error { return nil }, machines.Off)
		step("on", func() error { return p.TurnOn(t.Context()) }, machines.On)
		step("off", func() error { return p.TurnOff(t.Context(), false) }, machines.Off)
		step("on again", func() error { return p.TurnOn(t.Context()) }, machines.On)
		step("shut down", func() error { return p.TurnOff(t.Context(), true) }, machines.Off)
	})
	t.Run("the BMC says whose it is", func(t *testing.T) {
		t.Parallel()
		w := fresh(t)
		id, err := w.Open(t, w.Password()).Identity(t.Context())
		if err != nil || id.Serial != w.Serial() {
			t.Errorf("%+v, %v", id, err)
		}
	})
	t.Run("accepted is not done", func(t *testing.T) {
		t.Parallel()
		w := fresh(t)
		w.Ignore()
		p := w.Open(t, w.Password())
		if err := p.TurnOn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := p.State(t.Context()); got != machines.Off || err != nil {
			t.Errorf("a machine that was not switched is %s, %v", got, err)
		}
	})
	t.Run("another password opens nothing, and is in no error", func(t *testing.T) {
		t.Parallel()
		w := fresh(t)
		const other = "n0t-the-one"
		p := w.Open(t, other)
		for what, err := range calls(t, p) {
			if err == nil || strings.Contains(err.Error(), other) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if w.Powered() {
			t.Error("the machine has power")
		}
	})
	t.Run("a BMC that is away is unreachable, and the password is in no error", func(t *testing.T) {
		t.Parallel()
		w := fresh(t)
		p := w.Open(t, w.Password())
		w.Unplug()
		for what, err := range calls(t, p) {
			if err == nil || strings.Contains(err.Error(), w.Password()) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func calls(t *testing.T, p machines.Power) map[string]error {
	state, err := p.State(t.Context())
	if state != machines.Unknown {
		t.Errorf("a BMC that does not answer says %s", state)
	}
	return map[string]error{"state": err, "on": p.TurnOn(t.Context())}
}
