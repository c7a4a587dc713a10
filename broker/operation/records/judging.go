package records

import (
	"sync"

	"github.com/hostler/hostler/broker"
)

// Bounds of the plans whose signatures are judged at once: each reads dozens of parts from registries.
const (
	maxJudged          = 16 // by a broker
	maxJudgedOfProject = 2  // of a project, or of the platform
)

// judging counts the plans whose signatures are being judged, by project.
type judging struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// begin takes a place for a plan of a project, until end. Code: signatures_busy.
func (j *judging) begin(project string) (end func(), err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.all >= maxJudged || j.of[project] >= maxJudgedOfProject {
		return nil, broker.Errorf(broker.Unavailable, "signatures_busy",
			"the broker is verifying signatures for as many plans as it may at once (try again)")
	}
	if j.of == nil {
		j.of = map[string]int{}
	}
	j.all, j.of[project] = j.all+1, j.of[project]+1
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.all, j.of[project] = j.all-1, j.of[project]-1
		if j.of[project] == 0 {
			delete(j.of, project)
		}
	}, nil
}
