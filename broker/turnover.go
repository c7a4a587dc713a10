package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// TurnoverPolicy is what a profile asks of the time between two tenants. A run copies
// the policy when it starts, and the certificate states the policy.
type TurnoverPolicy struct {
	// Environment is the least from which a node may have been looked at: tenant_os
	// or fresh_os.
	Environment string `json:"environment"`
	// RootRequiresReimage asks for fresh_os after a tenant who had root.
	RootRequiresReimage bool `json:"root_requires_reimage"`
	// DiskGrade is the least that must have been done to each disk, in the words of
	// NIST SP 800-88: none, clear, purge.
	DiskGrade string `json:"disk_grade"`
	// AcceptSystemDisk lets pass what a turnover can do to the disk that the system
	// runs from, which nobody erases under it: files are deleted and blocks trimmed,
	// or MAAS does what it was asked for. It stands on the certificate as a downgrade.
	AcceptSystemDisk bool `json:"accept_system_disk"`
	// AcceptMAASErase takes MAAS's word that it erased a machine's disks (erase
	// secure), which nobody has read again. It stands on the certificate likewise. That
	// MAAS could not, and released the machine as it was, neither of them lets pass:
	// see AcceptEraseDowngrade.
	AcceptMAASErase bool `json:"accept_maas_erase,omitempty"`
	// AcceptNetworkDisks lets pass that nothing was done to disks that are on record as
	// not the machine's own. It stands on the certificate likewise.
	AcceptNetworkDisks bool `json:"accept_network_disks,omitempty"`
	GPUAllowUnverified bool `json:"gpu_allow_unverified"`
	GPURequireReset    bool `json:"gpu_require_reset"`

	// ReimageWhenSilent has a soft reset whose node does not answer the drain given up
	// for a reimage, where MAAS has the node's machine.
	ReimageWhenSilent bool `json:"reimage_when_silent,omitempty"`
	// SilentReimagesAtOnce is how many such reimages there may be at the site within an
	// hour: see TooManySilent.
	SilentReimagesAtOnce int `json:"silent_reimages_at_once,omitempty"`

	DrainTimeoutSeconds     int `json:"drain_timeout_seconds"` // an agent that has not answered by then does not answer
	DrainGraceSeconds       int `json:"drain_grace_seconds"`   // between SIGTERM and SIGKILL
	CertificateValidSeconds int `json:"certificate_valid_seconds"`

	// AcceptEraseDowngrade lets a disk pass to which less was done than was asked for or
	// than it can, if that has at least this grade and was verified: clear or purge. Of
	// none it lets all pass, a machine that MAAS released without the erase that it could
	// not make as well. never, and empty, let none pass.
	AcceptEraseDowngrade string `json:"accept_erase_downgrade,omitempty"`

	// ReportOnly are the checks of what lies below the operating system that are told
	// and do not keep a node from use. None by default: a version that changed while a
	// tenant had the machine is what an implant looks like, and what could not be
	// looked at is not clean.
	ReportOnly []string `json:"report_only,omitempty"`
}

// Turnover is the part of a profile's policy that turnovers go by. A profile from
// before there were turnovers has the defaults.
func (p Policy) Turnover() TurnoverPolicy {
	if p.TurnoverEnvironment == "" {
		p = DefaultPolicy()
	}
	t := TurnoverPolicy{
		Environment: p.TurnoverEnvironment, RootRequiresReimage: p.RootRequiresReimage, DiskGrade: p.DiskGrade, AcceptSystemDisk: p.AcceptSystemDisk, AcceptMAASErase: p.AcceptMAASErase, AcceptNetworkDisks: p.AcceptNetworkDisks,
		GPUAllowUnverified: p.GPUAllowUnverified, GPURequireReset: p.GPURequireReset, ReimageWhenSilent: p.ReimageWhenSilent,
		DrainTimeoutSeconds: p.DrainTimeoutSeconds, DrainGraceSeconds: p.DrainGraceSeconds, CertificateValidSeconds: p.CertificateValidSeconds,
		AcceptEraseDowngrade: p.AcceptEraseDowngrade, ReportOnly: p.ReportOnly,
	}
	if p.ReimageWhenSilent {
		t.SilentReimagesAtOnce = p.silentReimages()
	}
	return t
}

func (p Policy) silentReimages() int {
	return cmp.Or(p.SilentReimagesAtOnce, DefaultPolicy().SilentReimagesAtOnce)
}

// TooManySilent reports whether so many nodes whose agents are silent at once are more
// likely something else's fault, a switch's, than the nodes'.
func (t TurnoverPolicy) TooManySilent(nodes int) bool { return nodes > t.SilentReimagesAtOnce }

// wrong says what is wrong with it; empty: nothing.
func (t TurnoverPolicy) wrong() string {
	switch {
	case !slices.Contains([]string{"tenant_os", "fresh_os"}, t.Environment):
		return "turnover_environment is neither tenant_os nor fresh_os"
	case !slices.Contains([]string{"none", "clear", "purge"}, t.DiskGrade):
		return "disk_grade is none of none, clear and purge"
	case !slices.Contains([]string{"", "never", "none", "clear", "purge"}, t.AcceptEraseDowngrade):
		return "accept_erase_downgrade is none of never, none, clear and purge"
	case t.DrainTimeoutSeconds < 1 || t.DrainTimeoutSeconds > 24*3600:
		return "drain_timeout_seconds is not between 1 and 86400"
	case t.DrainGraceSeconds < 0 || t.DrainGraceSeconds > 300:
		return "drain_grace_seconds is not between 0 and 300"
	case t.CertificateValidSeconds < 60 || t.CertificateValidSeconds > 365*24*3600:
		return "certificate_valid_seconds is not between a minute and a year"
	}
	for i, check := range t.ReportOnly {
		switch {
		case !slices.Contains(taskcatalog.PlatformChecks(), check):
			return fmt.Sprintf("report_only names %q, and only these may be told without effect: %s", said(check), strings.Join(taskcatalog.PlatformChecks(), ", "))
		case slices.Contains(t.ReportOnly[:i], check):
			return fmt.Sprintf("report_only names %s twice", check)
		}
	}
	return ""
}
