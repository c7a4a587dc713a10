package turnover

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// A rule of the policy makes a turnover a reimage, and the turnover says which one. The strictest mode of all that
// ask for one wins.
func TestARuleMakesATurnoverAReimage(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*broker.Handout, *Place, *Past)
		because string // empty: a soft reset
	}{
		"no rule":    {func(*broker.Handout, *Place, *Past) {}, ""},
		"its SKU":    {func(_ *broker.Handout, at *Place, _ *Past) { at.Policy.ReimageSKUs = []string{"l40", "h100"} }, "SKU h100 is named (reimage_skus)"},
		"other SKUs": {func(_ *broker.Handout, at *Place, _ *Past) { at.Policy.ReimageSKUs = []string{"l40"} }, ""},
		"the node has no SKU": {func(h *broker.Handout, at *Place, _ *Past) {
			h.Node.SKU, at.Policy.ReimageSKUs = "", []string{"h100"}
		}, ""},
		"a tenant before the last one": {func(h *broker.Handout, at *Place, _ *Past) {
			h.Occupants[0].Tenant, at.Policy.ReimageTenants = "p-9", []string{"p-9"}
		}, "tenant p-9 is named (reimage_tenants)"},
		"the organisation of a tenant": {func(_ *broker.Handout, at *Place, past *Past) {
			at.Policy.ReimageTenants, past.Organisations = []string{"org-1"}, []string{"org-1"}
		}, "tenant org-1 is named (reimage_tenants)"},
		"other tenants": {func(_ *broker.Handout, at *Place, _ *Past) { at.Policy.ReimageTenants = []string{"p-9"} }, ""},
		"nobody was there": {func(h *broker.Handout, at *Place, _ *Past) {
			h.Occupants, at.Policy.ReimageTenants = nil, []string{"acme"}
		}, ""},
		"the second of three": {func(_ *broker.Handout, at *Place, past *Past) { at.Policy.ReimageEvery, past.Resets = 3, 1 }, ""},
		"the third of three": {
			func(_ *broker.Handout, at *Place, past *Past) { at.Policy.ReimageEvery, past.Resets = 3, 2 },
			"it is turnover 3 since the last reimage (reimage_every 3)",
		},
		"a later one of three": {
			func(_ *broker.Handout, at *Place, past *Past) { at.Policy.ReimageEvery, past.Resets = 3, 7 },
			"it is turnover 8 since the last reimage (reimage_every 3)",
		},
		"each":        {func(_ *broker.Handout, at *Place, _ *Past) { at.Policy.ReimageEvery = 1 }, "it is turnover 1 since the last reimage (reimage_every 1)"},
		"root before": {func(_ *broker.Handout, _ *Place, past *Past) { past.RootSinceReimage = true }, "a tenant had root (root_requires_reimage)"},
		"root permitted": {func(_ *broker.Handout, at *Place, past *Past) {
			at.Policy.RootRequiresReimage, past.RootSinceReimage = false, true
		}, ""},
		"no number":      {func(_ *broker.Handout, _ *Place, past *Past) { past.Resets = 1000 }, ""},
		"what it proves": {func(_ *broker.Handout, at *Place, _ *Past) { at.Policy.TurnoverEnvironment = "fresh_os" }, "turnover_environment is fresh_os"},
		"several": {func(h *broker.Handout, at *Place, _ *Past) {
			h.Occupants[0].HadRoot, at.Policy.ReimageSKUs, at.Policy.ReimageTenants = true, []string{"h100"}, []string{"acme"}
		}, "a tenant had root (root_requires_reimage), SKU h100 is named (reimage_skus), tenant acme is named (reimage_tenants)"},
	} {
		h, at := left()
		h.Node.SKU, at.Policy.AcceptSystemDisk = "h100", true
		var past Past
		c.change(&h, &at, &past)
		got := Choose(h.Node, at, h.Occupants, past)
		want := map[bool]Mode{true: SoftReset, false: Reimage}[c.because == ""]
		if got.Mode != want || got.Because != c.because || !got.Possible || got.Erase != taskcatalog.EraseSecure {
			t.Errorf("%s: %+v, want %s because %q", name, got, want, c.because)
		}
		if reason := got.Explain("it ended"); (reason == "it ended") != (c.because == "") || !strings.HasSuffix(reason, c.because) {
			t.Errorf("%s: the reason is %q", name, reason)
		}
		h.Node.MAASSystemID = ""
		if got := Choose(h.Node, at, h.Occupants, past); got.Possible != (c.because == "") {
			t.Errorf("%s, without MAAS: %+v", name, got)
		}
	}
}

// A node that a rule wants reimaged gets no soft reset in its place.
func TestARuleIsNotWeakenedWithoutMAAS(t *testing.T) {
	h, at := left()
	h.Node.MAASSystemID, at.Policy.AcceptSystemDisk, at.Policy.ReimageEvery = "", true, 1
	c := Choose(h.Node, at, h.Occupants, Past{})
	if c.Mode != Reimage || c.Possible {
		t.Errorf("%+v", c)
	}
	_, _, err := New(h.Node, at, Request{Mode: c.Mode, Erase: c.Erase, Reason: "r"})
	if err == nil || broker.AsError(err).Code != "turnover_invalid" {
		t.Errorf("%v", err)
	}
	if _, due := AutomaticRequest(h, at, Past{}); due {
		t.Error("it begins by itself")
	}
}

// The request for a turnover says why it is a reimage, and so does its run.
func TestARequestSaysWhyItIsAReimage(t *testing.T) {
	h, at := left()
	h.Node.SKU, at.Policy.AcceptSystemDisk, at.Policy.ReimageSKUs = "h100", true, []string{"h100"}
	req, due := AutomaticRequest(h, at, Past{})
	if !due || req.Mode != Reimage || !strings.Contains(req.Reason, "ended; reimage because SKU h100 is named (reimage_skus)") {
		t.Fatalf("%v, %+v", due, req)
	}
	if req.Mode = SoftReset; req.ModeBecause == "" {
		t.Error("the request does not say why")
	}
	s, _, err := New(h.Node, at, req)
	if err != nil || s.ModeBecause != "SKU h100 is named (reimage_skus)" {
		t.Errorf("%+v, %v", s, err)
	}
}

// What an operation of the end was to clean up is cleaned up by a reimage, where there can be one.
func TestAPassedEndMakesATurnoverAReimageWhereItCanBeOne(t *testing.T) {
	h, at := left()
	at.Policy.AcceptSystemDisk = true
	past := Past{Passed: []string{"alc-1"}}
	got := Choose(h.Node, at, h.Occupants, past)
	if got.Mode != Reimage || !got.Possible || !strings.Contains(got.Because, "the operation of the end of allocation alc-1 did not end well") {
		t.Errorf("%+v", got)
	}
	h.Node.MAASSystemID = ""
	if got := Choose(h.Node, at, h.Occupants, past); got.Mode != SoftReset || !got.Possible || got.Because != "" {
		t.Errorf("without MAAS: %+v", got)
	}
}
