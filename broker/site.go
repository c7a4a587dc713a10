package broker

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// SiteStatus says whether new work may begin at a site or with a profile.
type SiteStatus string

// The statuses. At a disabled site, runs continue; nothing new begins.
const (
	SiteActive   SiteStatus = "active"
	SiteDisabled SiteStatus = "disabled"
)

// Site is one MAAS region controller. A node refers to its site by Name, so Name never changes.
// Secrets are stored elsewhere: the record holds the path of each secret and when the secret was
// set.
type Site struct {
	ID         string
	Name       string
	RegionCode string
	Status     SiteStatus

	APIBaseURL string // http(s)://HOST:5240/MAAS
	CACert     string // PEM; empty: the system's roots

	PXEIface     string // of the MAAS server
	PXEVLANVID   int
	NodePXEIface string // of a node

	DistroSeries       string
	Architecture       string
	UpstreamDNSServers []string

	DeployUser         string
	DeploySSHIface     string
	DeploySSHPublicKey string // created with the first credentials; the private key is a secret

	Issuer Issuer // of the certificates of the site's machines

	// CommissioningScripts are scripts in MAAS that the site's owner maintains and that runs
	// depend on; Hostler does not maintain their content.
	CommissioningScripts []ScriptVersion

	DefaultProfileID string
	DefaultProfile   string // the profile's name, as the store reads it

	APITokenPath, PowerPath, DeployPasswordPath, DeploySSHKeyPath string    // *_vault_path
	APITokenSetAt, PowerSetAt, DeployPasswordSetAt                time.Time // zero: never
	CreatedAt, UpdatedAt                                          time.Time
}

// ScriptVersion identifies a script in MAAS that must exist in the recorded version: by the
// number or the comment of its newest revision.
type ScriptVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// NewSite is a site with all defaults.
func NewSite(id string) Site {
	at := "maas-sites/" + id + "/"
	return Site{
		ID: id, Status: SiteActive,
		DistroSeries: "ubuntu/noble", Architecture: "amd64/generic", UpstreamDNSServers: []string{"1.1.1.1", "8.8.8.8"},
		DeployUser: "hpcadmin", DeploySSHIface: "eno8303", CommissioningScripts: []ScriptVersion{},
		APITokenPath: at + "api-token", PowerPath: at + "power/default",
		DeployPasswordPath: at + "deploy-password", DeploySSHKeyPath: at + "deploy-ssh-key",
	}
}

