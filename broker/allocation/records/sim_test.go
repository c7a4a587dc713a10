//go:build !race

package records

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker/chain"
)

var (
	simSeeds = flag.Int("sim.n", 200, "how many seeds the simulation plays")
	simSeed  = flag.Int64("sim.seed", -1, "play this seed alone")
	simFirst = flag.Int64("sim.first", 0, "the first seed")
)

// TestSimulation plays projects that ask for nodes and release them, at a site full of faults: agents
// refuse, fail and fall silent, results are lost, inspections find something, machines vanish, MAAS
// releases by hand, policies become stricter, people force releases, turn nodes over and act on runs at
// random, and brokers die at any call of the store. Often there are two brokers, and one works while the
// other is in the middle of a call. The store, the queue and the chains are real. Time is simulated, and
// everything follows from the seed. The rules are checked after each step.
func TestSimulation(t *testing.T) {
	first, n := *simFirst, int64(*simSeeds)
	switch {
	case *simSeed >= 0:
		first, n = *simSeed, 1
	case testing.Short():
		n = min(n, 50)
	}
	all := tally{n: map[string]int{}}
	t.Run("seeds", func(t *testing.T) {
		const lanes = 4
		for lane := range int64(lanes) {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for seed := first + lane; seed < first+n && !t.Failed(); seed += lanes {
					all.add(playSeed(t, uint64(seed), nil).counts)
				}
			})
		}
	})
	t.Logf("%s", all.String())
	if n >= 200 && all.missing() != "" {
		t.Errorf("the simulation does not come to: %s", all.missing())
	}
}

// The same seed plays the same story.
func TestSimulationPlaysASeedTheSameAgain(t *testing.T) {
	for seed := range uint64(5) {
		a, b := playSeed(t, seed, nil).story(), playSeed(t, seed, nil).story()
		if a != b || a == "" {
			t.Errorf("seed %d: two plays differ\n%s\n%s", seed, a, b)
		}
	}
}

// playSeed plays one seed; with changes the simulation.
func playSeed(t testing.TB, seed uint64, with func(*simulation)) *simulation {
	s := newSimulation(t, seed, with)
	defer func() {
		if t.Failed() && !s.told {
			s.told = true
			t.Logf("%s\nplay it again: go test ./broker/allocation/records -run 'TestSimulation$' -sim.seed %d", s.story(), seed)
		}
		s.close()
	}()
	s.play()
	return s
}

// story is what happened, and how all runs stand.
func (s *simulation) story() string {
	var b strings.Builder
	for _, line := range s.happened {
		fmt.Fprintln(&b, line)
	}
	all, err := s.db.Runs(ctx, chain.Filter{Limit: 1000})
	for _, r := range all {
		fmt.Fprintf(&b, "%s %s of %s: %s at %s; %s", r.ID, r.Kind, r.Subject, r.Status, r.Stage, r.Waiting)
		if r.Failure != nil {
			fmt.Fprintf(&b, " %s: %s", r.Failure.Code, r.Failure.Message)
		}
		fmt.Fprintln(&b)
	}
	for _, m := range s.machines {
		fmt.Fprintln(&b, m)
	}
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// reached lists everything that the simulations must reach together.
var reached = []string{
	"allocations", "requests refused", "active", "failed", "released", "release_failed", "forced releases", "certificates",
	"certificates that fall short", "policies changed", "turnovers", "machines gone", "nodes deleted by hand", "silences", "deaths",
	"steps of one broker within another's", "allocations of lost machines", "provisions failed by the node", "nodes let in again",
	"turnovers for a stricter policy", "requests while the policy is stricter", "validities shortened",
	"operations of a begin", "operations of an end", "allocations failed by their operation", "images installed", "reservations", "reserved nodes given to their project", "requests refused for a reservation",
}

// tally sums the counts of the seeds.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(counts map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, n := range counts {
		c.n[what] += n
	}
}

func (c *tally) String() string {
	var words []string
	for what, n := range c.n {
		words = append(words, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func (c *tally) missing() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(reached), func(what string) bool { return c.n[what] > 0 }), ", ")
}
