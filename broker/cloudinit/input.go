package cloudinit

import (
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Input is the data for a machine's first boot.
type Input struct {
	BrokerURL    string // of the agents' listener: https://HOST[:PORT]
	CASHA256     string // hex SHA-256 of the root's DER
	RootPEM      string // the root certificate
	Token        pki.EnrollToken
	MAASSystemID string
	Package      *Package      // nil: the machine has the agent already
	ClockWait    time.Duration // limit of the wait for the clock; 0: 30 s

	SiteBundle          string // of the site's own: URL@sha256:DIGEST; empty: none
	HardwareSync        bool   // check whether MAAS's hardware sync arrived
	Disks               []Disk // to make file systems on: their content is lost
	OverwriteSignatures bool   // also on disks with known signatures
	RoCE                []RoCE
	DeployUser          *DeployUser // nil: none
}

// Package is the agent package.
type Package struct {
	SHA256  string   // hex
	Mirrors []string // http or https URLs to try where the broker lacks the package or cannot be reached
}

var (
	tokenForm    = lazyregexp.New(`^hsn_[A-Za-z0-9_-]{43}$`)
	hostForm     = lazyregexp.New(`^(\[[0-9a-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?$`)
	mirrorForm   = lazyregexp.New(`^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/:@!+,;=&?%-]*)?$`)
	digestForm   = lazyregexp.New(`^[0-9a-f]{64}$`)
	ifaceForm    = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	systemIDForm = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9_-]{0,63})?$`)
)

// SerialForm is the form of a serial by which the machine can find a disk.
var SerialForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}$`)

const (
	maxMirrors = 8
	maxDisks   = 64
	maxRoCE    = 64
)

// check refuses values that could break out of their place in a file. Code: bootstrap_invalid. No
// error repeats the token.
func (in *Input) check() error {
	host, https := strings.CutPrefix(in.BrokerURL, "https://")
	switch sum, err := hex.DecodeString(in.CASHA256); {
	case !https || !hostForm.MatchString(host):
		return invalid("the broker's URL %q is not https://HOST[:PORT]", in.BrokerURL)
	case err != nil || len(sum) != 32 || strings.ToLower(in.CASHA256) != in.CASHA256:
		return invalid("the root's fingerprint is not a hex SHA-256")
	case !tokenForm.MatchString(in.Token.Reveal()):
		return invalid("the token is not an enrolment token")
	case !systemIDForm.MatchString(in.MAASSystemID):
		return invalid("the MAAS system id %q is not valid", in.MAASSystemID)
	}
	certs, err := pki.ParseCerts([]byte(in.RootPEM))
	if err != nil || len(certs) != 1 || pki.Fingerprint(certs[0]) != in.CASHA256 {
		return invalid("the root certificate does not match the fingerprint")
	}
	if err := in.checkLayers(); err != nil {
		return err
	}
	if in.Package == nil {
		return nil
	}
	if sum, err := hex.DecodeString(in.Package.SHA256); err != nil || len(sum) != 32 ||
		strings.ToLower(in.Package.SHA256) != in.Package.SHA256 {
		return invalid("the package's digest is not a hex SHA-256")
	}
	return CheckMirrors(in.Package.Mirrors)
}

const bundleMark = "@sha256:"

// checkLayers refuses values that the scripts of the layers must not read.
func (in *Input) checkLayers() error {
	if url, digest, ok := strings.Cut(in.SiteBundle, bundleMark); in.SiteBundle != "" &&
		(!ok || !digestForm.MatchString(digest) || CheckMirrors([]string{url}) != nil) {
		return invalid("the site's bundle %q is not a plain http or https URL with @sha256:DIGEST", in.SiteBundle)
	}
	if len(in.Disks) > maxDisks || len(in.RoCE) > maxRoCE {
		return invalid("%d disks and %d RoCE interfaces are given, at most %d and %d", len(in.Disks), len(in.RoCE), maxDisks, maxRoCE)
	}
	seen := map[string]bool{}
	for _, d := range in.Disks {
		if !SerialForm.MatchString(d.Serial) || d.Size <= 0 || seen["disk "+d.Serial] {
			return invalid("the disk %q has no unique serial number or no size", d.Serial)
		}
		seen["disk "+d.Serial] = true
	}
	for _, r := range in.RoCE {
		if !ifaceForm.MatchString(r.Interface) || !r.Address.IsValid() || !r.Address.Addr().Is4() || seen["interface "+r.Interface] {
			return invalid("the RoCE interface %q has no IPv4 address of its own", r.Interface)
		}
		seen["interface "+r.Interface] = true
	}
	return in.DeployUser.check()
}

// CheckMirrors refuses package URLs that cannot be part of a unit's environment file. Code:
// bootstrap_invalid.
func CheckMirrors(urls []string) error {
	if len(urls) > maxMirrors {
		return invalid("%d package URLs are given, at most %d", len(urls), maxMirrors)
	}
	for _, m := range urls {
		u, err := url.Parse(m)
		if err != nil || len(m) > 2000 || u.User != nil || u.Hostname() == "" || !mirrorForm.MatchString(m) {
			return invalid("the package URL %q is not a plain http or https URL", m)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = taskcatalog.Clean(s, 200)
		}
	}
	return broker.Errorf(broker.Invalid, "bootstrap_invalid", "cannot write a bootstrap: "+format, args...)
}
