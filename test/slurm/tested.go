package slurm

import (
	"os"
	"testing"
)

// Tested is a cluster of a test. What fails ends the test.
type Tested struct {
	*Cluster
	t testing.TB
}

// Start starts a cluster without nodes, which ends with the test. It skips the test where no cluster can
// run.
func Start(t testing.TB) *Tested {
	t.Helper()
	if why := Lacks(); why != "" {
		t.Skip(why)
	}
	programs, err := Programs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Run(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Said())
		}
		c.Close()
	})
	return &Tested{c, t}
}

// Run runs a program, and returns what it prints.
func (c *Tested) Run(argv ...string) string {
	c.t.Helper()
	out, err := c.Output(c.t.Context(), argv...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// Begin starts a program that ends with the test or with stop.
func (c *Tested) Begin(argv ...string) (stop func()) {
	c.t.Helper()
	stop, err := c.Cluster.Begin(argv...)
	if err != nil {
		c.t.Fatal(err)
	}
	return stop
}

// Node starts slurmd with its own /etc/slurm, in which is the key alone. It ends with the test or with
// stop.
func (c *Tested) Node(argv []string, key []byte) (stop func()) {
	c.t.Helper()
	if err := os.MkdirAll(c.Root+"/run/node", 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := c.write("/run/node/slurm.key", key, 0o400); err != nil {
		c.t.Fatal(err)
	}
	alone := []string{"unshare", "--mount", "--propagation", "unchanged", "sh", "-c", `mount --bind /run/node /etc/slurm && exec "$@"`, "sh"}
	return c.Begin(append(alone, argv...)...)
}

// Until asks until the answer is yes.
func (c *Tested) Until(what string, yes func() bool) {
	c.t.Helper()
	if err := c.Cluster.Until(c.t.Context(), what, yes); err != nil {
		c.t.Fatal(err)
	}
}
