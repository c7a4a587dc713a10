package broker

import (
	"strings"
	"testing"
)

func goodSite() Site {
	s := NewSite("id")
	s.Name, s.RegionCode, s.APIBaseURL = "dc1-maas", "eu-1", "http://10.176.46.1:5240/MAAS"
	s.PXEIface, s.PXEVLANVID, s.NodePXEIface = "ens19", 46, "eno8303"
	return s
}

func TestASiteThatCannotWorkIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Site){
		"no name":               func(s *Site) { s.Name = "" },
		"a name with a slash":   func(s *Site) { s.Name = "dc1/x" },
		"a name like an id":     func(s *Site) { s.Name = "0b6f3c1e-0000-4000-8000-000000000000" },
		"no region":             func(s *Site) { s.RegionCode = "" },
		"status":                func(s *Site) { s.Status = "asleep" },
		"no scheme":             func(s *Site) { s.APIBaseURL = "10.0.0.1:5240/MAAS" },
		"another scheme":        func(s *Site) { s.APIBaseURL = "file:///etc/shadow" },
		"a password":            func(s *Site) { s.APIBaseURL = "http://root:hunter2@h/MAAS" },
		"a query":               func(s *Site) { s.APIBaseURL = "http://h/MAAS?x=1" },
		"a fragment":            func(s *Site) { s.APIBaseURL = "http://h/MAAS#x" },
		"dots":                  func(s *Site) { s.APIBaseURL = "http://h/MAAS/../x" },
		"escapes":               func(s *Site) { s.APIBaseURL = "http://h/MAAS%2fx" },
		"the API's own path":    func(s *Site) { s.APIBaseURL = "http://h/MAAS/api/2.0/" },
		"no host":               func(s *Site) { s.APIBaseURL = "http://:5240/MAAS" },
		"CA that is none":       func(s *Site) { s.CACert = "hello" },
		"CA with a key":         func(s *Site) { s.CACert = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" },
		"no PXE interface":      func(s *Site) { s.PXEIface = "" },
		"PXE interface":         func(s *Site) { s.NodePXEIface = "eno1; reboot" },
		"VLAN":                  func(s *Site) { s.PXEVLANVID = 4095 },
		"series":                func(s *Site) { s.DistroSeries = "ubuntu/noble/x" },
		"architecture":          func(s *Site) { s.Architecture = "amd64" },
		"root":                  func(s *Site) { s.DeployUser = "root" },
		"user":                  func(s *Site) { s.DeployUser = "a b" },
		"no DNS":                func(s *Site) { s.UpstreamDNSServers = nil },
		"DNS by name":           func(s *Site) { s.UpstreamDNSServers = []string{"dns.example"} },
		"script without":        func(s *Site) { s.CommissioningScripts = []ScriptVersion{{Name: "x"}} },
		"script with a newline": func(s *Site) { s.CommissioningScripts = []ScriptVersion{{Name: "x", Version: "1\n2"}} },
	} {
		s := goodSite()
		change(&s)
		err := s.Check()
		if err == nil || AsError(err).Code != "site_invalid" {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is in the error: %v", name, err)
		}
	}
}

func TestAnAddressHasOneForm(t *testing.T) {
	for _, given := range []string{"https://MAAS.dc1:5443/MAAS", "https://maas.dc1:5443/MAAS/", "https://maas.dc1:5443/MAAS//"} {
		s := goodSite()
		s.APIBaseURL = given
		if err := s.Check(); err != nil || s.APIBaseURL != "https://maas.dc1:5443/MAAS" {
			t.Errorf("%s is %q, %v", given, s.APIBaseURL, err)
		}
	}
}

