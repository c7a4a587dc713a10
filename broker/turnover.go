package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// TurnoverPolicy is a profile's requirements on the time between two tenants. A run copies the
// policy when it starts, and the certificate states the policy.
type TurnoverPolicy struct {
	// Environment is the weakest environment from which the node may be inspected: tenant_os or
	// fresh_os.
	Environment string `json:"environment"`
	// RootRequiresReimage asks for fresh_os after a tenant who had root.
	RootRequiresReimage bool `json:"root_requires_reimage"`
	// DiskGrade is the minimum sanitisation of each disk, in the words of NIST SP 800-88: none,
	// clear, purge.
	DiskGrade string `json:"disk_grade"`
	// AcceptSystemDisk accepts the treatment of the disk that the system runs from, which cannot
	// be erased under a running system: files are deleted and blocks trimmed, or MAAS does as
	// asked. The certificate states a downgrade.
	AcceptSystemDisk bool `json:"accept_system_disk"`
	// AcceptMAASErase accepts MAAS's statement that it erased a machine's disks (erase secure)
	// without a read-back of the disks. The certificate states a downgrade. Neither setting
	// accepts a machine that MAAS released without an erase: see AcceptEraseDowngrade.
	AcceptMAASErase bool `json:"accept_maas_erase,omitempty"`
	// AcceptNetworkDisks accepts that disks on record as not the machine's own are left
	// untouched. The certificate states a downgrade.
	AcceptNetworkDisks bool `json:"accept_network_disks,omitempty"`
	GPUAllowUnverified bool `json:"gpu_allow_unverified"`
	GPURequireReset    bool `json:"gpu_require_reset"`

	// ReimageWhenSilent turns a soft reset into a reimage if the node does not answer the drain
	// and MAAS manages the machine.
	ReimageWhenSilent bool `json:"reimage_when_silent,omitempty"`
	// SilentReimagesAtOnce is the limit of such reimages at the site within an hour: see
	// TooManySilent.
	SilentReimagesAtOnce int `json:"silent_reimages_at_once,omitempty"`

	DrainTimeoutSeconds     int `json:"drain_timeout_seconds"` // an agent without an answer by then counts as silent
	DrainGraceSeconds       int `json:"drain_grace_seconds"`   // between SIGTERM and SIGKILL
	CertificateValidSeconds int `json:"certificate_valid_seconds"`

	// AcceptEraseDowngrade accepts a disk that was treated to a lower grade than requested or
	// than the disk supports, if the treatment was verified and has at least this grade: clear or
	// purge. none accepts every downgrade, also a machine that MAAS released without the erase.
	// never, and empty, accept no downgrade.
	AcceptEraseDowngrade string `json:"accept_erase_downgrade,omitempty"`

	// ReportOnly lists the checks below the operating system that are reported without keeping a
	// node from use. The default is empty: a version that changed during a tenancy may be an
	// implant, and a component that could not be inspected does not count as clean.
	ReportOnly []string `json:"report_only,omitempty"`
}

// Turnover returns the part of a profile's policy for turnovers. A profile older than turnovers
// gets the defaults.
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

// TooManySilent reports whether the number of simultaneously silent nodes points to a common
// cause, such as a switch, rather than to the nodes.
func (t TurnoverPolicy) TooManySilent(nodes int) bool { return nodes > t.SilentReimagesAtOnce }

// wrong says why the policy is invalid; empty: the policy is valid.
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
