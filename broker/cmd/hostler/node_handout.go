package main

import (
	"strconv"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// availabilityWord is a node's availability with the time since when. An older broker does not say.
func availabilityWord(a *app, n api.NodeAvailability) string {
	if n.AvailabilitySince.IsZero() {
		return n.Availability
	}
	return n.Availability + ", since " + moment(a, n.AvailabilitySince)
}

// handoutWord says whether a node may be handed out. An older broker does not say.
func handoutWord(h *api.Handout) string {
	switch {
	case h == nil:
		return ""
	case h.MayBeHandedOut && h.Certificate != nil:
		return "yes, by certificate " + h.Certificate.CertificateID
	case h.MayBeHandedOut:
		return "yes"
	case len(h.Reasons) == 1:
		return "no: " + h.Reasons[0].Message
	}
	return "no, for " + strconv.Itoa(len(h.Reasons)) + " reasons"
}

// handoutPage lists the reasons against a handout, with the actions to take.
func handoutPage(p *render.Page, h *api.Handout) {
	if h == nil || h.MayBeHandedOut {
		return
	}
	rows := [][]string{}
	for _, r := range h.Reasons {
		rows = append(rows, []string{r.Code, r.Message, r.NextAction})
	}
	p.Title("Why it may not be handed out")
	p.Table(render.Kept("CODE", "BECAUSE", "NEXT"), rows)
}
