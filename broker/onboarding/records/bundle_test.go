package records

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store"
)

const siteID = "6c2b9a0e-3a40-4b7c-9c92-2f1f0b6a1d11"

// site makes a site whose deploy user has a key and, if password is not empty, a password.
func (w *world) site(password string) broker.Site {
	w.t.Helper()
	s := broker.NewSite(siteID)
	s.Name, s.APIBaseURL, s.RegionCode, s.PXEIface, s.NodePXEIface = "dc1", "http://maas.example:5240/MAAS", "dc1", "ens19", "eno1"
	p := broker.NewProfile("7c2b9a0e-3a40-4b7c-9c92-2f1f0b6a1d11", siteID, "default")
	s = must(w.DB.CreateSite(ctx, broker.System, s, p))(w.t)
	if _, err := maas.NewDeployKey(w.Rand, &s); err != nil {
		w.t.Fatal(err)
	}
	if password != "" {
		if err := maas.PutDeployPassword(ctx, w.Secrets, s, password); err != nil {
			w.t.Fatal(err)
		}
	}
	return must(w.DB.SetSiteCredentials(ctx, broker.System, siteID, "", store.Credentials{
		APIToken: true, DeployPassword: password != "", DeploySSHPublicKey: s.DeploySSHPublicKey, DeploySSHKeyPath: s.DeploySSHKeyPath, APIBaseURL: s.APIBaseURL,
	}))(w.t)
}

func (w *world) facts(change func(*onboarding.BundleFacts)) onboarding.BundleFacts {
	p := broker.DefaultPolicy()
	p.Architecture = "amd64/generic"
	boot := onboarding.Device{ID: 1, Name: "sda", Serial: "BOSS1", Size: 1 << 38}
	f := onboarding.BundleFacts{
		RunID: "r-1", SiteID: siteID, SystemID: "abc123", Policy: p.MachinePolicy, Expires: w.clock.Now().Add(time.Hour), BootDisk: boot,
		Disks: []onboarding.Device{boot, {ID: 2, Name: "nvme0n1", Serial: "N1", Size: 1 << 41}, {ID: 3, Name: "nvme1n1", Serial: "N2", Size: 1 << 41}},
		RoCE:  []broker.RoCEAssignment{{Interface: "enp28s0np0", IPv4CIDR: "172.30.9.61/31"}},
	}
	if change != nil {
		change(&f)
	}
	return f
}

func TestABundleHasTheLayersThatTheProfileAsksFor(t *testing.T) {
	w := newWorld(t)
	w.site("")
	node := w.prepare("r-1")
	has := func(change func(*onboarding.BundleFacts)) string {
		b := must(w.Bundle(ctx, node, w.facts(change)))(t)
		for line := range strings.Lines(string(b.UserData)) {
			if names, ok := strings.CutPrefix(line, "|layers "); ok {
				return strings.TrimSpace(names)
			}
		}
		return ""
	}
	if got := has(nil); got != "agent hw-sync roce deploy-user" {
		t.Errorf("by the default policy it has %s", got)
	}
	if got := has(func(f *onboarding.BundleFacts) {
		f.Policy.SiteBootstrapBundleRef = "https://depot.example/x@sha256:" + strings.Repeat("0", 64)
		f.Policy.RequireHWSync, f.Policy.InitializeExtraDisks, f.RoCE = false, true, nil
	}); got != "site agent disks deploy-user" {
		t.Errorf("with a bundle of the site's and without hardware sync it has %s", got)
	}
}

