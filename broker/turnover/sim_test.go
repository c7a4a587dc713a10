//go:build !race

package turnover_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

var (
	simSeeds = flag.Int("sim.n", 200, "how many seeds the simulation plays")
	simSeed  = flag.Int64("sim.seed", -1, "play this seed alone")
	simFirst = flag.Int64("sim.first", 0, "the first seed")
)

// TestSimulation plays turnovers at a site full of faults: tenants come and go, agents fall
// silent, machines are unclean, identities are copied, tasks are cancelled, MAAS fails, people
// act unseen, operators act at random, the reconciler looks and acts, and the broker dies at any
// save. Often there are two brokers, and one steps while the other waits for an answer. Time is
// simulated, and everything follows from the seed. The rules are checked at each call, at each
// save and after each step.
func TestSimulation(t *testing.T) {
	first, n := *simFirst, int64(*simSeeds)
	switch {
	case *simSeed >= 0:
		first, n = *simSeed, 1
	case testing.Short():
		n = min(n, 50)
	}
	all := tally{n: map[string]int{}}
	var played atomic.Int64
	if n > 1000 {
		defer progress(&played, n)()
	}
	t.Run("seeds", func(t *testing.T) {
		const lanes = 4
		for lane := range int64(lanes) {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for seed := first + lane; seed < first+n && !t.Failed(); seed += lanes {
					playSeed(t, uint64(seed), nil).count(&all)
					played.Add(1)
				}
			})
		}
	})
	t.Logf("%s", all.String())
	if n >= 100 && all.missing() != "" {
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
			t.Logf("%s\nplay it again: go test ./broker/turnover -run 'TestSimulation$' -sim.seed %d", s.story(), seed)
		}
	}()
	s.play()
	return s
}

// story is the outcome of all runs, and the actions of people.
func (s *simulation) story() string {
	var b strings.Builder
	for _, r := range s.runs {
		now := s.run(r.id)
		fmt.Fprintf(&b, "%s %s of %s (%s): %s at %s; %s\n", r.id, r.req.Mode, r.box.id, r.box.systemID, now.Status, now.Stage, now.Waiting)
		for _, e := range s.history(r.id) {
			if e.Status != chain.Started {
				fmt.Fprintf(&b, "  %s %s/%s/%d %s: %s\n", e.At.Format(time.TimeOnly), e.Stage, e.Direction, e.Attempt, e.Status, e.Message)
			}
		}
	}
	for _, line := range s.happened {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// reached lists everything that the simulations must reach together.
var reached = []string{
	"runs completed", "runs cancelled", "runs stopped", "nodes handed out", "nodes gone", "certificates of a fresh system", "steps of one broker within another's",
	"previous systems", "calls carried out late", "tenants let in", "tenants kept out", "nodes brought on at the end",
	"looks", "looks stopped", "drifts", "drifts ended", "quarantined for drift", "decommissions for drift", "reseeds",
	"identity conflicts", "conflicts settled by another key", "conflicts answered for", "tasks cancelled",
}

// tally counts the results of the seeds.
type tally struct {
	mu sync.Mutex
	n  map[string]int
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

// count adds the results of a simulation.
func (s *simulation) count(c *tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range s.runs {
		switch now := s.run(r.id).Status; {
		case now == chain.Completed || now == chain.Reconciled:
			c.n["runs completed"]++
		case now == chain.Cancelled:
			c.n["runs cancelled"]++
		}
	}
	c.n["tasks cancelled"] += s.book.Cancelled
	for what, n := range s.counts {
		c.n[what] += n
	}
}

// progress reports the progress of a long simulation, until it is stopped.
func progress(played *atomic.Int64, of int64) (stop func()) {
	begun, tick, ended := time.Now(), time.NewTicker(10*time.Second), make(chan struct{})
	tell := func() {
		n := played.Load()
		rate := float64(n) / time.Since(begun).Seconds()
		fmt.Fprintf(os.Stderr, "%s: %d of %d seeds, %.1f a second, %v to go\n", time.Now().Format(time.TimeOnly), n, of, rate, time.Duration(float64(of-n)/max(rate, 0.1)*1e9).Round(time.Second))
	}
	go func() {
		for {
			select {
			case <-tick.C:
				tell()
			case <-ended:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(ended)
		tell()
	}
}

func (s *simulation) run(id string) chain.Record {
	s.t.Helper()
	r, err := s.store.Run(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *simulation) history(id string) []chain.Event {
	s.t.Helper()
	events, err := s.store.Events(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}
