package onboarding

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
)

const (
	downgraded = chain.Class(broker.EraseDowngraded)
	unerased   = chain.Class(broker.DiskEraseUnsupported)
)

// mostErases is how often MAAS is let try to erase a machine's disks.
const mostErases = 2

// The region's settings of what a release does to disks.
const (
	erasesAlways = "enable_disk_erasing_on_release"
	erasesSecure = "disk_erase_with_secure_erase"
	erasesQuick  = "disk_erase_with_quick_erase"
)

// asks is what a release now asks for: what the run was asked, until that has failed
// and may be done without.
func (rc *Reclaim) asks() string {
	if rc.Downgrade != "" {
		return maas.EraseNone
	}
	return rc.Erase
}

// weight puts in order what can be done to disks. What MAAS calls secure is zeros where
// a drive has no erase of its own.
func weight(erase string) int {
	switch erase {
	case maas.EraseQuick:
		return 1
	case maas.EraseOverwrite, maas.EraseSecure:
		return 2
	}
	return 0
}

// willErase is what MAAS does to disks when it is asked for that: a region may erase
// them whatever it is asked. Of two ways that it may take it is the weaker one.
func (at *place) willErase(ctx context.Context, asks string) (string, error) {
	if asks != maas.EraseNone {
		return asks, nil
	}
	set := map[string]bool{}
	for _, name := range []string{erasesAlways, erasesSecure, erasesQuick} {
		is, err := at.region.Flag(ctx, name)
		if err != nil {
			return "", at.unseen(ctx, err)
		}
		set[name] = is
	}
	switch {
	case !set[erasesAlways]:
		return maas.EraseNone, nil
	case set[erasesQuick]:
		return maas.EraseQuick, nil
	case set[erasesSecure]:
		return maas.EraseSecure, nil
	}
	return maas.EraseOverwrite, nil
}

// eraseFailed is what becomes of a run when MAAS could not erase the disks: it is
// tried once more, and then done without, if that may be, and the region lets it. MAAS
// releases a machine whose erase failed as it is: there is nothing to abort, and
// nothing to mark as fixed.
func (at *place) eraseFailed(ctx context.Context) error {
	s, rc := at.state, at.state.Reclaim
	why := at.why(ctx)
	rc.Failed++
	failed := chain.Fail(unerased, "MAAS could not erase the disks of machine %s: %s", at.called(), why).With("failed_disk_erase", at.details())
	if !at.run.Adopted && rc.Failed < mostErases && retries("release_maas_node")(*s).Attempts > 1 {
		failed.Class = transient
		return failed
	}
	always, err := at.willErase(ctx, maas.EraseNone)
	switch {
	case err != nil:
		rc.Failed-- // it is not told yet
		return err
	case always != maas.EraseNone:
		return failed.Next("see why; the region erases whatever it is asked (%s). Erase or replace the disks, or change that setting, then resume", erasesAlways)
	case !rc.Fallback && !at.run.Adopted:
		return failed.Next("erase the disks by other means or replace them, then resume; or adopt, and the machine is released with its disks as they are")
	}
	rc.Downgrade = fmt.Sprintf("MAAS failed %d times to erase the disks (%s): %s", rc.Failed, rc.Erase, at.said())
	rc.Sends, rc.Attempt = maas.EraseNone, 0
	s.warn("machine " + at.called() + " is released with its disks as they are: " + rc.Downgrade)
	return chain.Again(next, "about to release machine %s with its disks as they are: %s", at.called(), rc.Downgrade)
}

// judgeErase says what MAAS did to the disks of a machine that is nobody's, by MAAS's
// history and by what was seen, and whether that is what was asked for.
func (at *place) judgeErase(ctx context.Context) error {
	s, rc := at.state, at.state.Reclaim
	erased, err := at.erased(ctx)
	if err != nil {
		return err
	}
	did := maas.EraseNone
	switch {
	case erased && weight(rc.Sends) > 0:
		did = rc.Sends
	case erased: // by somebody else's release: it is that at least
		did = maas.EraseQuick
	}
	if weight(did) < weight(rc.Erase) && rc.Downgrade == "" {
		why := "machine " + at.called() + " was released without this run, or MAAS did not erase its disks: what it did is " + did + ", and asked for was " + rc.Erase
		if !rc.Fallback && !at.run.Adopted {
			return chain.Fail(downgraded, "%s", why).With("erase_not_made", map[string]any{"system_id": at.SystemID, "asked": rc.Erase, "did": did}).
				Next("erase the disks by other means; then, or if that will do for these disks, adopt")
		}
		rc.Downgrade = why
		s.warn(why)
	}
	rc.Did = did
	return nil
}

// erased reports whether the disks were erased to the end since the machine was
// deployed last. MAAS's history tells; where it has no word of that, as a region may
// write past it, it counts that the machine was seen at it and came to its end.
func (at *place) erased(ctx context.Context) (bool, error) {
	history, err := at.region.Events(ctx, at.SystemID)
	if err != nil {
		return false, at.unseen(ctx, err)
	}
	for _, e := range history { // the newest first
		if e.Type == "Deployed" || e.Type == "Deploying" {
			break
		}
		if to, is := strings.CutPrefix(e.Description, "From 'Disk erasing' to "); is && e.Type == "Node changed status" {
			return strings.HasPrefix(to, "'Releasing'") || strings.HasPrefix(to, "'Ready'") || strings.HasPrefix(to, "'New'"), nil
		}
	}
	return at.state.Reclaim.Erasing, nil
}