func TestOnlyDisksThatCanBeToldApartAreInitialized(t *testing.T) {
	w := newWorld(t)
	w.site("")
	node := w.prepare("r-1")
	for name, c := range map[string]struct {
		change func(*onboarding.BundleFacts)
		disks  string
		warns  string
	}{
		"each by its serial":         {nil, "|1 N1 2199023255552\n|2 N2 2199023255552\n", ""},
		"without consent":            {func(f *onboarding.BundleFacts) { f.Policy.InitializeExtraDisks = false }, "", ""},
		"no boot disk":               {func(f *onboarding.BundleFacts) { f.BootDisk = onboarding.Device{} }, "", "the boot disk is not known"},
		"no serial":                  {func(f *onboarding.BundleFacts) { f.Disks[1].Serial = "" }, "|1 N2 2199023255552\n", "no serial"},
		"one serial twice":           {func(f *onboarding.BundleFacts) { f.Disks[1].Serial = "N2" }, "", "another disk has the same serial number"},
		"the boot disk's serial":     {func(f *onboarding.BundleFacts) { f.Disks[1].Serial = "BOSS1" }, "|1 N2 2199023255552\n", "the serial number of the boot disk"},
		"a serial that is a command": {func(f *onboarding.BundleFacts) { f.Disks[1].Serial = "x;reboot" }, "|1 N2 2199023255552\n", "no serial"},
	} {
		b := must(w.Bundle(ctx, node, w.facts(func(f *onboarding.BundleFacts) {
			f.Policy.InitializeExtraDisks = true
			if c.change != nil {
				c.change(f)
			}
		})))(t)
		_, rest, _ := strings.Cut(string(b.UserData), "file 0644 /etc/hostler-bootstrap/disks\n")
		got, _, _ := strings.Cut(rest, "file ")
		if warns := strings.Join(b.Warnings, "\n"); got != c.disks || !strings.Contains(warns, c.warns) || strings.Contains(warns, "initialized") != (c.warns != "") {
			t.Errorf("%s: it names %q, and warns %q", name, got, warns)
		}
		if strings.Contains(got, "BOSS1") {
			t.Errorf("%s: the boot disk is among them", name)
		}
	}
}

func TestTheDeployPasswordLeavesTheBrokerAsAHashOfTheNodesOwn(t *testing.T) {
	w := newWorld(t)
	w.site("correct horse battery")
	one, two := w.prepare("r-1"), w.prepare("r-2")
	hash := func(node string) (string, onboarding.Bundle) {
		b := must(w.Bundle(ctx, node, w.facts(nil)))(t)
		_, rest, _ := strings.Cut(string(b.UserData), "hashed_passwd: ")
		got, _, _ := strings.Cut(rest, "\n")
		if bytes.Contains(b.UserData, []byte("correct horse")) {
			t.Fatal("the password is in the bundle")
		}
		return got, b
	}
	a, first := hash(one)
	b, _ := hash(two)
	if again, second := hash(one); a == "" || again != a || a == b || first.Digest != second.Digest {
		t.Errorf("the hashes are %q, again %q, and %q of another node", a, again, b)
	}
	if !bytes.Contains(first.UserData, []byte("|ExecStart=/usr/sbin/usermod --password ! hpcadmin\n")) {
		t.Error("the password is not locked after enrolment")
	}
	if strings.Contains(first.String(), a) {
		t.Error("a bundle shows the hash when it is printed")
	}
	if err := w.Secrets.Delete(ctx, must(w.DB.Site(ctx, siteID))(t).DeployPasswordPath); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Bundle(ctx, one, w.facts(nil)); code(err) != "site_credentials_missing" {
		t.Errorf("without the password that the site has: %v", err)
	}
}

// A first boot installs neither a revoked release nor a release below the floor.
func TestABundleHasNoPackageThatNobodyIsGiven(t *testing.T) {
	for name, forbid := range map[string]func(w *world){
		"revoked": func(w *world) {
			must(w.DB.PublishRelease(ctx, broker.System, store.AgentRelease{Version: "1.4.0", Digest: "sha256:m", Channel: "stable", Reference: "r:5000/agent", Manifest: []byte("m"), Statement: []byte("s")}))(w.t)
			must(w.DB.RevokeRelease(ctx, broker.System, "1.4.0", "no good"))(w.t)
		},
		"below the floor": func(w *world) { must(w.DB.SetReleaseFloor(ctx, broker.System, "1.5.0", "a hole"))(w.t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.site("")
			node := w.prepare("r-1")
			p := must(w.DB.PutPackage(ctx, broker.System, store.Package{Name: "hostler-agent_1.4.0-1_amd64.deb", Version: "1.4.0-1"}, bytes.NewReader([]byte("deb"))))(t)
			named := func() (bool, []string) {
				b := must(w.Bundle(ctx, node, w.facts(nil)))(t)
				return bytes.Contains(b.UserData, []byte(strings.TrimPrefix(p.Digest, "sha256:"))), b.Warnings
			}
			if has, warnings := named(); !has {
				t.Fatalf("it has no package: %v", warnings)
			}
			forbid(w)
			if has, warnings := named(); has || !strings.Contains(strings.Join(warnings, " "), "but for 1 that are revoked or below the floor") {
				t.Errorf("it has it: %v, warnings %v", has, warnings)
			}
		})
	}
}