func TestARegionIsOneHoweverItsAddressIsWritten(t *testing.T) {
	region := func(address string) string {
		t.Helper()
		s := goodSite()
		s.APIBaseURL = address
		if err := s.Check(); err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		return s.Region()
	}
	for _, row := range []struct{ a, b string }{
		{"http://maas.dc1:5240/MAAS", "http://maas.dc1:05240/./MAAS"},
		{"http://maas.dc1:5240/MAAS", "http://Maas.dc1.:5240//MAAS/"},
		{"http://maas.dc1:5240/MAAS", "https://maas.dc1:5240/MAAS/."},
		{"http://maas.dc1/MAAS", "http://maas.dc1:80/MAAS"},
		{"http://maas.dc1", "http://maas.dc1:080/"},
		{"http://[fd00::1]:5240/MAAS", "http://[fd00:0:0::1]:5240/MAAS"},
	} {
		if a, b := region(row.a), region(row.b); a != b {
			t.Errorf("%s is of region %s, and %s of %s", row.a, a, row.b, b)
		}
	}
	for _, other := range []string{"http://maas.dc2:5240/MAAS", "http://maas.dc1:5241/MAAS", "http://maas.dc1:5240/maas"} {
		if region(other) == region("http://maas.dc1:5240/MAAS") {
			t.Errorf("%s is not told from another", other)
		}
	}
}

func TestAPolicyThatCannotWorkIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Policy){
		"a token that ends before the deployment": func(q *Policy) { q.EnrollmentTokenTTLSeconds = 3600 },
		"less time than MAAS allows a sync":       func(q *Policy) { q.HardwareSyncInterval = "1h" },
		"no interval":                             func(q *Policy) { q.HardwareSyncInterval = "" },
		"an interval of a second":                 func(q *Policy) { q.HardwareSyncInterval = "1s" },
		"no parallel":                             func(q *Policy) { q.BatchMaxParallel = 0 },
		"fewer silent reimages than none":         func(q *Policy) { q.SilentReimagesAtOnce = -1 },
		"endless silent reimages":                 func(q *Policy) { q.SilentReimagesAtOnce = 501 },
		"endless deploys":                         func(q *Policy) { q.MaxDeployRetryAttempts = 100 },
		"no time":                                 func(q *Policy) { q.DeployTimeoutSeconds = 0 },
		"a bundle without a digest":               func(q *Policy) { q.SiteBootstrapBundleRef = "https://files.dc1/site.tar" },
		"disks overwritten without consent":       func(q *Policy) { q.OverwriteKnownSignatures = true },
		"a stage that is none":                    func(q *Policy) { q.StageRetries = map[string]int{"deploy": 1} },
		"a stage that is not tried again":         func(q *Policy) { q.StageRetries = map[string]int{"wait_for_ready": 1} },
		"retries below none":                      func(q *Policy) { q.StageRetries = map[string]int{"deploy_via_maas": -1} },
		"VLAN":                                    func(q *Policy) { vid := 5000; q.PXEVLANVID = &vid },
		"residue that is let pass":                func(q *Policy) { q.ReportOnly = []string{"users"} },
		"a check that is let pass and none":       func(q *Policy) { q.ReportOnly = []string{"bmc"} },
		"a check that is let pass twice":          func(q *Policy) { q.ReportOnly = []string{"efi", "sriov", "efi"} },
		"series":                                  func(q *Policy) { q.DistroSeries = "../x" },
	} {
		p := NewProfile("id", "site", "p")
		change(&p.Policy)
		if err := p.Check(); err == nil || AsError(err).Code != "profile_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := NewProfile("id", "site", DefaultProfile)
	if err := p.Check(); err != nil {
		t.Errorf("the default policy: %v", err)
	}
	for _, interval := range []string{"15m", "15min", "1h 30min", "90m"} {
		if _, err := SyncInterval(interval); err != nil {
			t.Errorf("%s: %v", interval, err)
		}
	}
}

// An older profile without a limit gets the default. A policy that never reimages silent nodes
// has no limit, so that its version does not change.
func TestOnlySoManySilentNodesAreReimaged(t *testing.T) {
	p := NewProfile("id", "site", "p")
	for _, test := range []struct {
		reimages      bool
		limit, counts int
	}{{true, 3, 3}, {true, 7, 7}, {true, 0, 3}, {false, 7, 0}} {
		p.Policy.ReimageWhenSilent, p.Policy.SilentReimagesAtOnce = test.reimages, test.limit
		if err := p.Check(); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
		if q := p.Policy.Turnover(); q.SilentReimagesAtOnce != test.counts || q.TooManySilent(test.counts) || !q.TooManySilent(test.counts+1) {
			t.Errorf("%+v: %d", test, q.SilentReimagesAtOnce)
		}
	}
}

