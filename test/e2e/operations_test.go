//go:build e2e

package e2e

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/hostler/hostler/test/lab"
)

// operations is a case with a node, and with what operations of the node reach.
type operations struct {
	*site
	trust  string // file
	files  *lab.FileSource
	secret string // the token of files
	index  lab.PythonIndex
	images images
}

// Operations run on a node that a broker asks, one after the other. A secret of theirs is nowhere, however
// they end.
func TestOperationsRunOnANodeAndLeaveNoSecret(t *testing.T) {
	o := newOperations(t)
	for _, p := range []struct {
		name string
		do   func(*operations)
	}{
		{"OverARestart", (*operations).overARestart},
		{"ToABadEnd", (*operations).toABadEnd},
		{"OfPython", (*operations).ofPython},
		{"OfARegistry", (*operations).ofARegistry},
	} {
		o.part(p.name, func(s *site) {
			began := time.Now()
			site := o.site
			o.site = s
			defer func() { o.site = site }()
			p.do(o)
			s.t.Logf("%s took %.1f s", p.name, time.Since(began).Seconds())
		})
	}
}

// newOperations starts what operations reach, and makes the guest a node.
func newOperations(t *testing.T) *operations {
	t.Helper()
	s := newSite(t)
	s.lasts(15 * time.Minute)
	o := &operations{site: s, files: &lab.FileSource{Content: make([]byte, 4<<20)}, secret: "hf_" + rand.Text() + rand.Text(), trust: s.Path("trust.json")}
	_, _ = rand.Read(o.files.Content)
	from := s.sources()
	from.handlers[lab.SourceName], from.handlers[indexName] = o.files, &o.index
	o.images.open(s, from)
	from.serve(s)
	o.images.believe(s, from)

	s.restore(installed)
	from.known(s)
	s.aptSource(s.tunerPackage("fabric-tuner", "1.2-3"))
	s.enrol()
	write(t, o.trust, s.hostler("trust", "show", "-o", "json"))
	write(t, s.Path("token"), o.secret+"\n")
	s.hostler("source-credential", "set", "tables", "--source", "huggingface:acme/tables", "--endpoint", "https://"+lab.SourceName,
		"--secret-file", s.Path("token"), "--reason", "our tables")
	return o
}

// answers are commands that say what there is of an operation.
func (o *operations) answers(run operation) [][]string {
	return [][]string{{"operation", "show", run.ID}, {"operation", "logs", run.ID}, {"operation", "statement", run.ID}}
}
