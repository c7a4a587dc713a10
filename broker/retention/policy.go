package retention

import (
	"time"

	"github.com/hostler/hostler/broker"
)

// Policy says how long tasks, runs, terminal sessions and holds of sites are kept after their end,
// and baselines after they were taken.
type Policy struct {
	For *time.Duration `yaml:"keep_for"` // nil: DefaultFor; 0: forever
}

const (
	// DefaultFor is a year and some weeks, so that the whole previous year is still there when
	// somebody asks about it.
	DefaultFor = 400 * 24 * time.Hour
	// LeastFor is longer than a node may be away and come back without a new enrolment. It is also
	// longer than a request is repeated under the same idempotency key.
	LeastFor = 90 * 24 * time.Hour
)

// Check refuses a policy that would delete rows that are still needed. Code: config_invalid.
func (p Policy) Check() error {
	if keep := p.keep(); keep != 0 && keep < LeastFor {
		return broker.Errorf(broker.Invalid, "config_invalid",
			"cannot keep tasks and runs for %s: the minimum is %s, or 0 to keep them for ever (see history: in the config)", keep, LeastFor)
	}
	return nil
}

func (p Policy) keep() time.Duration {
	if p.For == nil {
		return DefaultFor
	}
	return *p.For
}
