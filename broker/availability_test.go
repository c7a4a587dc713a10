package broker

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const turnover = TurnoverKinds + "/reimage"

func TestOneWordSaysWhyANodeIsNotHandedOut(t *testing.T) {
	at := handedOut().Certificate.IssuedAt
	live, ended := []Occupant{{ID: "a-1", Since: at}}, []Occupant{{ID: "a-1", Since: at, EndedAt: at}}
	for _, c := range []struct {
		name   string
		change func(*Handout)
		want   string // the word, and the codes, the deciding one first
	}{
		{"turned over", func(*Handout) {}, "available"},
		{"never had a tenant", func(h *Handout) { h.Certificate = nil }, "available"},
		{"a tenant is on it", func(h *Handout) { h.Occupants = live }, "allocated allocation_live"},
		{"a tenant is on it, and it is broken", func(h *Handout) {
			h.Occupants, h.Node.Status, h.Devices[0].State = live, Quarantined, DeviceMissing
		}, "allocated allocation_live node_status device_missing"},
		{"its tenant is still there while the turnover drains it", func(h *Handout) {
			h.Occupants, h.Node.Status, h.Node.TurnoverOwed = live, Draining, true
			h.RunID, h.Run, h.RunKind = "r-1", "running", turnover
		}, "allocated allocation_live node_status turnover_owed node_in_run"},
		{"its tenant has left, the allocation holds it, and the turnover moves", func(h *Handout) {
			h.Occupants, h.ClaimedBy = ended, "a-1"
			h.RunID, h.Run, h.RunKind = "r-1", "running", turnover
		}, "in_turnover node_in_run allocation_live turnover_missing"},
		{"its tenant has left, the allocation holds it, and no turnover moves", func(h *Handout) {
			h.Occupants, h.ClaimedBy = ended, "a-1"
		}, "allocated allocation_live turnover_missing"},
		{"its tenant has left", func(h *Handout) { h.Occupants = ended }, "in_turnover turnover_missing"},
		{"its tenant has left a silent node", func(h *Handout) {
			h.Occupants, h.Now = ended, h.Now.Add(time.Hour)
		}, "held node_silent turnover_missing"},
		{"a turnover cleans it", func(h *Handout) {
			h.Node.Status, h.Node.TurnoverOwed, h.Occupants = Retired, true, ended
			h.RunID, h.Run, h.RunKind = "r-1", "running", turnover
		}, "in_turnover node_in_run node_status turnover_owed turnover_missing"},
		{"a turnover cleans it, and everything is frozen", func(h *Handout) {
			h.Freezes, h.RunID, h.Run, h.RunKind = []string{"a", "b"}, "r-1", "pending", turnover
		}, "in_turnover node_in_run frozen"},
		{"a turnover waits for a person", func(h *Handout) {
			h.Node.Status, h.Node.TurnoverOwed = Draining, true
			h.RunID, h.Run, h.RunKind = "r-1", "failed_retryable", turnover
		}, "held turnover_owed node_status node_in_run"},
		{"a turnover was cancelled", func(h *Handout) { h.Node.TurnoverOwed = true }, "held turnover_owed"},
		{"a run updates its agent", func(h *Handout) {
			h.RunID, h.Run, h.RunKind = "r-1", "running", AgentKinds+"/update"
		}, "maintenance node_in_run"},
		{"the update of its agent waits for a person", func(h *Handout) {
			h.RunID, h.Run, h.RunKind = "r-1", "failed_manual_intervention", AgentKinds+"/update"
		}, "held node_in_run"},
		{"an operator drains it", func(h *Handout) { h.Node.Status = Draining }, "maintenance node_status"},
		{"its site is frozen", func(h *Handout) { h.Freezes = []string{"a", "b"} }, "maintenance frozen"},
		{"its site is frozen, and a disk is gone", func(h *Handout) {
			h.Freezes, h.Devices[0].State = []string{"a"}, DeviceMissing
		}, "held device_missing frozen"},
		{"its site is disabled", func(h *Handout) { h.SiteDisabled = true }, "maintenance site_disabled"},
		{"its site is disabled, and a tenant is on it", func(h *Handout) {
			h.SiteDisabled, h.Occupants = true, live
		}, "allocated allocation_live site_disabled"},
		{"its site is disabled, and a turnover cleans it", func(h *Handout) {
			h.SiteDisabled, h.RunID, h.Run, h.RunKind = true, "r-1", "running", turnover
		}, "in_turnover node_in_run site_disabled"},
		{"its agent is silent", func(h *Handout) { h.Now = h.Now.Add(time.Second) }, "held node_silent"},
		{"offline", func(h *Handout) { h.Node.Status = Offline }, "held node_status"},
		{"quarantined", func(h *Handout) { h.Node.Status = Quarantined }, "held node_status"},
		{"its certificate falls short", func(h *Handout) { h.Certificate.MeetsPolicy = false }, "held certificate_falls_short"},
		{"it could not be provisioned again and again", func(h *Handout) { h.Provisions.HeldAt = h.Now }, "held provisioning_failing"},
		{"the same, and a turnover cleans it", func(h *Handout) {
			h.Provisions.HeldAt, h.RunID, h.Run, h.RunKind = h.Now, "r-1", "running", turnover
		}, "in_turnover node_in_run provisioning_failing"},
		{"a disk nobody knows", func(h *Handout) { h.Devices[0].State = DeviceUnexpected }, "held device_unexpected"},
		{"an onboarding makes it", func(h *Handout) {
			h.Node.Status, h.RunID, h.Run, h.RunKind = Enrolling, "r-1", "running", OnboardingKind
		}, "out_of_service node_status node_in_run"},
		{"people work on it", func(h *Handout) { h.Maintenance.ID = "mnt-1" }, "maintenance maintenance"},
		{"people work on it, so that it is silent and lacks a disk", func(h *Handout) {
			h.Maintenance.ID, h.Node.Status, h.Devices[0].State, h.Node.TurnoverOwed = "mnt-1", Quarantined, DeviceMissing, true
		}, "maintenance maintenance node_status turnover_owed device_missing"},
		{"people work on it, and its tenant stays", func(h *Handout) {
			h.Maintenance.ID, h.Occupants = "mnt-1", live
		}, "allocated allocation_live maintenance"},
		{"people work on it, and a turnover cleans it", func(h *Handout) {
			h.Maintenance.ID, h.RunID, h.Run, h.RunKind = "mnt-1", "r-1", "running", turnover
		}, "in_turnover node_in_run maintenance"},
		{"people work on it, and it is retired", func(h *Handout) {
			h.Maintenance.ID, h.Node.Status = "mnt-1", Retired
		}, "out_of_service node_status maintenance"},
		{"retired", func(h *Handout) { h.Node.Status = Retired }, "out_of_service node_status"},
		{"deleted with a tenant on it", func(h *Handout) {
			h.Node.Status, h.Occupants = Deleted, live
		}, "out_of_service node_status allocation_live"},
		{"of a status of a later release", func(h *Handout) { h.Node.Status = "upside_down" }, "held node_status"},
	} {
		h := handedOut()
		c.change(&h)
		word, codes := h.Availability()
		if got := strings.TrimSpace(fmt.Sprint(word, " ", strings.Join(codes, " "))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A new reason of the judge gets its word on purpose; until then it is held.
func TestEveryReasonHasAWord(t *testing.T) {
	source, err := os.ReadFile("handout.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?:\badd|reasonAppender\(&all\))\("([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(found) < 10 {
		t.Fatalf("only %d reasons were found in the source", len(found))
	}
	var known []string
	for _, m := range found {
		known = append(known, m[1])
		if _, has := availabilityOf[m[1]]; !has && m[1] != "node_status" && m[1] != "node_in_run" {
			t.Errorf("reason %s has no word", m[1])
		}
	}
	for code := range availabilityOf {
		if !slices.Contains(known, code) {
			t.Errorf("the judge has no reason %s", code)
		}
	}
	for _, s := range NodeStatuses {
		if _, has := availabilityOfStatus[s]; has == (s == Active) {
			t.Errorf("status %s: a word %v", s, has)
		}
	}
	h := handedOut()
	if w := h.word("of_a_later_release"); w != Held {
		t.Errorf("an unknown reason is %s", w)
	}
}

// A node is available exactly if the judge has nothing against it.
func TestAvailableIsWhatTheJudgePermits(t *testing.T) {
	for _, status := range NodeStatuses {
		for _, run := range []string{"", "running", "failed_retryable"} {
			for _, kind := range []string{turnover, OnboardingKind, "of.another"} {
				h := handedOut()
				h.Node.Status, h.Run, h.RunKind = status, run, kind
				if run != "" {
					h.RunID = "r-1"
				}
				word, codes := h.Availability()
				if permitted := len(h.Reasons("", "")) == 0; permitted != (word == Available) || permitted != (len(codes) == 0) {
					t.Errorf("%s, %s %s: %s %v", status, kind, run, word, codes)
				}
			}
		}
	}
}