var (
	// SiteNameForm is the form of a site's name.
	SiteNameForm = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

	idForm       = lazyregexp.New(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	regionForm   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	ifaceForm    = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	seriesForm   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}(/[A-Za-z0-9][A-Za-z0-9._-]{0,62})?$`)
	archForm     = lazyregexp.New(`^[a-z0-9]{1,31}/[a-z0-9][a-z0-9._-]{0,31}$`)
	accountForm  = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,31}$`)
	scriptForm   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`)
	hostnameForm = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
)

const (
	maxURL        = 500 // bytes
	maxCACert     = 64 << 10
	maxDNSServers = 8
	maxScripts    = 64
	maxVLAN       = 4094
)

// Check refuses an invalid site, and brings the address into its canonical form. Code:
// site_invalid.
func (s *Site) Check() error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "site_invalid", "cannot store site %s: "+format, append([]any{cleanText(s.Name)}, args...)...)
	}
	switch {
	case !SiteNameForm.MatchString(s.Name) || idForm.MatchString(s.Name):
		return bad("its name must be 1 to 63 of a-z, 0-9 and '-', and must not be an id")
	case !regionForm.MatchString(s.RegionCode):
		return bad("region_code %q is not valid (letters, digits, '.', '_' and '-')", cleanText(s.RegionCode))
	case s.Status != SiteActive && s.Status != SiteDisabled:
		return bad("status %q is neither active nor disabled", cleanText(string(s.Status)))
	case !ifaceForm.MatchString(s.PXEIface):
		return bad("pxe_iface %q is not an interface name of the MAAS server, such as ens19", cleanText(s.PXEIface))
	case !ifaceForm.MatchString(s.NodePXEIface):
		return bad("node_pxe_iface %q is not an interface name of a node, such as eno8303", cleanText(s.NodePXEIface))
	case s.PXEVLANVID < 0 || s.PXEVLANVID > maxVLAN:
		return bad("pxe_vlan_vid %d is not between 0 (untagged) and %d", s.PXEVLANVID, maxVLAN)
	case !seriesForm.MatchString(s.DistroSeries):
		return bad("distro_series %q is not valid: use a form such as ubuntu/noble or custom/IMAGE", cleanText(s.DistroSeries))
	case !archForm.MatchString(s.Architecture):
		return bad("architecture %q is not valid: use a form such as amd64/generic", cleanText(s.Architecture))
	case !accountForm.MatchString(s.DeployUser) || s.DeployUser == "root":
		return bad("deploy_user %q is not a valid separate account, such as hpcadmin", cleanText(s.DeployUser))
	case !ifaceForm.MatchString(s.DeploySSHIface):
		return bad("deploy_ssh_iface %q is not an interface name of a node", cleanText(s.DeploySSHIface))
	case len(s.UpstreamDNSServers) == 0 || len(s.UpstreamDNSServers) > maxDNSServers:
		return bad("upstream_dns_servers has %d addresses, and 1 to %d are allowed", len(s.UpstreamDNSServers), maxDNSServers)
	case len(s.CommissioningScripts) > maxScripts:
		return bad("it requires more than %d commissioning_scripts", maxScripts)
	}
	for _, d := range s.UpstreamDNSServers {
		if a, err := netip.ParseAddr(d); err != nil || a.Zone() != "" {
			return bad("upstream DNS server %q is not an IP address", cleanText(d))
		}
	}
	for _, c := range s.CommissioningScripts {
		if !scriptForm.MatchString(c.Name) || c.Version == "" || len(c.Version) > 255 || taskcatalog.Clean(c.Version, 1024) != c.Version {
			return bad("commissioning script %q has no valid name or version", cleanText(c.Name))
		}
	}
	base, why := baseURL(s.APIBaseURL)
	if why != "" {
		return bad("api_base_url %s (such as https://10.0.0.2:5443/MAAS)", why)
	}
	s.APIBaseURL = base
	if why := checkCACert(s.CACert); why != "" {
		return bad("ca_cert %s", why)
	}
	if why := s.Issuer.fault(); why != "" {
		return bad("%s", why)
	}
	return nil
}

// Region is the canonical host, port and path of the site's address, equal for different
// spellings of one address. Two names of one host, or two ports of a host, count as different
// regions.
func (s Site) Region() string {
	u, err := url.Parse(s.APIBaseURL)
	if err != nil {
		return s.APIBaseURL
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(n, 10)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.String()
	}
	return net.JoinHostPort(host, port) + path.Clean("/"+u.Path)
}

// baseURL returns the canonical form of an address, or the reason why the address is invalid. The
// reason never repeats the address, which may contain a password.
func baseURL(raw string) (base, why string) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURL:
		return "", "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "", "is neither http nor https"
	case u.User != nil:
		return "", "contains a user: set the MAAS token with the credentials"
	case u.Hostname() == "":
		return "", "names no host"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(raw, "#") || u.RawPath != "" ||
		strings.Contains(u.Path+"/", "/../"):
		return "", "has more than scheme, host, port and path"
	}
	to := strings.TrimRight(u.Path, "/")
	if strings.Contains(to+"/", "/api/") {
		return "", "is too deep: it must end before /api/2.0"
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + to, ""
}

func checkCACert(text string) (why string) {
	if text == "" {
		return ""
	}
	if len(text) > maxCACert {
		return "is too large"
	}
	for rest := []byte(text); strings.TrimSpace(string(rest)) != ""; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return "contains something that is not a PEM certificate"
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "contains a certificate that cannot be read"
		}
	}
	return ""
}

// cleanText is text from outside, cleaned for an error message.
func cleanText(s string) string { return taskcatalog.Clean(s, 100) }
