package onboarding

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// reason is why MAAS's latest action on a machine failed, in MAAS's own words.
type reason struct {
	events []string // oldest first
	text   string
}

func (r reason) String() string { return r.text }

// failureReason reads the reason. The status and its message only repeat each other ("Failed
// commissioning"): the reason is in the events just before, or from 3.5 on in error_description. A
// deployment that fails from 3.6 on can write no event. Events that cannot be read do not suppress
// the report of the failure.
func (at *place) failureReason(ctx context.Context) reason {
	events, err := at.region.EventsOf(ctx, at.SystemID, "INFO")
	out := reason{events: reasonsIn(events)}
	parts := slices.Clone(out.events)
	if d := taskcatalog.Clean(at.ErrorDescription, 200); d != "" &&
		!slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, d) }) {
		parts = append(parts, d)
	}
	if s := taskcatalog.Clean(at.StatusMessage, 200); len(parts) == 0 && s != "" && s != at.StatusName {
		parts = append(parts, s)
	}
	switch {
	case len(parts) == 0 && err != nil:
		parts = append(parts, "its events in MAAS cannot be read")
	case len(parts) == 0:
		parts = append(parts, "MAAS gives no reason (see the machine's page in MAAS)")
	}
	out.text = taskcatalog.Clean(at.StatusName, 64) + ": " + strings.Join(parts, "; ")
	return out
}

// startEvents are the events with which MAAS begins an action on a machine: older events belong to
// another action.
var startEvents = []string{
	"Commissioning", "Testing", "Deploying", "Deployed", "Releasing", "Released", "Ready", "New",
	"Entering rescue mode",
}

const mostReasons = 5

// reasonsIn finds the reasons among a machine's events, which come newest first. A failed script is
// reported at level INFO; an event of an unknown level counts as a reason.
func reasonsIn(events []maas.Event) (said []string) {
	for _, e := range events {
		if slices.Contains(startEvents, e.Type) || len(said) == mostReasons {
			break
		}
		if slices.Contains([]string{"AUDIT", "DEBUG", "INFO"}, e.Level) && e.Type != "Script" {
			continue
		}
		text := taskcatalog.Clean(e.Type, 100)
		if e.Description != "" {
			text += " - " + taskcatalog.Clean(e.Description, 200)
		}
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	slices.Reverse(said)
	return said
}

// refusals distinguish MAAS's refusals with code 400, for which MAAS offers nothing but these
// texts. The first matching row counts; any other refusal means that the site lacks something.
var refusals = []struct {
	says  string
	class chain.Class
	code  string
	next  string
}{
	{"is not available because of the current state", transient, "maas_refused", ""},
	{"Unable to get RPC connection", transient, "rack_unreachable", ""},
	{"No image could be found", capabilityMissing, "maas_refused", ""},
	{
		"Failed to render preseed", deployFailure, "preseed_not_rendered",
		"correct the image's curtin preseed in MAAS (/etc/maas/preseeds on the region; MAAS's message names the line), then resume",
	},
	{"Mount the root '/' filesystem", mismatch, "storage_not_deployable", "restart-clean, which prepares the machine's storage again"},
	{
		"Node must be configured to use a network", mismatch, "network_not_deployable",
		"give an interface of the machine an address in MAAS, then resume; or restart-clean",
	},
}

// refused is the failure of a step that MAAS will never accept as it is.
func refused(err error) error {
	detail := ""
	if e, ok := errors.AsType[*maas.Error](err); ok {
		detail = e.Detail
	}
	for _, r := range refusals {
		if !strings.Contains(detail, r.says) {
			continue
		}
		f := chain.Fail(r.class, "%w", err).With(r.code, nil)
		if r.next != "" {
			f = f.Next("%s", r.next)
		}
		return f
	}
	return chain.Fail(capabilityMissing, "%w", err).With("maas_refused", nil)
}
