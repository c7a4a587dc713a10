package onboarding

import (
	"context"
	"time"
)

// mark is the tolerance between the Deployed event in a machine's history and the last_sync that
// MAAS itself writes for that event. One time may be the database's, at which the transaction
// began, and the other a region process's. A host that reports within the tolerance is recognised
// by its next report, one interval later.
const mark = time.Minute

// baseline is the moment after which last_sync is the host's own report. MAAS sets last_sync when a
// machine becomes Deployed, and the host may have reported before the run looks for the first time.
// MAAS's history tells these apart: its times are in the time zone of last_sync and come from
// nearly the same clock. Where the history has no such event, or its times are impossible, the
// present last_sync proves nothing and is itself the baseline. seen is when the run last saw the
// machine before it was Deployed.
func (at *place) baseline(ctx context.Context, seen time.Time) time.Time {
	last := at.LastSync.Time
	history, err := at.region.Events(ctx, at.SystemID)
	if err != nil || last.IsZero() || seen.IsZero() {
		return last
	}
	for _, e := range history { // newest first
		if e.Type == "Deploying" {
			break
		}
		if e.Type != "Deployed" || e.Created.IsZero() {
			continue
		}
		marked := e.Created.Add(mark)
		if last.Sub(e.Created.Time) > at.run.Now.Sub(seen)+mark {
			return last // impossible: the machine was not Deployed yet, so the times come from different clocks
		}
		if marked.Before(last) {
			return marked
		}
		break
	}
	return last
}
