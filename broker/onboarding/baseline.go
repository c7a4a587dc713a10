package onboarding

import (
	"context"
	"time"
)

// mark is how long after a machine became Deployed by its history MAAS's own mark of
// that in last_sync may lie. The one may be the time of the database, at which its
// transaction began, and the other that of a region's process; a host that reports as
// soon waits for its next report, one interval later.
const mark = time.Minute

// baseline is the moment after which last_sync is the host's own report. MAAS sets
// last_sync when a machine becomes Deployed, and the host may have reported since, when
// the run looks for the first time. MAAS's history tells, in the same zone as last_sync
// and by nearly the same clock. Where it does not, or says what cannot be, what last_sync is
// now proves nothing. seen is when the run last saw the machine before it was Deployed.
func (at *place) baseline(ctx context.Context, seen time.Time) time.Time {
	last := at.LastSync.Time
	history, err := at.region.Events(ctx, at.SystemID)
	if err != nil || last.IsZero() || seen.IsZero() {
		return last
	}
	for _, e := range history { // the newest first
		if e.Type == "Deploying" {
			break
		}
		if e.Type != "Deployed" || e.Created.IsZero() {
			continue
		}
		marked := e.Created.Add(mark)
		if last.Sub(e.Created.Time) > at.run.Now.Sub(seen)+mark {
			return last // it was not Deployed yet: those are not times of one clock
		}
		if marked.Before(last) {
			return marked
		}
		break
	}
	return last
}
