package retention

import (
	"time"

	"github.com/hostler/hostler/broker"
)

// Policy says for how long tasks, runs, terminal sessions and holds of sites are kept after they
// ended, and baselines after they were taken.
type Policy struct {
	For *time.Duration `yaml:"keep_for"` // nil: DefaultFor; 0: for ever
}

const (
	// DefaultFor is a year, and what is left of it when somebody asks about the last one.
	DefaultFor = 400 * 24 * time.Hour
	// LeastFor is longer than a node may be away and come back without a new enrolment, and
	// than anybody asks again under the same idempotency key.
	LeastFor = 90 * 24 * time.Hour
)

// Check refuses a policy by which what is still asked for would be gone. Code:
// config_invalid.
func (p Policy) Check() error {
	if keep := p.keep(); keep != 0 && keep < LeastFor {
		return broker.Errorf(broker.Invalid, "config_invalid", "cannot keep tasks and runs for %s: at least %s are kept, or 0, which is for ever (see history: in the config)", keep, LeastFor)
	}
	return nil
}

func (p Policy) keep() time.Duration {
	if p.For == nil {
		return DefaultFor
	}
	return *p.For
}
