package broker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// TurnoverPolicy is the copy of TurnoverRules that a turnover makes when it starts. The certificate
// states the digest of the copy's JSON form, so names, order and omitted members never change. A
// group whose members have other names or are omitted in the copy has a twin below, with other tags
// and nothing else: the conversions in Turnover do not compile if a group and its twin differ.
type TurnoverPolicy struct {
	InspectionCopy
	DiskCopy
	GPUPolicy
	SilencePolicy
	DrainPolicy
	CertificateCopy
}

// InspectionCopy is the InspectionPolicy of a turnover.
type InspectionCopy struct {
	TurnoverEnvironment string `json:"environment"`
	RootRequiresReimage bool   `json:"root_requires_reimage"`
}

// DiskCopy is the DiskPolicy of a turnover.
type DiskCopy struct {
	DiskGrade          string `json:"disk_grade"`
	AcceptSystemDisk   bool   `json:"accept_system_disk"`
	AcceptMAASErase    bool   `json:"accept_maas_erase,omitempty"`
	AcceptNetworkDisks bool   `json:"accept_network_disks,omitempty"`
}

// CertificateCopy is the CertificatePolicy of a turnover.
type CertificateCopy struct {
	CertificateValidSeconds int      `json:"certificate_valid_seconds"`
	AcceptEraseDowngrade    string   `json:"accept_erase_downgrade,omitempty"`
	ReportOnly              []string `json:"report_only,omitempty"`
}

// rules has the groups of TurnoverRules that Turnover copies: the conversion there does not compile
// if a group is added to one of them alone.
type rules struct {
	InspectionPolicy
	DiskPolicy
	GPUPolicy
	SilencePolicy
	DrainPolicy
	CertificatePolicy
}

// Turnover returns the part of a profile's policy for turnovers. A profile older than turnovers
// gets the defaults.
func (p Policy) Turnover() TurnoverPolicy {
	if p.TurnoverEnvironment == "" {
		p = DefaultPolicy()
	}
	r := rules(p.TurnoverRules)
	t := TurnoverPolicy{
		InspectionCopy(r.InspectionPolicy), DiskCopy(r.DiskPolicy), r.GPUPolicy,
		r.SilencePolicy, r.DrainPolicy, CertificateCopy(r.CertificatePolicy),
	}
	t.SilentReimagesAtOnce = 0
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

// Asks identifies what a policy asks of a certificate: two policies with the same text ask for the same.
// Drains, silence and the time for which a certificate is valid are no part of it.
func (t TurnoverPolicy) Asks() string {
	t.SilencePolicy, t.DrainPolicy, t.CertificateValidSeconds = SilencePolicy{}, DrainPolicy{}, 0
	raw, err := json.Marshal(t)
	if err != nil {
		panic("broker: a policy has no JSON form: " + err.Error()) // plain fields
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
