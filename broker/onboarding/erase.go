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

// mostErases is how often MAAS may try to erase a machine's disks.
const mostErases = 2

// The region's settings for the disks of released machines.
const (
	erasesAlways = "enable_disk_erasing_on_release"
	erasesSecure = "disk_erase_with_secure_erase"
	erasesQuick  = "disk_erase_with_quick_erase"
)

// nextErase is the erase for the next release: the run's erase, until this erase has failed and the
// run may go on without.
func (rc *Reclaim) nextErase() string {
	if rc.Downgrade != "" {
		return maas.EraseNone
	}
	return rc.Erase
}

// weight ranks ways of erasing by strength. MAAS's secure erase writes zeros where a drive has no
// erase of its own, and therefore ranks no higher than an overwrite.
func weight(erase string) int {
	switch erase {
	case maas.EraseQuick:
		return 1
	case maas.EraseOverwrite, maas.EraseSecure:
		return 2
	}
	return 0
}

// willErase is how MAAS will erase the disks for a request: a region may erase them even when no
// erase is requested. Where the region's settings allow two ways, the weaker one is returned.
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

// eraseFailed handles a failed erase: the erase is tried once more. Then the machine is released
// without an erase, if the profile or a person allows this and the region's settings permit it.
// MAAS releases a machine as it is after a failed erase: there is nothing to abort, and nothing to
// mark as fixed.
func (at *place) eraseFailed(ctx context.Context) error {
	s, rc := at.state, at.state.Reclaim
	why := at.failureReason(ctx)
	rc.Failed++
	failed := chain.Fail(unerased, "MAAS could not erase the disks of machine %s: %s", at.displayName(), why).With("failed_disk_erase",
		at.details())
	if !at.run.Adopted && rc.Failed < mostErases && retries("release_maas_node")(*s).Attempts > 1 {
		failed.Class = transient
		return failed
	}
	always, err := at.willErase(ctx, maas.EraseNone)
	switch {
	case err != nil:
		rc.Failed-- // the failure is not reported yet
		return err
	case always != maas.EraseNone:
		return failed.Next("find out why; the region always erases on release (%s). Erase or replace the disks, or change that setting, then resume", erasesAlways)
	case !rc.Fallback && !at.run.Adopted:
		return failed.Next("erase the disks by other means or replace them, then resume; or adopt, and the machine is released without an erase")
	}
	rc.Downgrade = fmt.Sprintf("MAAS failed %d times to erase the disks (%s): %s", rc.Failed, rc.Erase, at.lastFailure())
	rc.Sends, rc.Attempt = maas.EraseNone, 0
	s.warn("machine " + at.displayName() + " is released without an erase: " + rc.Downgrade)
	return chain.Again(next, "about to release machine %s without an erase: %s", at.displayName(), rc.Downgrade)
}

// judgeErase decides, from MAAS's history and the run's observations, how MAAS erased the disks of
// a machine without an owner, and whether the erase meets the request.
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
	case erased: // somebody else's release erased them: count the weakest erase
		did = maas.EraseQuick
	}
	if weight(did) < weight(rc.Erase) && rc.Downgrade == "" {
		why := "machine " + at.displayName() + " was released without this run, or MAAS did not erase its disks: what it did is " + did +
			", and asked for was " + rc.Erase
		if !rc.Fallback && !at.run.Adopted {
			return chain.Fail(downgraded, "%s", why).With("erase_not_made",
				map[string]any{"system_id": at.SystemID, "asked": rc.Erase, "did": did}).
				Next("erase the disks by other means; then, or if that will do for these disks, adopt")
		}
		rc.Downgrade = why
		s.warn(why)
	}
	rc.Did = did
	return nil
}

// erased reports whether an erase of the disks has completed since the last deployment. MAAS's
// history decides. A region may write past the history; where the history says nothing, an erase
// that the run itself saw counts as completed.
func (at *place) erased(ctx context.Context) (bool, error) {
	history, err := at.region.Events(ctx, at.SystemID)
	if err != nil {
		return false, at.unseen(ctx, err)
	}
	for _, e := range history { // newest first
		if e.Type == "Deployed" || e.Type == "Deploying" {
			break
		}
		if to, is := strings.CutPrefix(e.Description, "From 'Disk erasing' to "); is && e.Type == "Node changed status" {
			return strings.HasPrefix(to, "'Releasing'") || strings.HasPrefix(to, "'Ready'") || strings.HasPrefix(to, "'New'"), nil
		}
	}
	return at.state.Reclaim.Erasing, nil
}