func TestAProfileTakesFromItsSiteWhatItLeavesOut(t *testing.T) {
	s, p := goodSite(), NewProfile("id", "site", "p")
	p.Policy.DistroSeries = "custom/gpuaas-noble"
	zero := 0
	p.Policy.PXEVLANVID = &zero
	q := s.PolicyOf(p)
	if q.DistroSeries != "custom/gpuaas-noble" || q.Architecture != "amd64/generic" || q.PXEIface != "ens19" || q.NodePXEIface != "eno8303" || *q.PXEVLANVID != 0 {
		t.Errorf("%+v", q)
	}
	q.StageRetries["deploy_via_maas"] = 9
	if p.Policy.StageRetries["deploy_via_maas"] == 9 {
		t.Error("a run's policy is the profile's own")
	}
	p.Policy.PXEVLANVID = nil
	if q := s.PolicyOf(p); *q.PXEVLANVID != 46 {
		t.Errorf("VLAN %d", *q.PXEVLANVID)
	}
}

func TestASKUThatDescribesNoMachineIsRefused(t *testing.T) {
	for name, change := range map[string]func(*SKU){
		"no id":           func(s *SKU) { s.ID = "" },
		"no count":        func(s *SKU) { s.GPUCount = 0 },
		"no vendor":       func(s *SKU) { s.GPUVendor = "" },
		"another vendor":  func(s *SKU) { s.GPUVendor = "intel" },
		"a nic twice":     func(s *SKU) { s.NICs = []string{"eno1", "eno1"} },
		"no pattern":      func(s *SKU) { s.BootDisk.Pattern = "" },
		"no expression":   func(s *SKU) { s.BootDisk.Pattern = "boss(" },
		"a pick":          func(s *SKU) { s.BootDisk.Pick = "any" },
		"a floor of none": func(s *SKU) { s.ScrubFloor.MinCoveragePercent = 1 },
	} {
		s := NewSKU()
		s.ID, s.GPUVendor, s.GPUModel, s.GPUCount = "mi300x.192g.8gpu", "amd", "MI300X", 8
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if err := s.Check(); err == nil || AsError(err).Code != "sku_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASelectorHasOneForm(t *testing.T) {
	for _, row := range []struct {
		by          PowerSelector
		value, want string
	}{
		{ByPXEMAC, "52-54-00-AA-BB-CC", "52:54:00:aa:bb:cc"},
		{ByPXEMAC, "52:54:00:aa:bb", ""},
		{ByIPMIIP, "::ffff:10.0.0.9", "10.0.0.9"},
		{ByIPMIIP, "10.0.0.9/24", ""},
		{ByIPMIIP, "fe80::1%eth0", ""},
		{ByIPMIIP, "0.0.0.0", ""},
		{ByHostname, "C07U31", "c07u31"},
		{ByHostname, "c07 u31", ""},
		{"serial", "x", ""},
	} {
		got, err := SelectorValue(row.by, row.value)
		if got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%s %q is %q, %v", row.by, row.value, got, err)
		}
	}
}

func TestARoCEAddressThatNoInterfaceCanHaveIsRefused(t *testing.T) {
	for _, cidr := range []string{"", "172.30.9.61", "172.30.9.61/33", "::1/127", "127.0.0.1/31", "224.0.0.1/31", "0.0.0.0/31", "169.254.1.1/24", "10.0.0.0/24", "10.0.0.255/24", "10.0.0.1/4"} {
		items := []RoCEAssignment{{Hostname: "h", Interface: "eth0", IPv4CIDR: cidr}}
		if err := CheckRoCE(items); err == nil || AsError(err).Code != "roce_invalid" {
			t.Errorf("%q: %v", cidr, err)
		}
	}
	items := []RoCEAssignment{{Hostname: "C07U31", Interface: "eth0", IPv4CIDR: "172.30.9.60/31"}, {Hostname: "c07u31", Interface: "eth1", IPv4CIDR: "10.0.0.255/23"}}
	if err := CheckRoCE(items); err != nil || items[0].Hostname != "c07u31" {
		t.Errorf("%+v, %v", items, err)
	}
}
