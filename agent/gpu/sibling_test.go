package gpu

import (
	"os"
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/machine"
)

// A tenant may run the agent's own program, under any name.
func TestOnlyTheAgentsOwnChildrenAreItsHelpers(t *testing.T) {
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pid := uint32(holds(t, m, "open")) // the same file, with another parent than this process
	if helper(pid) || !helper(uint32(os.Getpid())) || helper(1) {
		t.Errorf("process %d: %v, this one: %v, the first: %v", pid, helper(pid), helper(uint32(os.Getpid())), helper(1))
	}
	list := func() ([]Holder, error) { return []Holder{{PID: pid}, {PID: uint32(os.Getpid())}}, nil }
	if got, err := WithoutOwnHelpers(list); err != nil || len(got) != 1 || got[0].PID != pid {
		t.Errorf("%+v, %v", got, err)
	}
}

// A listed process that does not exist here and is listed again is in another PID namespace; a
// process that is not listed again has ended.
func TestWhoEndsWhileItIsListedIsNoHolder(t *testing.T) {
	const gone = 4194303 // the highest number, of no process here
	for name, c := range map[string]struct{ again, want []uint32 }{
		"ended":             {nil, nil},
		"listed again":      {[]uint32{gone}, []uint32{gone}},
		"another came only": {[]uint32{7}, nil},
	} {
		calls := 0
		got, err := WithoutOwnHelpers(func() ([]Holder, error) {
			calls++
			if calls == 1 {
				return []Holder{{PID: gone}}, nil
			}
			var all []Holder
			for _, pid := range c.again {
				all = append(all, Holder{PID: pid})
			}
			return all, nil
		})
		var pids []uint32
		for _, h := range got {
			pids = append(pids, h.PID)
		}
		if err != nil || calls != 2 || !slices.Equal(pids, c.want) {
			t.Errorf("%s: %v after %d lists, %v", name, pids, calls, err)
		}
	}
}
